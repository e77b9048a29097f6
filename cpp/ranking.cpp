// Lambdarank gradients: one task per query, sums in int64 fixed point.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "losses.h"
#include "parallel.h"
#include "rooms.h"

namespace bitgrove {
namespace {

struct Rules {
  const double *label_gain, *discount;
  double sigmoid;
  int64_t truncation;
  bool normalise;
};

struct Query {
  const double *score, *label;
  const float* weight;
  float *grad, *hess;
  int64_t n_rows;
  double inverse_max_dcg, unit;  // unit: a power of two, from the number of rows
};

BG_FN int64_t fixed(double x) { return static_cast<int64_t>(std::nearbyint(x)); }

void lambdas_of(const Query& q, const Rules& rules, std::vector<int64_t>& order, std::vector<int64_t>& sums) {
  const int64_t n = q.n_rows;
  order.resize(n);
  sums.assign(2 * n, 0);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return q.score[a] > q.score[b]; });
  const bool scaled = rules.normalise && q.score[order[0]] != q.score[order[n - 1]];
  int64_t total = 0;
  for (int64_t i = 0; i < n && i < rules.truncation; ++i)
    for (int64_t j = i + 1; j < n; ++j) {
      const int64_t a = order[i], b = order[j];
      if (q.label[a] == q.label[b]) continue;
      const bool a_high = q.label[a] > q.label[b];
      const int64_t high = a_high ? a : b, low = a_high ? b : a;
      const double gap = q.score[high] - q.score[low];
      const double gain = rules.label_gain[static_cast<int64_t>(q.label[high])] -
                          rules.label_gain[static_cast<int64_t>(q.label[low])];
      const double weight = pair_weight(gain, rules.discount[i] - rules.discount[j], q.inverse_max_dcg, gap, scaled);
      const GradientPair pair = pair_lambda(gap, weight, rules.sigmoid);
      const int64_t lambda = fixed(pair.grad * q.unit), hess = fixed(pair.hess * q.unit);
      sums[2 * high] += lambda;
      sums[2 * low] -= lambda;
      sums[2 * high + 1] += hess;
      sums[2 * low + 1] += hess;
      total -= 2 * lambda;
    }
  const double sum = static_cast<double>(total) / q.unit;
  const double norm = rules.normalise ? query_norm(sum) : 1.0;
  for (int64_t i = 0; i < n; ++i) {
    const double w = q.weight ? static_cast<double>(q.weight[i]) : 1.0;
    q.grad[i] = to_gradient(((static_cast<double>(sums[2 * i]) / q.unit) * norm) * w);
    q.hess[i] = to_gradient(((static_cast<double>(sums[2 * i + 1]) / q.unit) * norm) * w);
  }
}

void rank_gradients(Vector<const double> score, Vector<const double> label, Optional<const float> weight,
                    Vector<const int64_t> query_offset, Vector<const double> inverse_max_dcg,
                    Vector<const double> unit, Vector<const double> label_gain, Vector<const double> discount,
                    double sigmoid, int64_t truncation, bool normalise, Vector<float> grad, Vector<float> hess,
                    int n_threads) {
  const int64_t n = score.shape(0), n_queries = static_cast<int64_t>(query_offset.shape(0)) - 1;
  require(n_queries >= 0 && query_offset(0) == 0 && query_offset(n_queries) == n, "queries do not cover the rows");
  require(static_cast<int64_t>(label.shape(0)) == n && static_cast<int64_t>(grad.shape(0)) == n &&
          static_cast<int64_t>(hess.shape(0)) == n, "arrays differ in length");
  require(static_cast<int64_t>(inverse_max_dcg.shape(0)) == n_queries && static_cast<int64_t>(unit.shape(0)) == n_queries,
          "query arrays differ in length");
  for (int64_t q = 0; q < n_queries; ++q)
    require(query_offset(q) <= query_offset(q + 1) &&
            query_offset(q + 1) - query_offset(q) <= static_cast<int64_t>(discount.shape(0)), "bad query offsets");
  const Rules rules{label_gain.data(), discount.data(), sigmoid, truncation, normalise};
  const double *s = score.data(), *y = label.data(), *inverse = inverse_max_dcg.data(), *units = unit.data();
  const float* w = weight ? weight->data() : nullptr;
  const int64_t* offset = query_offset.data();
  float *g = grad.data(), *h = hess.data();
  nb::gil_scoped_release release;
  parallel_tasks(n_queries, n_threads, [&](int64_t i) {
    thread_local std::vector<int64_t> order, sums;
    const int64_t begin = offset[i], n_rows = offset[i + 1] - begin;
    if (n_rows == 0) return;
    lambdas_of({s + begin, y + begin, w ? w + begin : nullptr, g + begin, h + begin, n_rows, inverse[i], units[i]},
               rules, order, sums);
  });
}

}  // namespace

void init_ranking(nb::module_& m) {
  m.def("rank_gradients", &rank_gradients, nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg(),
        nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg());
}

}  // namespace bitgrove
