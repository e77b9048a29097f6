// The forest as prediction walks it, in two forms.
//
// Forest: 16 bytes per node, siblings side by side, leaves that point to themselves, so that a step
// is the same few instructions for every node. CodedForest: thresholds numbered feature by feature,
// so that values become one-byte codes once and every split compares bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/edges.h"
#include "plans.h"

namespace bitgrove {

struct ForestNode {
  double threshold;              // leaves: +inf; splits by a subset: the number of their set
  uint32_t feature_and_default;  // with DEFAULT_LEFT_BIT and SUBSET_BIT
  int32_t left;                  // the right child follows; a leaf's left is itself
};

// Rows whose code of the column is above `code` go right. Children are numbers of row sets: the
// tree's splits first (parents before children), then its leaves.
struct CodedSplit {
  uint32_t code;  // the same in each of the four bytes: a vector of it is one load
  uint16_t column, default_left, left, right;
};

// A split by a subset: rows whose code (their level) is not in the set go right.
struct CodedSubset {
  BinSet set;
  int32_t split;  // in its tree
  uint16_t column;
};

struct CodedForest {
  std::vector<int32_t> features;  // what each column of codes holds
  std::vector<Edges> edges;       // the thresholds of each column
  std::vector<CodedSplit> splits;
  std::vector<CodedSubset> subsets;
  std::vector<int64_t> subset_offset;  // of each tree
  int64_t most_leaves = 1;             // of a tree
};

struct Forest {
  std::vector<ForestNode> nodes;
  std::vector<BinSet> sets;
  std::vector<int32_t> leaf;  // number of a leaf in its tree, by node
  std::vector<double> leaf_value;
  std::vector<int64_t> node_offset, split_offset, leaf_offset;  // of each tree
  std::optional<CodedForest> coded;                             // where the forest allows it
  int64_t n_features;
  Simd simd;

  int64_t n_trees() const { return static_cast<int64_t>(node_offset.size()) - 1; }
};

// The coded form; none where a feature has too many thresholds or a tree too many leaves for it.
std::optional<CodedForest> coded_forest(const Forest& forest);

}  // namespace bitgrove
