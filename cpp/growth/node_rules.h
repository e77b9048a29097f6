// What the rules of a training mean for each node of a growing tree: bounds, outputs, features.
//
// Monotone features. "basic": a split of one puts both sides apart at the middle of its children's
// outputs, for good. "intermediate": a leaf is bounded by what the leaves say now that lie beside
// it, in rows that differ in one monotone feature alone; so each split moves the bounds of others,
// and they must be searched again. backends/reference/node_rules.py repeats all of it.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "plans.h"
#include "rules.h"

namespace bitgrove {

// Rules of one tree; arrays have a value for each feature.
struct TreeRules {
  GainRules gain;
  double path_smooth, features_per_node;  // the part of the features a node may look at
  bool intermediate;
  std::vector<int8_t> direction;
  std::vector<uint8_t> allowed, has_missing;
  std::vector<int64_t> missing_bin;
  std::vector<uint8_t> groups;  // of features that may follow each other: a row of flags each
};

struct NodeSums {
  int64_t grad, hess, n_rows;
};

struct Bounds {
  double lower, upper;
  bool operator==(const Bounds&) const = default;
};

class NodeRules {
 public:
  explicit NodeRules(TreeRules rules);

  // Whether a split changes what is known of other leaves: then only one is made at a time.
  bool moves_bounds() const;
  void start(NodeSums root);
  // The children are nodes first_child and first_child + 1. Returns leaves whose bounds moved.
  std::vector<int> divide(int node, const SplitInfo& split, int first_child,
                          const std::array<NodeSums, 2>& children);
  // Completes what a search is told of a node, and adds its row of allowed features, if it has one:
  // drawn by the key that is there.
  void describe(int node, SearchNode& searched, std::vector<uint8_t>& allowed) const;
  // What the value of a leaf must keep to, wherever it comes from.
  Bounds leaf_bounds(int node) const;

 private:
  // The bins of a feature that rows of a node have.
  struct Side {
    int feature;
    BinSet bins;
  };
  // A leaf that is bounded by another: they lie beside each other in this feature.
  struct Neighbour {
    int node, feature;
  };
  struct Node {
    NodeSums sums;
    Bounds bounds;
    double output;
    std::vector<int> path;  // features of the splits above, each once
    std::vector<Side> box;  // for intermediate bounds, as the rest
    std::vector<Neighbour> above, below;
  };

  SearchNode as_parent(const Node& node) const;
  BinSet left_bins(const SplitInfo& split, const std::array<NodeSums, 2>& children) const;
  bool overlap(const Node& a, const Node& b, int but) const;
  void bound_at_middle(const SplitInfo& split, int first_child);
  std::vector<int> meet_neighbours(int parent, const SplitInfo& split, int first_child,
                                   const std::array<NodeSums, 2>& children);
  Bounds bounds_by_neighbours(const Node& node) const;
  std::vector<uint8_t> features_of(const Node& node, uint64_t key) const;

  TreeRules rules_;
  bool is_monotone_;
  std::vector<Node> nodes_;
};

}  // namespace bitgrove
