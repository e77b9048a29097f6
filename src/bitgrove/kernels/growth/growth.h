// What a growing tree asks of its nodes: of the books that the host keeps (growth/frontier.h), and
// of those of a GPU that grows ahead of it (ahead.cu).
#pragma once

#include "plans.h"

#if !defined(__CUDACC_RTC__)
#include <cmath>
#endif

namespace bitgrove {

BG_FN double round_up(double x) {
#if defined(__CUDACC_RTC__)
  return ceil(x);
#else
  return std::ceil(x);
#endif
}

struct GrowthRules {
  int64_t num_leaves, max_depth;
  double min_child_samples, min_child_hess;

  // The least integer hessian of a child: by weight, and by samples as a share of the hessian.
  BG_FN double least_hess(int64_t n_rows, int64_t hess) const {
    const double by_samples = (min_child_samples - 0.5) * static_cast<double>(hess) /
                              static_cast<double>(n_rows > 1 ? n_rows : 1);
    const double least = round_up(by_samples < min_child_hess ? min_child_hess : by_samples);
    return least < 1.0 ? 1.0 : least;
  }
  // Whether a node of that depth can have two such children.
  BG_FN bool may_split(int64_t depth, int64_t n_rows, int64_t hess) const {
    const bool too_deep = max_depth > 0 && depth >= max_depth;
    return !too_deep && static_cast<double>(hess) >= 2.0 * least_hess(n_rows, hess);
  }
};

// What a search must know of a node; the bounds of a training with rules are added to it.
BG_FN SearchNode search_node(const GrowthRules& rules, GradientSums sums, int64_t n_rows,
                             uint64_t key) {
  const double hess = static_cast<double>(sums.hess);
  SearchNode node{};
  node.sibling = -1;
  node.grad = static_cast<double>(sums.grad);
  node.hess = hess;
  node.min_hess = rules.least_hess(n_rows, sums.hess);
  node.hess_per_row = hess / static_cast<double>(n_rows > 1 ? n_rows : 1);
  node.key = key;
  return node;
}

// A node that a GPU has made on its own, and searched if it may be split: what the host is told.
// Nodes are numbered as they are made, both children of a node after each other.
struct FoundNode {
  SplitInfo split;
  int64_t n_rows;
  int32_t parent, is_searched;
};

}  // namespace bitgrove
