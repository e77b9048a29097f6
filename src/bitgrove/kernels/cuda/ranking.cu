// Gradients of the losses over a query's rows: one block per query, sums in int64 fixed point.
//
// Pairs: a thread owns a row and pairs it with the ranks above it, up to the truncation; what the
// pairs add to the upper rows is first added up over each warp. Rows of equal labels, which have
// nothing to say to each other, lie side by side, so that most warps pass over them. Lists: a
// thread owns rows, and the block adds up what they need of each other. One kernel for each loss of
// ranking.h; each also adds up the magnitudes.
#include "answers.h"
#include "blocks.h"
#include "magnitudes.h"
#include "plans.h"
#include "ranking.h"

namespace bitgrove {

struct Query : RankQuery {
  const int32_t *order,
      *by_label;  // the row of each rank; the ranks, those of equal labels together
  int64_t* sums;  // gradient and hessian of each rank
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

// How many of n keys come before the i-th: larger ones, and equal ones in front of it.
BG_FN int count_before(const int64_t* keys, int n, int i) {
  const int64_t mine = keys[i];
  int n_before = 0;
#pragma unroll 4
  for (int j = 0; j < i; ++j) n_before += keys[j] >= mine;
#pragma unroll 4
  for (int j = i + 1; j < n; ++j) n_before += keys[j] > mine;
  return n_before;
}

// place[k] = which of the n_rows things has the k-th largest key; `keys` is room for them.
template <class KeyOf>
__device__ void sort_by_counting(int64_t n_rows, int64_t* keys, int32_t* place,
                                 const KeyOf& key_of) {
  for (int64_t i = threadIdx.x; i < n_rows; i += RANK_THREADS) keys[i] = key_of(i);
  __syncthreads();
  for (int64_t i = threadIdx.x; i < n_rows; i += RANK_THREADS)
    place[count_before(keys, static_cast<int>(n_rows), static_cast<int>(i))] =
        static_cast<int32_t>(i);
  __syncthreads();
}

// Ordered as the scores are; -0 is 0.
BG_FN int64_t score_key(double score) {
  const int64_t bits = bits_of_double(score + 0.0);
  return bits < 0 ? bits ^ 0x7FFFFFFFFFFFFFFFll : bits;
}

template <class Loss>
BG_FN FixedPair fixed_pair(const Query& q, const RankRules& rules, const RankedRow& upper,
                           const RankedRow& lower, bool scaled) {
  const WeighedPair weighed = weigh_pair<Loss>(upper, lower, q.inverse_best);
  const RankPair pair = pull_pair(weighed, q.unit, rules.parameters, scaled);
  return {__double2ll_rn(pair.lambda), __double2ll_rn(pair.hess)};
}

// What the rows of a warp add to a few upper rows. To add it up in shared memory takes a fifth of
// the instructions of a sum over the warp for each row.
struct UpperRows {
  static constexpr int N_ROWS = 8, LANES = WARP / N_ROWS;  // that add up a row
  FixedPair pulls[N_ROWS][WARP + LANES];                   // rows start four banks apart

  // sums: of the first of these rows, of which there are only n_rows.
  __device__ void add_to(int64_t* sums, int64_t n_rows) const {
    const int lane = threadIdx.x % WARP, row = lane / LANES;
    FixedPair sum{0, 0};
    __syncwarp();
    for (int i = lane % LANES; i < WARP; i += LANES) {
      sum.lambda += pulls[row][i].lambda;
      sum.hess += pulls[row][i].hess;
    }
    __syncwarp();
    for (int step = LANES / 2; step > 0; step /= 2) {
      sum.lambda += __shfl_xor_sync(ALL_LANES, sum.lambda, step);
      sum.hess += __shfl_xor_sync(ALL_LANES, sum.hess, step);
    }
    if (lane % LANES > 0 || row >= n_rows) return;
    atomic_add(sums + 2 * row, sum.lambda);
    atomic_add(sums + 2 * row + 1, sum.hess);
  }
};

// Adds all pairs of the query to its sums; returns this thread's part of sum(-2 lambda).
template <class Loss>
__device__ int64_t add_pairs(const Query& q, const RankRules& rules, bool scaled) {
  __shared__ UpperRows of_warp[RANK_THREADS / WARP];
  UpperRows& uppers = of_warp[threadIdx.x / WARP];
  int64_t total = 0;
  const int64_t truncation = Loss::truncation(rules.parameters),
                n_upper = q.n_rows < truncation ? q.n_rows : truncation;
  for (int64_t first = 0; first < q.n_rows; first += RANK_THREADS) {
    const int64_t at = first + threadIdx.x, j = at < q.n_rows ? q.by_label[at] : 0;  // 0: no pair
    const RankedRow lower = ranked_row<Loss>(q, rules.tables, q.order[j], j);
    FixedPair mine{0, 0};
    for (int64_t from = 0; from < n_upper; from += UpperRows::N_ROWS) {
      for (int k = 0; k < UpperRows::N_ROWS; ++k) {
        FixedPair& pull = uppers.pulls[k][threadIdx.x % WARP];
        pull = {0, 0};
        const int64_t i = from + k;
        if (i >= j || i >= n_upper) continue;
        const RankedRow upper = ranked_row<Loss>(q, rules.tables, q.order[i], i);
        if (upper.label == lower.label) continue;
        const FixedPair pair = fixed_pair<Loss>(q, rules, upper, lower, scaled);
        pull = {upper.label > lower.label ? pair.lambda : -pair.lambda, pair.hess};
        mine.lambda -= pull.lambda;
        mine.hess += pull.hess;
        total -= 2 * pair.lambda;
      }
      uppers.add_to(q.sums + 2 * from, n_upper - from);
    }
    if (at < q.n_rows) {
      atomic_add(q.sums + 2 * j, mine.lambda);
      atomic_add(q.sums + 2 * j + 1, mine.hess);
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
  auto* by_label = reinterpret_cast<int32_t*>(hits + n_rows);
  const double *score = a.score + begin, *label = a.label + begin;
  sort_by_counting(n_rows, sums, order, [&](int64_t row) { return score_key(score[row]); });
  sort_by_counting(n_rows, sums, by_label,
                   [&](int64_t rank) { return static_cast<int64_t>(label[order[rank]]); });
  for (int64_t i = threadIdx.x; i < 2 * n_rows; i += RANK_THREADS) sums[i] = 0;
  __syncthreads();
  const Query q{
      {score, label, n_rows, rules.tables.inverse_best[query], rules.tables.unit[query], hits},
      order,
      by_label,
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
