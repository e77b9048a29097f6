// Leaves of a finished tree: sums of the original gradients, and adding leaf values to scores.
#include "blocks.h"
#include "layouts.h"
#include "tiles.h"

namespace bitgrove {

constexpr int THREADS = 256;
constexpr int LEAF_BLOCK_ROWS = 4096;

struct BinnedSplit {
  int32_t feature, left, right;  // children: >= 0 is a split, < 0 is ~leaf
  uint8_t bin, missing_bin, default_left, reserved;
};

struct RowRange {
  int64_t leaf, begin, end;
};

BG_FN RowRange row_range(const int64_t* begins, const int64_t* ends, const int64_t* first_block, int64_t n_leaves) {
  const NodeBlock block = node_block(first_block, n_leaves, blockIdx.x);
  const int64_t begin = begins[block.node] + block.index * LEAF_BLOCK_ROWS, end = ends[block.node];
  return {block.node, begin, begin + LEAF_BLOCK_ROWS < end ? begin + LEAF_BLOCK_ROWS : end};
}

}  // namespace bitgrove

using namespace bitgrove;

// sums (n_leaves, 2): int64 fixed point of grad * grad_unit and hess * hess_unit, rounded to even.
extern "C" __global__ void __launch_bounds__(THREADS)
    leaf_sums(const int32_t* rows, const int64_t* begins, const int64_t* ends, const int64_t* first_block,
              int64_t n_leaves, const float* grad, const float* hess, double grad_unit, double hess_unit,
              int64_t* sums) {
  const RowRange range = row_range(begins, ends, first_block, n_leaves);
  int64_t grad_sum = 0, hess_sum = 0;
  for (int64_t i = range.begin + threadIdx.x; i < range.end; i += THREADS) {
    const int32_t row = rows[i];
    grad_sum += __double2ll_rn(static_cast<double>(grad[row]) * grad_unit);
    hess_sum += hess ? __double2ll_rn(static_cast<double>(hess[row]) * hess_unit) : 1;
  }
  __shared__ int64_t partial[THREADS / WARP];
  grad_sum = block_sum(grad_sum, partial);
  hess_sum = block_sum(hess_sum, partial);
  if (threadIdx.x == 0) {
    atomic_add(sums + 2 * range.leaf, grad_sum);
    atomic_add(sums + 2 * range.leaf + 1, hess_sum);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    add_leaf_values(double* scores, const int32_t* rows, const int64_t* begins, const int64_t* ends,
                    const int64_t* first_block, int64_t n_leaves, const double* values) {
  const RowRange range = row_range(begins, ends, first_block, n_leaves);
  const double value = values[range.leaf];
  for (int64_t i = range.begin + threadIdx.x; i < range.end; i += THREADS) scores[rows[i]] += value;
}

// Adds one tree to the scores of binned rows: validation sets, and rows left out by sampling.
extern "C" __global__ void __launch_bounds__(THREADS)
    add_tree(double* scores, const uint8_t* columns, int64_t column_stride, const BinnedSplit* splits,
             int64_t n_splits, const double* values, const int32_t* subset, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i >= n) return;
  const int64_t row = subset ? subset[i] : i;
  int node = n_splits > 0 ? 0 : -1;
  while (node >= 0) {
    const BinnedSplit split = splits[node];
    const int bin = columns[split.feature * column_stride + row];
    node = goes_left(bin, split.bin, split.missing_bin, split.default_left != 0) ? split.left : split.right;
  }
  scores[row] += values[~node];
}
