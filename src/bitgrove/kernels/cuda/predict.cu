// Scores of raw rows through a whole forest, and what the scores mean.
//
// A thread owns a row. It adds its leaves in tree order, as training did: the sums are equal bits.
#include "blocks.h"
#include "math.h"
#include "plans.h"
#include "values.h"

namespace bitgrove {

struct Forest {
  const ForestSplit* splits;
  const BinSet* sets;
  const double* values;
  const int64_t *split_offset, *leaf_offset;  // of each tree
  int64_t n_trees, n_outputs;
};

// The number of the leaf among those of its tree.
template <class Real>
BG_FN int32_t leaf_of(const Forest& forest, int64_t tree, const Real* row, int64_t stride) {
  const ForestSplit* splits = forest.splits + forest.split_offset[tree];
  int32_t at = forest.split_offset[tree + 1] > forest.split_offset[tree] ? 0 : -1;
  while (at >= 0) {
    const ForestSplit split = splits[at];
    const double x = widen(row[(split.feature & FEATURE_BITS) * stride]);
    bool left = x <= split.threshold;
    if (x != x)
      left = split.feature & DEFAULT_LEFT_BIT;
    else if (split.feature & SUBSET_BIT)
      left = x >= 0.0 && x < BINS_PER_FEATURE && forest.sets[split.set].holds(static_cast<int>(x));
    at = left ? split.left : split.right;
  }
  return ~at;
}

template <class Real>
BG_FN double leaf_value(const Forest& forest, int64_t tree, const Real* row, int64_t stride) {
  return forest.values[forest.leaf_offset[tree] + leaf_of(forest, tree, row, stride)];
}

// scores: (n_rows, n_outputs).
template <class Real>
BG_FN void predict(const Real* rows, int64_t row_stride, int64_t feature_stride, int64_t n_rows,
                   const Forest& forest, const double* base, double* scores) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i >= n_rows) return;
  for (int64_t k = 0; k < forest.n_outputs; ++k) {
    double score = base[k];
    for (int64_t tree = k; tree < forest.n_trees; tree += forest.n_outputs)
      score = score + leaf_value(forest, tree, rows + i * row_stride, feature_stride);
    scores[i * forest.n_outputs + k] = score;
  }
}

// leaves: (n_rows, n_trees).
template <class Real>
BG_FN void find_leaves(const Real* rows, int64_t row_stride, int64_t feature_stride, int64_t n_rows,
                       const Forest& forest, int32_t* leaves) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i >= n_rows) return;
  for (int64_t tree = 0; tree < forest.n_trees; ++tree)
    leaves[i * forest.n_trees + tree] =
        leaf_of(forest, tree, rows + i * row_stride, feature_stride);
}

}  // namespace bitgrove

using namespace bitgrove;

#define PREDICT_KERNEL(NAME, REAL)                                                            \
  extern "C" __global__ void __launch_bounds__(THREADS)                                       \
      NAME(const REAL* rows, int64_t row_stride, int64_t feature_stride, int64_t n_rows,      \
           const ForestSplit* splits, const BinSet* sets, const double* values,               \
           const int64_t* split_offset, const int64_t* leaf_offset, int64_t n_trees,          \
           int64_t n_outputs, const double* base, double* scores) {                           \
    const Forest forest{splits, sets, values, split_offset, leaf_offset, n_trees, n_outputs}; \
    predict(rows, row_stride, feature_stride, n_rows, forest, base, scores);                  \
  }

#define LEAVES_KERNEL(NAME, REAL)                                                             \
  extern "C" __global__ void __launch_bounds__(THREADS)                                       \
      NAME(const REAL* rows, int64_t row_stride, int64_t feature_stride, int64_t n_rows,      \
           const ForestSplit* splits, const BinSet* sets, const double* values,               \
           const int64_t* split_offset, const int64_t* leaf_offset, int64_t n_trees,          \
           int64_t n_outputs, int32_t* leaves) {                                              \
    const Forest forest{splits, sets, values, split_offset, leaf_offset, n_trees, n_outputs}; \
    find_leaves(rows, row_stride, feature_stride, n_rows, forest, leaves);                    \
  }

LEAVES_KERNEL(leaves_float32, float)
LEAVES_KERNEL(leaves_float64, double)
PREDICT_KERNEL(predict_float32, float)
PREDICT_KERNEL(predict_float64, double)

// Links: scores become predictions, in place. All take the same arguments (objectives/links.py).
extern "C" __global__ void __launch_bounds__(THREADS)
    sigmoid_scores(double* scores, int64_t n_rows, int64_t n_outputs, double slope) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i >= n_rows) return;
  for (int64_t k = i * n_outputs; k < (i + 1) * n_outputs; ++k)
    scores[k] = exact_sigmoid(slope * scores[k]);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    exp_scores(double* scores, int64_t n_rows, int64_t n_outputs, double) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i >= n_rows) return;
  for (int64_t k = i * n_outputs; k < (i + 1) * n_outputs; ++k) scores[k] = exact_exp(scores[k]);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    sort_scores(double* scores, int64_t n_rows, int64_t n_outputs, double) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i >= n_rows) return;
  double* row = scores + i * n_outputs;
  for (int64_t k = 1; k < n_outputs; ++k) {
    const double value = row[k];
    int64_t to = k;
    for (; to > 0 && row[to - 1] > value; --to) row[to] = row[to - 1];
    row[to] = value;
  }
}

// Added in the order of classes, as everywhere.
extern "C" __global__ void __launch_bounds__(THREADS)
    one_vs_all_scores(double* scores, int64_t n_rows, int64_t n_classes, double slope) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i >= n_rows) return;
  double* row = scores + i * n_classes;
  double total = 0.0;
  for (int64_t k = 0; k < n_classes; ++k) {
    row[k] = exact_sigmoid(slope * row[k]);
    total = k == 0 ? row[k] : total + row[k];
  }
  for (int64_t k = 0; k < n_classes; ++k) row[k] = row[k] / total;
}

// The powers are added in the order of classes, as everywhere.
extern "C" __global__ void __launch_bounds__(THREADS)
    softmax_scores(double* scores, int64_t n_rows, int64_t n_classes, double) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i >= n_rows) return;
  double* row = scores + i * n_classes;
  double largest = row[0], total = 0.0;
  for (int64_t k = 1; k < n_classes; ++k) largest = largest < row[k] ? row[k] : largest;
  for (int64_t k = 0; k < n_classes; ++k) {
    row[k] = exact_exp(row[k] - largest);
    total = k == 0 ? row[k] : total + row[k];
  }
  for (int64_t k = 0; k < n_classes; ++k) row[k] = row[k] / total;
}
