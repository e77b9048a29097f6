// Leaves of a finished tree: sums of the original gradients, quantiles of the residuals, and adding
// leaf values to scores.
//
// A leaf's rows ascend. Every leaf is cut into the same number of parts, and blocks run
// part by part through all leaves: those at work at one time share the same range of rows, so the
// sectors they gather from are fetched from memory once for all leaves. The numbers of leaves are
// scattered in this way; sums and values then read them, gradients and scores in the order of the
// rows.
#include "answers.h"
#include "blocks.h"
#include "math.h"
#include "placed_bins.h"
#include "plans.h"
#include "tiles.h"

namespace bitgrove {

constexpr int AT_ONCE = 4;  // rows of a thread whose loads are under way together

struct RowRange {
  int64_t begin, end;
};

// Part blockIdx.y of leaf blockIdx.x.
template <class Place>
BG_FN RowRange row_range(const Place* begins, const Place* ends) {
  const int64_t begin = begins[blockIdx.x], size = ends[blockIdx.x] - begin, part = blockIdx.y;
  return {begin + size * part / gridDim.y, begin + size * (part + 1) / gridDim.y};
}

// Of 16 bits where that is enough; a row that the tree has not seen has no leaf.
template <class Number>
constexpr Number NO_LEAF = static_cast<Number>(-1);

template <class Number>
__device__ void mark_leaves(const int32_t* rows, const int32_t* begins, const int32_t* ends,
                            Number* leaf_of) {
  const RowRange range = row_range(begins, ends);
#pragma unroll 4
  for (int64_t i = range.begin + threadIdx.x; i < range.end; i += THREADS)
    leaf_of[rows[i]] = static_cast<Number>(blockIdx.x);
}

// Calls work(row, leaf, values of load) for the rows of this thread that have a leaf.
template <class Number, class Load, class Work>
__device__ void for_rows(const Number* leaf_of, int64_t n_rows, const Load& load,
                         const Work& work) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS * AT_ONCE;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * THREADS * AT_ONCE + threadIdx.x;
       first < n_rows; first += step) {
    Number leaf[AT_ONCE];
    decltype(load(int64_t{})) loaded[AT_ONCE];
#pragma unroll
    for (int k = 0; k < AT_ONCE; ++k) {
      const int64_t row = first + k * THREADS;
      leaf[k] = row < n_rows ? leaf_of[row] : NO_LEAF<Number>;
      if (row < n_rows) loaded[k] = load(row);
    }
#pragma unroll
    for (int k = 0; k < AT_ONCE; ++k)
      if (leaf[k] != NO_LEAF<Number>) work(first + k * THREADS, leaf[k], loaded[k]);
  }
}

// Sums of 64 bits in shared memory, whose fast atomics have 32: a carry is added to the upper half.
constexpr int SUM_PLACES = 1024;

struct LocalSums {
  uint32_t low[SUM_PLACES], high[SUM_PLACES];

  BG_FN void clear() {
    for (int i = threadIdx.x; i < SUM_PLACES; i += THREADS) low[i] = high[i] = 0;
  }
  BG_FN void add(int place, int64_t value) {
    const uint32_t part = static_cast<uint32_t>(value), before = atomicAdd(low + place, part);
    const uint32_t more = static_cast<uint32_t>(value >> 32) + (before + part < before);
    if (more != 0) atomicAdd(high + place, more);
  }
  BG_FN int64_t at(int place) const {
    return static_cast<int64_t>(static_cast<uint64_t>(high[place]) << 32 | low[place]);
  }
};

// sums: of each leaf, int64 fixed point of grad * grad_unit and hess * hess_unit, rounded to even.
// Lanes add to several copies of a leaf's sums, so that neighbours of one leaf seldom wait.
template <class Number>
__device__ void leaf_sums(const Number* leaf_of, int64_t n_rows, int64_t n_leaves,
                          const float* grad, const float* hess, double grad_unit, double hess_unit,
                          const AnswerPlace& answer) {
  GradientSums* sums = sums_of<GradientSums>(answer);
  __shared__ LocalSums grads, hesses;
  int n_copies = 1;
  while (n_copies < WARP && 2 * n_copies * n_leaves <= SUM_PLACES) n_copies *= 2;
  const int copy = threadIdx.x % n_copies;
  const bool is_local = n_leaves <= SUM_PLACES;
  grads.clear();
  hesses.clear();
  __syncthreads();
  for_rows(
      leaf_of, n_rows, [&](int64_t row) { return make_float2(grad[row], hess ? hess[row] : 0.0f); },
      [&](int64_t, Number leaf, float2 loaded) {
        const int64_t grad_part = __double2ll_rn(static_cast<double>(loaded.x) * grad_unit),
                      hess_part =
                          hess ? __double2ll_rn(static_cast<double>(loaded.y) * hess_unit) : 1;
        if (is_local) {
          grads.add(static_cast<int>(leaf) * n_copies + copy, grad_part);
          hesses.add(static_cast<int>(leaf) * n_copies + copy, hess_part);
        } else {
          atomic_add(&sums[leaf].grad, grad_part);
          atomic_add(&sums[leaf].hess, hess_part);
        }
      });
  __syncthreads();
  for (int64_t leaf = threadIdx.x; is_local && leaf < n_leaves; leaf += THREADS) {
    int64_t grad_sum = 0, hess_sum = 0;
    for (int place = static_cast<int>(leaf) * n_copies, c = 0; c < n_copies; ++c) {
      grad_sum += grads.at(place + c);
      hess_sum += hesses.at(place + c);
    }
    if (grad_sum != 0) atomic_add(&sums[leaf].grad, grad_sum);
    if (hess_sum != 0) atomic_add(&sums[leaf].hess, hess_sum);
  }
  tell_host(answer);
}

template <class Number>
__device__ void add_leaf_values(double* scores, const Number* leaf_of, int64_t n_rows,
                                const double* values, int64_t n_leaves) {
  __shared__ double local[SUM_PLACES];  // lanes look up values of different leaves
  if (n_leaves <= SUM_PLACES) {
    for (int64_t leaf = threadIdx.x; leaf < n_leaves; leaf += THREADS) local[leaf] = values[leaf];
    __syncthreads();
    values = local;
  }
  for_rows(
      leaf_of, n_rows, [&](int64_t row) { return scores[row]; },
      [&](int64_t row, Number leaf, double score) { scores[row] = score + values[leaf]; });
}

}  // namespace bitgrove

using namespace bitgrove;

#define LEAF_KERNELS(BITS)                                                                       \
  extern "C" __global__ void __launch_bounds__(THREADS)                                          \
      mark_leaves_##BITS(const int32_t* rows, const __grid_constant__ Plan plan,                 \
                         int64_t begins_at, int64_t ends_at, uint##BITS##_t* leaf_of) {          \
    mark_leaves(rows, plan.at<int32_t>(begins_at), plan.at<int32_t>(ends_at), leaf_of);          \
  }                                                                                              \
  extern "C" __global__ void __launch_bounds__(THREADS)                                          \
      leaf_sums_##BITS(const uint##BITS##_t* leaf_of, int64_t n_rows, int64_t n_leaves,          \
                       const float* grad, const float* hess, double grad_unit, double hess_unit, \
                       const __grid_constant__ AnswerPlace answer) {                             \
    leaf_sums(leaf_of, n_rows, n_leaves, grad, hess, grad_unit, hess_unit, answer);              \
  }                                                                                              \
  extern "C" __global__ void __launch_bounds__(THREADS) add_leaf_values_##BITS(                  \
      double* scores, const uint##BITS##_t* leaf_of, int64_t n_rows,                             \
      const __grid_constant__ Plan plan, int64_t values_at, int64_t n_leaves) {                  \
    add_leaf_values(scores, leaf_of, n_rows, plan.at<double>(values_at), n_leaves);              \
  }

LEAF_KERNELS(16)
LEAF_KERNELS(32)

// float32(label - score) of each row, as keys of the same order.
extern "C" __global__ void __launch_bounds__(THREADS)
    residual_keys(const double* scores, const double* label, int64_t n_rows, uint32_t* keys) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < n_rows; i += step)
    keys[i] = ordered_key(label[i] - scores[i]);
}

// counts: of each leaf, the weight of each next digit of the keys that begin with its prefix.
extern "C" __global__ void __launch_bounds__(THREADS)
    leaf_digits(const int32_t* rows, const int64_t* begins, const int64_t* ends,
                const uint32_t* keys, const int64_t* weights, const uint32_t* prefixes,
                int64_t shift, const __grid_constant__ AnswerPlace answer) {
  static_assert(THREADS == 256, "a thread for each digit");
  __shared__ int64_t local[256];
  local[threadIdx.x] = 0;
  __syncthreads();
  const RowRange range = row_range(begins, ends);
  const uint64_t prefix = prefixes[blockIdx.x];
  for (int64_t i = range.begin + threadIdx.x; i < range.end; i += THREADS) {
    const int32_t row = rows[i];
    const uint64_t key = keys[row];
    if (key >> (shift + 8) == prefix)
      atomic_add(local + (key >> shift & 255), weights ? weights[row] : 1);
  }
  __syncthreads();
  int64_t* counts = sums_of<int64_t>(answer);
  if (local[threadIdx.x] != 0)
    atomic_add(counts + 256 * static_cast<int64_t>(blockIdx.x) + threadIdx.x, local[threadIdx.x]);
  tell_host(answer);
}

// found: of each leaf, the least key above `lower`.
extern "C" __global__ void __launch_bounds__(THREADS)
    next_keys(const int32_t* rows, const int64_t* begins, const int64_t* ends, const uint32_t* keys,
              const uint32_t* lower, uint32_t* found) {
  const RowRange range = row_range(begins, ends);
  const uint32_t low = lower[blockIdx.x];
  uint32_t least = 0xFFFFFFFFu;
  for (int64_t i = range.begin + threadIdx.x; i < range.end; i += THREADS) {
    const uint32_t key = keys[rows[i]];
    if (key > low && key < least) least = key;
  }
  least = __reduce_min_sync(ALL_LANES, least);
  if (threadIdx.x % WARP == 0 && least != 0xFFFFFFFFu) atomicMin(found + blockIdx.x, least);
}

// Adds one tree to the scores of binned rows: validation sets, and rows left out by sampling.
extern "C" __global__ void __launch_bounds__(THREADS)
    add_tree(double* scores, const __grid_constant__ PlacedBins bins, int64_t n_features,
             const BinnedSplit* splits, const BinSet* sets, int64_t n_splits, const double* values,
             const int32_t* subset, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i >= n) return;
  const int64_t row = subset ? subset[i] : i;
  int node = n_splits > 0 ? 0 : -1;
  while (node >= 0) {
    const BinnedSplit split = splits[node];
    const int bin = bin_of_row(bins, row, split.feature, static_cast<int>(n_features));
    const bool left = split.by_subset
                          ? sets[node].holds(bin)
                          : goes_left(bin, split.bin, split.missing_bin, split.default_left != 0);
    node = left ? split.left : split.right;
  }
  scores[row] += values[~node];
}
