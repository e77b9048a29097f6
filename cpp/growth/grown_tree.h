// A tree that has been grown, without leaf values: what is left of the frontier's nodes.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "growth/frontier.h"

namespace bitgrove {

// What a split needs to know of the features: the values it may compare with, and whether training
// had missing values.
struct CutTables {
  const double* edge_values;
  const int64_t* edge_offset;
  const uint8_t* has_missing;
  int64_t n_features;

  // Also the missing bin.
  int64_t n_value_bins(int32_t feature) const {
    return edge_offset[feature + 1] - edge_offset[feature] + 1;
  }
  // The edge behind a bin; behind the last: all values go left, missing right.
  double cut_value(int32_t feature, int32_t bin) const {
    const int64_t at = edge_offset[feature] + bin;
    return at < edge_offset[feature + 1] ? edge_values[at]
                                         : std::numeric_limits<double>::infinity();
  }
};

// rows: on all ranks.
struct GrownLeaves {
  std::vector<int64_t> rows;
  std::vector<GradientSums> sums;
  std::vector<double> lower, upper;  // what their values must keep to; empty without rules
};

struct GrownTree {
  std::vector<GrownSplit> splits;  // in the order they were taken
  std::vector<BinSet> left_bins;   // of each split, empty for one by a threshold
  GrownLeaves leaves;
};

// The nodes that are leaves, by their numbers, once the frontier is done.
std::vector<int> leaf_nodes(const Frontier& frontier);
// The tree of a frontier that is done; hess_scale is what one of the integer hessians is worth.
GrownTree finish_tree(const Frontier& frontier, const CutTables& cuts, double hess_scale);

}  // namespace bitgrove
