// Lambdarank gradients: one block per query, sums in int64 fixed point.
//
// A thread owns a row by its rank and pairs it with the ranks above it, up to the truncation; what
// the pairs add to the upper rows is first added up over each warp.
#include "blocks.h"
#include "ranking.h"

namespace bitgrove {

constexpr int THREADS = 128;

struct Query : RankQuery {
  const int32_t* order;  // the row of each rank
  int64_t* sums;         // gradient and hessian of each rank
};

struct FixedPair {
  int64_t lambda, hess;
};

// Ranks by counting: rows with a higher score, and equal ones that come first.
__device__ void rank_rows(const double* score, int64_t n_rows, int32_t* order) {
  for (int64_t i = threadIdx.x; i < n_rows; i += THREADS) {
    const double mine = score[i];
    int64_t rank = 0;
    for (int64_t j = 0; j < n_rows; ++j) rank += score[j] > mine || (score[j] == mine && j < i);
    order[rank] = static_cast<int32_t>(i);
  }
}

BG_FN FixedPair fixed_pair(const Query& q, const RankRules& rules, int64_t i, int64_t j,
                           bool scaled, bool& upper_is_high) {
  const int64_t a = q.order[i], b = q.order[j];
  if (q.label[a] == q.label[b]) return {0, 0};
  const RankPair pair = rank_pair(q, rules, a, b, i, j, scaled);
  upper_is_high = pair.upper_is_high;
  return {__double2ll_rn(pair.lambda), __double2ll_rn(pair.hess)};
}

// Adds all pairs of the query to its sums; returns this thread's part of sum(-2 lambda).
__device__ int64_t add_pairs(const Query& q, const RankRules& rules, bool scaled) {
  int64_t total = 0;
  for (int64_t first = 0; first < q.n_rows; first += THREADS) {
    const int64_t j = first + threadIdx.x;
    int64_t grad = 0, hess = 0;
    const int64_t last = first + THREADS < q.n_rows ? first + THREADS : q.n_rows;
    for (int64_t i = 0; i < last && i < rules.truncation; ++i) {
      FixedPair pair{0, 0};
      bool upper_is_high = false;
      if (i < j && j < q.n_rows) pair = fixed_pair(q, rules, i, j, scaled, upper_is_high);
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

}  // namespace bitgrove

using namespace bitgrove;

extern "C" __global__ void __launch_bounds__(THREADS)
    rank_gradients(const double* score, const double* label, const float* weight,
                   const int64_t* query_offset, const double* inverse_max_dcg, const double* unit,
                   const double* label_gain, const double* discount, double sigmoid,
                   int64_t truncation, int64_t normalise, int32_t* order, int64_t* sums,
                   float* grad, float* hess) {
  const int64_t begin = query_offset[blockIdx.x], n_rows = query_offset[blockIdx.x + 1] - begin;
  if (n_rows == 0) return;
  order += begin;
  sums += 2 * begin;
  rank_rows(score + begin, n_rows, order);
  for (int64_t i = threadIdx.x; i < 2 * n_rows; i += THREADS) sums[i] = 0;
  __syncthreads();
  const RankRules rules{label_gain, discount, sigmoid, truncation, normalise != 0};
  const Query q{
      {score + begin, label + begin, n_rows, inverse_max_dcg[blockIdx.x], unit[blockIdx.x]},
      order,
      sums};
  const bool scaled = rules.normalise && q.score[order[0]] != q.score[order[n_rows - 1]];
  __shared__ int64_t partial[THREADS / WARP];
  __shared__ double norm;
  const int64_t total = block_sum(add_pairs(q, rules, scaled), partial);
  if (threadIdx.x == 0)
    norm = rules.normalise ? query_norm(static_cast<double>(total) / q.unit) : 1.0;
  __syncthreads();
  for (int64_t rank = threadIdx.x; rank < n_rows; rank += THREADS) {
    const int64_t row = begin + order[rank];
    const double w = weight ? static_cast<double>(weight[row]) : 1.0;
    grad[row] = rank_gradient(__ldcg(sums + 2 * rank), q, norm, w);
    hess[row] = rank_gradient(__ldcg(sums + 2 * rank + 1), q, norm, w);
  }
}
