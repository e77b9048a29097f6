// See grown_tree.h.
#include "growth/grown_tree.h"

#include <stdexcept>

namespace bitgrove {
namespace {

void add_split(GrownTree& tree, const FrontierNode& node, int64_t left_rows, const CutTables& cuts,
               double hess_scale) {
  const SplitInfo& split = node.split;
  const bool by_subset = split.bin == SUBSET;
  if (split.feature < 0 || split.feature >= cuts.n_features || split.bin < SUBSET ||
      split.bin >= cuts.n_value_bins(split.feature))
    throw std::invalid_argument("bitgrove core: split out of range");
  // Where training had no missing value, missing goes with the majority.
  const bool majority_left = 2 * left_rows >= node.all.both();
  const bool default_left = cuts.has_missing[split.feature] ? split.default_left : majority_left;
  BinSet left_bins = by_subset ? split.left_bins : BinSet{};
  // The missing bin, also where only other data has it.
  if (by_subset && default_left) left_bins.add(static_cast<int>(cuts.n_value_bins(split.feature)));
  tree.left_bins.push_back(left_bins);
  tree.splits.push_back({by_subset ? 0.0 : cuts.cut_value(split.feature, split.bin), split.gain,
                         static_cast<double>(node.hess) * hess_scale, node.all.both(),
                         split.feature, 0, 0, static_cast<uint8_t>(by_subset ? 0 : split.bin),
                         default_left, by_subset, 0});
}

// Returns ~leaf.
int32_t add_leaf(GrownLeaves& leaves, const Frontier& frontier, int id) {
  const FrontierNode& leaf = frontier.nodes()[id];
  leaves.rows.push_back(leaf.all.both());
  leaves.begin.push_back(leaf.begin);
  leaves.end.push_back(leaf.begin + leaf.local.both());
  leaves.sums.push_back({leaf.grad, leaf.hess});
  if (frontier.node_rules()) {
    const Bounds bounds = frontier.node_rules()->leaf_bounds(id);
    leaves.lower.push_back(bounds.lower);
    leaves.upper.push_back(bounds.upper);
  }
  return -static_cast<int32_t>(leaves.rows.size());
}

}  // namespace

GrownTree finish_tree(const Frontier& frontier, const CutTables& cuts, double hess_scale) {
  const std::vector<int>& taken = frontier.taken();
  const std::vector<FrontierNode>& nodes = frontier.nodes();
  std::vector<int> split_of(nodes.size(), -1);
  for (size_t i = 0; i < taken.size(); ++i) split_of[taken[i]] = static_cast<int>(i);
  GrownTree tree;
  for (int id : taken) {
    const FrontierNode& node = nodes[id];
    const int left = node.first_child, right = left + 1;
    add_split(tree, node, nodes[left].all.both(), cuts, hess_scale);
    const auto link = [&](int child) {
      return split_of[child] >= 0 ? split_of[child] : add_leaf(tree.leaves, frontier, child);
    };
    tree.splits.back().left = link(left);
    tree.splits.back().right = link(right);
  }
  if (taken.empty()) add_leaf(tree.leaves, frontier, 0);
  return tree;
}

}  // namespace bitgrove
