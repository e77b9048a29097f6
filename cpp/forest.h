// The forest as prediction walks it: 16 bytes per node, siblings side by side, leaves that point
// to themselves, so that a step is the same few instructions for every node.
#pragma once

#include <cstdint>
#include <vector>

namespace bitgrove {

struct ForestNode {
  double threshold;         // leaves: +inf
  uint32_t feature_and_default;  // the top bit: a missing value goes left
  int32_t left;             // the right child follows; a leaf's left is itself
};

constexpr uint32_t DEFAULT_LEFT_BIT = 0x80000000u;

struct Forest {
  std::vector<ForestNode> nodes;
  std::vector<double> value;      // of a leaf, by node
  std::vector<int32_t> leaf;      // number of a leaf in its tree, by node
  std::vector<int64_t> tree_offset;
  int64_t n_features;

  int64_t n_trees() const { return static_cast<int64_t>(tree_offset.size()) - 1; }
};

}  // namespace bitgrove
