// Lambdarank gradients: one task per query, sums in int64 fixed point.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "bindings/rooms.h"
#include "common/parallel.h"
#include "ranking.h"

namespace bitgrove {
namespace {

struct Query : RankQuery {
  const float* weight;
  float *grad, *hess;
};

BG_FN int64_t fixed(double x) { return static_cast<int64_t>(std::nearbyint(x)); }

void lambdas_of(const Query& q, const RankRules& rules, std::vector<int64_t>& order,
                std::vector<int64_t>& sums) {
  const int64_t n = q.n_rows;
  order.resize(n);
  sums.assign(2 * n, 0);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return q.score[a] > q.score[b]; });
  const bool scaled = rules.normalise && q.score[order[0]] != q.score[order[n - 1]];
  int64_t total = 0;
  for (int64_t i = 0; i < n && i < rules.truncation; ++i)
    for (int64_t j = i + 1; j < n; ++j) {
      const int64_t a = order[i], b = order[j];
      if (q.label[a] == q.label[b]) continue;
      const RankPair pair = rank_pair(q, rules, a, b, i, j, scaled);
      const int64_t high = pair.upper_is_high ? a : b, low = pair.upper_is_high ? b : a;
      const int64_t lambda = fixed(pair.lambda), hess = fixed(pair.hess);
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
    q.grad[i] = rank_gradient(sums[2 * i], q, norm, w);
    q.hess[i] = rank_gradient(sums[2 * i + 1], q, norm, w);
  }
}

void rank_gradients(Vector<const double> score, Vector<const double> label,
                    Optional<const float> weight, Vector<const int64_t> query_offset,
                    Vector<const double> inverse_max_dcg, Vector<const double> unit,
                    Vector<const double> label_gain, Vector<const double> discount, double sigmoid,
                    int64_t truncation, bool normalise, Vector<float> grad, Vector<float> hess,
                    int n_threads) {
  const int64_t n = score.shape(0), n_queries = static_cast<int64_t>(query_offset.shape(0)) - 1;
  require(n_queries >= 0 && query_offset(0) == 0 && query_offset(n_queries) == n,
          "queries do not cover the rows");
  require(static_cast<int64_t>(label.shape(0)) == n && static_cast<int64_t>(grad.shape(0)) == n &&
              static_cast<int64_t>(hess.shape(0)) == n,
          "arrays differ in length");
  require(static_cast<int64_t>(inverse_max_dcg.shape(0)) == n_queries &&
              static_cast<int64_t>(unit.shape(0)) == n_queries,
          "query arrays differ in length");
  for (int64_t q = 0; q < n_queries; ++q)
    require(query_offset(q) <= query_offset(q + 1) &&
                query_offset(q + 1) - query_offset(q) <= static_cast<int64_t>(discount.shape(0)),
            "bad query offsets");
  const RankRules rules{label_gain.data(), discount.data(), sigmoid, truncation, normalise};
  const double *s = score.data(), *y = label.data(), *inverse = inverse_max_dcg.data(),
               *units = unit.data();
  const float* w = weight ? weight->data() : nullptr;
  const int64_t* offset = query_offset.data();
  float *g = grad.data(), *h = hess.data();
  nb::gil_scoped_release release;
  parallel_tasks(n_queries, n_threads, [&](int64_t i) {
    thread_local std::vector<int64_t> order, sums;
    const int64_t begin = offset[i], n_rows = offset[i + 1] - begin;
    if (n_rows == 0) return;
    const Query query{{s + begin, y + begin, n_rows, inverse[i], units[i]},
                      w ? w + begin : nullptr,
                      g + begin,
                      h + begin};
    lambdas_of(query, rules, order, sums);
  });
}

}  // namespace

void init_ranking(nb::module_& m) {
  m.def("rank_gradients", &rank_gradients, nb::arg(), nb::arg(), nb::arg().none(), nb::arg(),
        nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
        nb::arg(), nb::arg());
}

}  // namespace bitgrove
