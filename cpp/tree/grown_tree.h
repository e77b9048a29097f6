// A tree that has been grown, without leaf values: what is left of the frontier's nodes.
#pragma once

#include <cstdint>
#include <vector>

#include "tree/frontier.h"

namespace bitgrove {

// What a split needs to know of the features: the value it compares with, and whether training had
// missing values.
struct CutTables {
  const double* cut_values;
  const int64_t* cut_offset;
  const uint8_t* has_missing;
  int64_t n_features;
};

// Splits in the order they were taken, one array per field; children >= 0 are splits, < 0 are
// ~leaf.
struct GrownSplits {
  std::vector<int32_t> feature, left, right;
  std::vector<uint8_t> bin, default_left;
  std::vector<double> threshold, gain, hess;
  std::vector<int64_t> rows;
  std::vector<BinSet> left_bins;  // empty for a split by a threshold
};

// rows: on all ranks; [begin, end): this rank's.
struct GrownLeaves {
  std::vector<int64_t> rows, begin, end;
  std::vector<GradientSums> sums;
  std::vector<double> lower, upper;  // what their values must keep to; empty without rules
};

struct GrownTree {
  GrownSplits splits;
  GrownLeaves leaves;
};

// The tree of a frontier that is done; hess_scale is what one of the integer hessians is worth.
GrownTree finish_tree(const Frontier& frontier, const CutTables& cuts, double hess_scale);

}  // namespace bitgrove
