// A forest as its explanation walks it: steps along edges, and what each edge does at each point of
// the quadrature (kernels/shared/shap.h says why).
#pragma once

#include <cstdint>
#include <vector>

#include "explain/quadrature.h"
#include "plans.h"
#include "predict/forest.h"

namespace bitgrove {

struct ShapTree {
  int64_t begin, end;  // of its steps
  int32_t n_points, depth;
  double expected;  // the mean of its leaves, by the rows of the training in them
};

struct ShapForest {
  std::vector<ShapStep> steps;
  std::vector<ShapFactor> factors;
  std::vector<BinSet> sets;
  std::vector<ShapTree> trees;
  std::vector<std::vector<QuadraturePoint>> points;  // by their number
  int64_t n_columns, n_players;
  int32_t most_points = 1, most_depth = 1;
  Simd simd;
};

}  // namespace bitgrove
