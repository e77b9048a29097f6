// Gradients of the losses over pairs: one task per query, sums in int64 fixed point.
#include "ranking.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/parallel.h"
#include "objectives/gradients.h"

namespace bitgrove {
namespace {

struct Query : RankQuery {
  const float* weight;
  float *grad, *hess;
};

BG_FN int64_t fixed(double x) { return static_cast<int64_t>(std::nearbyint(x)); }

template <class LossOf>
void lambdas_of(const Query& q, const RankTables& tables, const LossParameters& parameters,
                std::vector<int64_t>& order, std::vector<int64_t>& sums) {
  const int64_t n = q.n_rows, truncation = LossOf::truncation(parameters);
  order.resize(n);
  sums.assign(2 * n, 0);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return q.score[a] > q.score[b]; });
  const bool scaled = LossOf::scaled(q.score[order[0]], q.score[order[n - 1]], parameters);
  int64_t total = 0;
  for (int64_t i = 0; i < n && i < truncation; ++i)
    for (int64_t j = i + 1; j < n; ++j) {
      const int64_t a = order[i], b = order[j];
      if (q.label[a] == q.label[b]) continue;
      const RankPair pair = LossOf::pair(q, tables, parameters, a, b, i, j, scaled);
      const int64_t high = pair.upper_is_high ? a : b, low = pair.upper_is_high ? b : a;
      const int64_t lambda = fixed(pair.lambda), hess = fixed(pair.hess);
      sums[2 * high] += lambda;
      sums[2 * low] -= lambda;
      sums[2 * high + 1] += hess;
      sums[2 * low + 1] += hess;
      total -= 2 * lambda;
    }
  const double norm = LossOf::norm(static_cast<double>(total) / q.unit, parameters);
  for (int64_t i = 0; i < n; ++i) {
    const double w = q.weight ? static_cast<double>(q.weight[i]) : 1.0;
    q.grad[i] = rank_gradient(sums[2 * i], q, norm, w);
    q.hess[i] = rank_gradient(sums[2 * i + 1], q, norm, w);
  }
}

// A table of the objective, of n entries (-1: of any number).
template <class T>
Vector<const T> table(const GradientCall& call, size_t i, int64_t n) {
  require(i < nb::len(call.tables), "a table of the objective is missing");
  auto found = nb::cast<Vector<const T>>(call.tables[i]);
  require(n < 0 || static_cast<int64_t>(found.shape(0)) == n, "query arrays differ in length");
  return found;
}

void check_queries(const GradientCall& call, const Vector<const int64_t>& offset,
                   int64_t n_discounts) {
  const int64_t n_queries = static_cast<int64_t>(offset.shape(0)) - 1;
  require(n_queries >= 0 && offset(0) == 0 && offset(n_queries) == call.n_rows,
          "queries do not cover the rows");
  for (int64_t q = 0; q < n_queries; ++q)
    require(offset(q) <= offset(q + 1) && offset(q + 1) - offset(q) <= n_discounts,
            "bad query offsets");
}

template <class LossOf>
void ranked(const GradientCall& call) {
  require(call.n_outputs == 1, "a ranked loss has one output");
  const auto offset = table<int64_t>(call, 0, -1);
  const int64_t n_queries = static_cast<int64_t>(offset.shape(0)) - 1;
  const auto inverse = table<double>(call, 1, n_queries), unit = table<double>(call, 2, n_queries);
  const auto gain = table<double>(call, 3, -1), discount = table<double>(call, 4, -1);
  check_queries(call, offset, static_cast<int64_t>(discount.shape(0)));
  const RankTables tables{offset.data(), inverse.data(), unit.data(), gain.data(), discount.data()};
  nb::gil_scoped_release release;
  parallel_tasks(n_queries, call.n_threads, [&](int64_t i) {
    thread_local std::vector<int64_t> order, sums;
    const int64_t begin = tables.query_offset[i], n_rows = tables.query_offset[i + 1] - begin;
    if (n_rows == 0) return;
    const Query query{{call.scores + begin, call.label + begin, n_rows, tables.inverse_max_dcg[i],
                       tables.unit[i]},
                      call.weight ? call.weight + begin : nullptr,
                      call.grad + begin,
                      call.hess + begin};
    lambdas_of<LossOf>(query, tables, call.parameters, order, sums);
    Magnitudes mine{};
    take_magnitudes(query.grad, query.hess, n_rows, mine);
    add_magnitudes(*call.magnitudes, mine);
  });
}

}  // namespace

#define RANKED_LOSS(NAME, LOSS) {#NAME, "ranked", &ranked<LOSS>},

std::vector<Loss> ranked_losses() { return {BG_RANKED_LOSSES(RANKED_LOSS)}; }

}  // namespace bitgrove
