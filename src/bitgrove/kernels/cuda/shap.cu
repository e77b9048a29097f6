// Shapley values of raw rows: the walk of shap.h, with the bits of the CPU's.
//
// A thread owns a row at a time and goes through all trees with it. Its room is a part of one array
// in which the threads lie side by side.
#include "blocks.h"
#include "shap.h"
#include "values.h"

namespace bitgrove {

struct ThreadLane {
  static constexpr int N = 1;
  int64_t stride;  // threads of the grid
};

struct ShapTrees {
  const ShapStep* steps;
  const ShapFactor* factors;
  const BinSet* sets;
  const int64_t *first_step, *n_points;  // of each tree
  int64_t n_trees, n_outputs, n_players;
};

template <class Real>
struct DecideRow {
  const Real* row;
  int64_t stride;
  const BinSet* sets;

  BG_FN void operator()(const ShapStep& step, int64_t* went_left) const {
    const double x = widen(row[(step.feature & FEATURE_BITS) * stride]);
    bool left = x <= step.threshold;
    if (x != x)
      left = step.feature & DEFAULT_LEFT_BIT;
    else if (step.feature & SUBSET_BIT)
      left = x >= 0.0 && x < BINS_PER_FEATURE && sets[step.set].holds(static_cast<int>(x));
    went_left[0] = left ? -1 : 0;
  }
};

struct AddToRow {
  double* values;

  BG_FN void operator()(int32_t player, const double* value) {
    values[player] = values[player] + value[0];
  }
};

// values: (n_rows, n_outputs, n_players + 1); the last of each output is the caller's.
template <class Real>
BG_FN void explain_rows(const Real* rows, int64_t row_stride, int64_t feature_stride,
                        int64_t n_rows, const ShapTrees& trees, int64_t* masks, double* sums,
                        double* values) {
  const int64_t n_threads = static_cast<int64_t>(gridDim.x) * THREADS;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
  const int64_t width = trees.n_players + 1;
  for (int64_t i = thread; i < n_rows; i += n_threads) {
    double* of_row = values + i * trees.n_outputs * width;
    for (int64_t v = 0; v < trees.n_outputs * width; ++v) of_row[v] = 0.0;
    const DecideRow<Real> decide{rows + i * row_stride, feature_stride, trees.sets};
    for (int64_t t = 0; t < trees.n_trees; ++t) {
      const ShapRoom<ThreadLane> room{
          {n_threads}, masks + thread, sums + thread, static_cast<int32_t>(trees.n_points[t]), 2};
      const ShapWalk<ThreadLane, false> walk{trees.steps, trees.factors, nullptr, room};
      AddToRow add{of_row + t % trees.n_outputs * width};
      walk.tree(trees.first_step[t], trees.first_step[t + 1], decide, add);
    }
  }
}

}  // namespace bitgrove

using namespace bitgrove;

#define SHAP_KERNEL(NAME, REAL)                                                                    \
  extern "C" __global__ void __launch_bounds__(THREADS)                                            \
      NAME(const REAL* rows, int64_t row_stride, int64_t feature_stride, int64_t n_rows,           \
           const ShapStep* steps, const ShapFactor* factors, const BinSet* sets,                   \
           const int64_t* first_step, const int64_t* n_points, int64_t n_trees, int64_t n_outputs, \
           int64_t n_players, int64_t* masks, double* sums, double* values) {                      \
    const ShapTrees trees{steps,    factors, sets,      first_step,                                \
                          n_points, n_trees, n_outputs, n_players};                                \
    explain_rows(rows, row_stride, feature_stride, n_rows, trees, masks, sums, values);            \
  }

SHAP_KERNEL(shap_float32, float)
SHAP_KERNEL(shap_float64, double)
