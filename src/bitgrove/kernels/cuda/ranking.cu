// Gradients of the losses over pairs: one block per query, sums in int64 fixed point.
//
// A thread owns a row by its rank and pairs it with the ranks above it, up to the truncation; what
// the pairs add to the upper rows is first added up over each warp. One kernel for each loss of
// ranking.h; each also adds up the magnitudes.
#include "blocks.h"
#include "magnitudes.h"
#include "plans.h"
#include "ranking.h"

namespace bitgrove {

struct Query : RankQuery {
  const int32_t* order;  // the row of each rank
  int64_t* sums;         // gradient and hessian of each rank
};

struct RankRules {
  RankTables tables;
  LossParameters parameters;
};

struct RankArrays {  // one entry per row, two in sums
  const double *score, *label;
  const float* weight;  // null: one everywhere
  int32_t* order;
  int64_t* sums;
  float *grad, *hess;
  Magnitudes* magnitudes;
};

struct FixedPair {
  int64_t lambda, hess;
};

// Ranks by counting: rows with a higher score, and equal ones that come first.
__device__ void rank_rows(const double* score, int64_t n_rows, int32_t* order) {
  for (int64_t i = threadIdx.x; i < n_rows; i += RANK_THREADS) {
    const double mine = score[i];
    int64_t rank = 0;
    for (int64_t j = 0; j < n_rows; ++j) rank += score[j] > mine || (score[j] == mine && j < i);
    order[rank] = static_cast<int32_t>(i);
  }
}

template <class Loss>
BG_FN FixedPair fixed_pair(const Query& q, const RankRules& rules, int64_t i, int64_t j,
                           bool scaled, bool& upper_is_high) {
  const int64_t a = q.order[i], b = q.order[j];
  if (q.label[a] == q.label[b]) return {0, 0};
  const RankPair pair = Loss::pair(q, rules.tables, rules.parameters, a, b, i, j, scaled);
  upper_is_high = pair.upper_is_high;
  return {__double2ll_rn(pair.lambda), __double2ll_rn(pair.hess)};
}

// Adds all pairs of the query to its sums; returns this thread's part of sum(-2 lambda).
template <class Loss>
__device__ int64_t add_pairs(const Query& q, const RankRules& rules, bool scaled) {
  int64_t total = 0;
  const int64_t truncation = Loss::truncation(rules.parameters);
  for (int64_t first = 0; first < q.n_rows; first += RANK_THREADS) {
    const int64_t j = first + threadIdx.x;
    int64_t grad = 0, hess = 0;
    const int64_t last = first + RANK_THREADS < q.n_rows ? first + RANK_THREADS : q.n_rows;
    for (int64_t i = 0; i < last && i < truncation; ++i) {
      FixedPair pair{0, 0};
      bool upper_is_high = false;
      if (i < j && j < q.n_rows) pair = fixed_pair<Loss>(q, rules, i, j, scaled, upper_is_high);
      const int64_t upper = upper_is_high ? pair.lambda : -pair.lambda;
      grad -= upper;
      hess += pair.hess;
      total -= 2 * pair.lambda;
      if (__ballot_sync(ALL_LANES, pair.lambda != 0 || pair.hess != 0) == 0) continue;
      const int64_t upper_grad = warp_sum(upper), upper_hess = warp_sum(pair.hess);
      if (threadIdx.x % WARP == 0) {
        atomic_add(q.sums + 2 * i, upper_grad);
        atomic_add(q.sums + 2 * i + 1, upper_hess);
      }
    }
    if (j < q.n_rows) {
      atomic_add(q.sums + 2 * j, grad);
      atomic_add(q.sums + 2 * j + 1, hess);
    }
  }
  return total;
}

// The query of this block.
template <class Loss>
__device__ void ranked(const RankArrays& a, const RankRules& rules) {
  const int64_t query = blockIdx.x, begin = rules.tables.query_offset[query];
  const int64_t n_rows = rules.tables.query_offset[query + 1] - begin;
  if (n_rows == 0) return;
  int32_t* order = a.order + begin;
  int64_t* sums = a.sums + 2 * begin;
  rank_rows(a.score + begin, n_rows, order);
  for (int64_t i = threadIdx.x; i < 2 * n_rows; i += RANK_THREADS) sums[i] = 0;
  __syncthreads();
  const Query q{{a.score + begin, a.label + begin, n_rows, rules.tables.inverse_max_dcg[query],
                 rules.tables.unit[query]},
                order,
                sums};
  const bool scaled = Loss::scaled(q.score[order[0]], q.score[order[n_rows - 1]], rules.parameters);
  __shared__ int64_t partial[RANK_THREADS / WARP];
  __shared__ double norm;
  const int64_t total = block_sum(add_pairs<Loss>(q, rules, scaled), partial);
  if (threadIdx.x == 0) norm = Loss::norm(static_cast<double>(total) / q.unit, rules.parameters);
  __syncthreads();
  Magnitudes mine{};
  for (int64_t rank = threadIdx.x; rank < n_rows; rank += RANK_THREADS) {
    const int64_t row = begin + order[rank];
    const double w = a.weight ? static_cast<double>(a.weight[row]) : 1.0;
    const float g = rank_gradient(__ldcg(sums + 2 * rank), q, norm, w);
    const float h = rank_gradient(__ldcg(sums + 2 * rank + 1), q, norm, w);
    a.grad[row] = g;
    a.hess[row] = h;
    take_magnitudes(g, h, mine);
  }
  add_magnitudes(a.magnitudes, mine);
}

}  // namespace bitgrove

using namespace bitgrove;

#define RANKED_KERNEL(NAME, LOSS)                                                                 \
  extern "C" __global__ void __launch_bounds__(RANK_THREADS) NAME##_gradients(                    \
      const double* score, const double* label, const float* weight, const int64_t* query_offset, \
      const double* inverse_max_dcg, const double* unit, const double* label_gain,                \
      const double* discount, int32_t* order, int64_t* sums, float* grad, float* hess,            \
      Magnitudes* magnitudes, BG_PARAMETER_ARGUMENTS) {                                           \
    const RankTables tables{query_offset, inverse_max_dcg, unit, label_gain, discount};           \
    const RankRules rules{tables, LossParameters{{BG_PARAMETERS}}};                               \
    ranked<LOSS>({score, label, weight, order, sums, grad, hess, magnitudes}, rules);             \
  }

BG_RANKED_LOSSES(RANKED_KERNEL)
