// Leaves of a finished tree: sums of the original gradients, quantiles of the residuals, and adding
// leaf values to scores.
//
// A leaf's rows ascend. Every leaf is cut into the same number of parts, and blocks run part by
// part through all leaves: those at work at one time share the same range of rows, so the sectors
// they gather from are fetched from memory once for all leaves.
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
BG_FN RowRange row_range(const int64_t* begins, const int64_t* ends) {
  const int64_t begin = begins[blockIdx.x], size = ends[blockIdx.x] - begin, part = blockIdx.y;
  return {begin + size * part / gridDim.y, begin + size * (part + 1) / gridDim.y};
}

}  // namespace bitgrove

using namespace bitgrove;

// sums: of each leaf, int64 fixed point of grad * grad_unit and hess * hess_unit, rounded to even.
extern "C" __global__ void __launch_bounds__(THREADS)
    leaf_sums(const int32_t* rows, const int64_t* begins, const int64_t* ends, const float* grad,
              const float* hess, double grad_unit, double hess_unit, GradientSums* sums) {
  const RowRange range = row_range(begins, ends);
  if (range.begin == range.end) return;
  int64_t grad_sum = 0, hess_sum = 0;
#pragma unroll 4
  for (int64_t i = range.begin + threadIdx.x; i < range.end; i += THREADS) {
    const int32_t row = rows[i];
    grad_sum += __double2ll_rn(static_cast<double>(grad[row]) * grad_unit);
    hess_sum += hess ? __double2ll_rn(static_cast<double>(hess[row]) * hess_unit) : 1;
  }
  __shared__ int64_t partial[THREADS / WARP];
  grad_sum = block_sum(grad_sum, partial);
  hess_sum = block_sum(hess_sum, partial);
  if (threadIdx.x == 0) {
    atomic_add(&sums[blockIdx.x].grad, grad_sum);
    atomic_add(&sums[blockIdx.x].hess, hess_sum);
  }
}

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
                int64_t shift, int64_t* counts) {
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
  if (local[threadIdx.x] != 0)
    atomic_add(counts + 256 * static_cast<int64_t>(blockIdx.x) + threadIdx.x, local[threadIdx.x]);
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

extern "C" __global__ void __launch_bounds__(THREADS)
    add_leaf_values(double* scores, const int32_t* rows, const int64_t* begins, const int64_t* ends,
                    const double* values) {
  const RowRange range = row_range(begins, ends);
  const double value = values[blockIdx.x];
  for (int64_t first = range.begin + threadIdx.x; first < range.end; first += AT_ONCE * THREADS) {
    int32_t row[AT_ONCE];
    double score[AT_ONCE];
#pragma unroll
    for (int k = 0; k < AT_ONCE; ++k)
      row[k] = first + k * THREADS < range.end ? rows[first + k * THREADS] : -1;
#pragma unroll
    for (int k = 0; k < AT_ONCE; ++k) score[k] = row[k] >= 0 ? scores[row[k]] : 0.0;
#pragma unroll
    for (int k = 0; k < AT_ONCE; ++k)
      if (row[k] >= 0) scores[row[k]] = score[k] + value;
  }
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
