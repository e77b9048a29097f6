// Gradients of the losses over a query's rows: one block per query, sums in int64 fixed point.
//
// Pairs: a thread owns a row by its rank and pairs it with the ranks above it, up to the
// truncation; what the pairs add to the upper rows is first added up over each warp. Lists: a
// thread owns rows, and the block adds up what they need of each other. One kernel for each loss of
// ranking.h; each also adds up the magnitudes.
#include "answers.h"
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

struct RankArrays {  // one entry per row, RANK_SCRATCH in scratch
  const double *score, *label;
  const float* weight;  // null: one everywhere
  int32_t* order;
  int64_t* scratch;
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
BG_FN FixedPair fixed_pair(const Query& q, const RankRules& rules, const RankedRow& upper,
                           const RankedRow& lower, bool scaled) {
  if (upper.label == lower.label) return {0, 0};
  const WeighedPair weighed = weigh_pair<Loss>(upper, lower, q.inverse_best);
  const RankPair pair = pull_pair(weighed, q.unit, rules.parameters, scaled);
  return {__double2ll_rn(pair.lambda), __double2ll_rn(pair.hess)};
}

// Adds all pairs of the query to its sums; returns this thread's part of sum(-2 lambda).
template <class Loss>
__device__ int64_t add_pairs(const Query& q, const RankRules& rules, bool scaled) {
  int64_t total = 0;
  const int64_t truncation = Loss::truncation(rules.parameters);
  for (int64_t first = 0; first < q.n_rows; first += RANK_THREADS) {
    const int64_t j = first + threadIdx.x;
    const bool is_row = j < q.n_rows;
    const RankedRow lower = is_row ? ranked_row<Loss>(q, rules.tables, q.order[j], j) : RankedRow{};
    int64_t grad = 0, hess = 0;
    const int64_t last = first + RANK_THREADS < q.n_rows ? first + RANK_THREADS : q.n_rows;
    for (int64_t i = 0; i < last && i < truncation; ++i) {
      const RankedRow row = ranked_row<Loss>(q, rules.tables, q.order[i], i);
      FixedPair pair{0, 0};
      if (i < j && is_row) pair = fixed_pair<Loss>(q, rules, row, lower, scaled);
      const int64_t upper = row.label > lower.label ? pair.lambda : -pair.lambda;
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
    if (is_row) {
      atomic_add(q.sums + 2 * j, grad);
      atomic_add(q.sums + 2 * j + 1, hess);
    }
  }
  return total;
}

// hit_at of all relevant ranks down to each.
__device__ void count_hits(const RankQuery& q, const int32_t* order, int64_t* hits,
                           int64_t* partial) {
  __shared__ int64_t so_far;
  int64_t before = 0;
  for (int64_t first = 0; first < q.n_rows; first += RANK_THREADS) {
    const int64_t rank = first + threadIdx.x;
    const bool is_hit = rank < q.n_rows && q.label[order[rank]] > 0.0;
    const int64_t found = before + block_scan(is_hit ? hit_at(rank) : 0, partial);
    if (rank < q.n_rows) hits[rank] = found;
    if (threadIdx.x == RANK_THREADS - 1) so_far = found;
    __syncthreads();
    before = so_far;
  }
}

// The query of this block.
template <class Loss>
__device__ void ranked(const RankArrays& a, const RankRules& rules) {
  const int64_t query = blockIdx.x, begin = rules.tables.query_offset[query];
  const int64_t n_rows = rules.tables.query_offset[query + 1] - begin;
  if (n_rows == 0) return;
  int32_t* order = a.order + begin;
  int64_t *sums = a.scratch + RANK_SCRATCH * begin, *hits = sums + 2 * n_rows;
  rank_rows(a.score + begin, n_rows, order);
  for (int64_t i = threadIdx.x; i < 2 * n_rows; i += RANK_THREADS) sums[i] = 0;
  __syncthreads();
  const Query q{{a.score + begin, a.label + begin, n_rows, rules.tables.inverse_best[query],
                 rules.tables.unit[query], hits},
                order,
                sums};
  const bool scaled = Loss::scaled(q.score[order[0]], q.score[order[n_rows - 1]], rules.parameters);
  __shared__ int64_t partial[RANK_THREADS / WARP];
  __shared__ double norm;
  if (Loss::COUNTS_HITS) count_hits(q, order, hits, partial);
  const int64_t total = block_sum(add_pairs<Loss>(q, rules, scaled), partial);
  if (threadIdx.x == 0) norm = Loss::norm(static_cast<double>(total) / q.unit, rules.parameters);
  __syncthreads();
  Magnitudes mine{};
  for (int64_t rank = threadIdx.x; rank < n_rows; rank += RANK_THREADS) {
    const int64_t row = begin + order[rank];
    const double w = a.weight ? static_cast<double>(a.weight[row]) : 1.0;
    const float g = rank_gradient(__ldcg(sums + 2 * rank), 1.0 / q.unit, norm, w);
    const float h = rank_gradient(__ldcg(sums + 2 * rank + 1), 1.0 / q.unit, norm, w);
    a.grad[row] = g;
    a.hess[row] = h;
    take_magnitudes(g, h, mine);
  }
  add_magnitudes(a.magnitudes, mine);
}

// The block's sum of rounded numbers, as a float64 in every thread.
__device__ double fixed_sum(int64_t mine, double unit, int64_t* partial) {
  __shared__ double result;
  const int64_t sum = block_sum(mine, partial);
  if (threadIdx.x == 0) result = static_cast<double>(sum) / unit;
  __syncthreads();
  return result;
}

__device__ double largest_of(const double* values, int64_t n) {
  __shared__ double parts[RANK_THREADS / WARP];
  double mine = values[0];
  for (int64_t i = threadIdx.x; i < n; i += RANK_THREADS)
    mine = values[i] > mine ? values[i] : mine;
  for (int step = WARP / 2; step > 0; step /= 2) {
    const double other = __shfl_xor_sync(ALL_LANES, mine, step);
    mine = other > mine ? other : mine;
  }
  if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = mine;
  __syncthreads();
  for (int w = 0; w < RANK_THREADS / WARP; ++w) mine = parts[w] > mine ? parts[w] : mine;
  return mine;
}

// The query of this block.
template <class Loss>
__device__ void listwise(const RankArrays& a, const ListTables& tables,
                         const LossParameters& parameters) {
  const int64_t query = blockIdx.x, begin = tables.query_offset[query];
  const int64_t n_rows = tables.query_offset[query + 1] - begin;
  if (n_rows == 0) return;
  __shared__ int64_t partial[RANK_THREADS / WARP];
  const double unit = tables.unit[query], largest = largest_of(a.score + begin, n_rows);
  ListRow* rows = reinterpret_cast<ListRow*>(a.scratch + RANK_SCRATCH * begin);
  int64_t powers = 0, worths = 0, firsts = 0, seconds = 0;
  for (int64_t i = threadIdx.x; i < n_rows; i += RANK_THREADS) {
    const int64_t row = begin + i;
    rows[i] = {Loss::power(a.score[row], largest),
               Loss::worth(tables, a.label[row], tables.row_id[row], parameters)};
    powers += __double2ll_rn(rows[i].share * POWER_UNIT);
    worths += __double2ll_rn(rows[i].target * unit);
  }
  const double power = fixed_sum(powers, POWER_UNIT, partial);
  const double worth = fixed_sum(worths, unit, partial);
  for (int64_t i = threadIdx.x; i < n_rows; i += RANK_THREADS) {
    rows[i] = {rows[i].share / power, rows[i].target / worth};
    firsts += __double2ll_rn(Loss::first(rows[i]) * CORRECTION_UNIT);
  }
  const double first = fixed_sum(firsts, CORRECTION_UNIT, partial);
  for (int64_t i = threadIdx.x; i < n_rows; i += RANK_THREADS)
    seconds += __double2ll_rn(Loss::second(rows[i], first) * CORRECTION_UNIT);
  const double second = fixed_sum(seconds, CORRECTION_UNIT, partial);
  Magnitudes mine{};
  for (int64_t i = threadIdx.x; i < n_rows; i += RANK_THREADS) {
    const int64_t row = begin + i;
    // A row alone has nothing to be ranked against.
    const GradientPair pair =
        n_rows > 1 ? Loss::gradient(rows[i], first, second) : GradientPair{0.0, 0.0};
    const double w = a.weight ? static_cast<double>(a.weight[row]) : 1.0;
    const float g = to_gradient(pair.grad * w), h = to_gradient(pair.hess * w);
    a.grad[row] = g;
    a.hess[row] = h;
    take_magnitudes(g, h, mine);
  }
  add_magnitudes(a.magnitudes, mine);
}

}  // namespace bitgrove

using namespace bitgrove;

// Scores, labels and weights come first; then the objective's tables; then room, results,
// parameters.
#define RANKED_KERNEL(NAME, LOSS)                                                                 \
  extern "C" __global__ void __launch_bounds__(RANK_THREADS) NAME##_gradients(                    \
      const double* score, const double* label, const float* weight, const int64_t* query_offset, \
      const double* inverse_best, const double* unit, const double* label_gain,                   \
      const double* discount, int32_t* order, int64_t* scratch, float* grad, float* hess,         \
      const __grid_constant__ AnswerPlace answer, int64_t first_output, BG_PARAMETER_ARGUMENTS) { \
    Magnitudes* magnitudes = sums_of<Magnitudes>(answer) + first_output;                          \
    const RankTables tables{query_offset, inverse_best, unit, label_gain, discount};              \
    const RankRules rules{tables, LossParameters{{BG_PARAMETERS}}};                               \
    ranked<LOSS>({score, label, weight, order, scratch, grad, hess, magnitudes}, rules);          \
    tell_host(answer);                                                                            \
  }

BG_RANKED_LOSSES(RANKED_KERNEL)

#define LISTWISE_KERNEL(NAME, LOSS)                                                               \
  extern "C" __global__ void __launch_bounds__(RANK_THREADS) NAME##_gradients(                    \
      const double* score, const double* label, const float* weight, const int64_t* query_offset, \
      const double* unit, const double* label_gain, const uint64_t* row_id, int32_t* order,       \
      int64_t* scratch, float* grad, float* hess, const __grid_constant__ AnswerPlace answer,     \
      int64_t first_output, BG_PARAMETER_ARGUMENTS) {                                             \
    Magnitudes* magnitudes = sums_of<Magnitudes>(answer) + first_output;                          \
    const ListTables tables{query_offset, unit, label_gain, row_id};                              \
    const RankArrays arrays{score, label, weight, order, scratch, grad, hess, magnitudes};        \
    listwise<LOSS>(arrays, tables, LossParameters{{BG_PARAMETERS}});                              \
    tell_host(answer);                                                                            \
  }

BG_LISTWISE_LOSSES(LISTWISE_KERNEL)
