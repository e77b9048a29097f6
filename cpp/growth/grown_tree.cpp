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

GrownLeaves describe_leaves(const Frontier& frontier, const std::vector<int>& ids) {
  GrownLeaves leaves;
  for (int id : ids) {
    const FrontierNode& leaf = frontier.nodes()[id];
    leaves.rows.push_back(leaf.all.both());
    leaves.sums.push_back({leaf.grad, leaf.hess});
    if (!frontier.node_rules()) continue;
    const Bounds bounds = frontier.node_rules()->leaf_bounds(id);
    leaves.lower.push_back(bounds.lower);
    leaves.upper.push_back(bounds.upper);
  }
  return leaves;
}

// Of each node the number of its split, or ~ the number of its leaf.
std::vector<int32_t> number_nodes(const Frontier& frontier, const std::vector<int>& leaves) {
  std::vector<int32_t> number(frontier.nodes().size(), 0);
  int32_t n_splits = 0, n_leaves = 0;
  for (int id : frontier.taken()) number[id] = n_splits++;
  for (int id : leaves) number[id] = ~n_leaves++;
  return number;
}

}  // namespace

std::vector<int> leaf_nodes(const Frontier& frontier) {
  const std::vector<FrontierNode>& nodes = frontier.nodes();
  std::vector<uint8_t> is_split(nodes.size(), 0);
  for (int id : frontier.taken()) is_split[id] = 1;
  std::vector<int> leaves;
  for (int id : frontier.taken())
    for (const int child : {nodes[id].first_child, nodes[id].first_child + 1})
      if (!is_split[child]) leaves.push_back(child);
  if (leaves.empty()) leaves.push_back(0);
  return leaves;
}

GrownTree finish_tree(const Frontier& frontier, const CutTables& cuts, double hess_scale) {
  const std::vector<int> leaves = leaf_nodes(frontier);
  const std::vector<int32_t> number = number_nodes(frontier, leaves);
  const std::vector<FrontierNode>& nodes = frontier.nodes();
  GrownTree tree;
  tree.splits.reserve(frontier.taken().size());
  tree.left_bins.reserve(frontier.taken().size());
  for (int id : frontier.taken()) {
    const int left = nodes[id].first_child;
    add_split(tree, nodes[id], nodes[left].all.both(), cuts, hess_scale);
    tree.splits.back().left = number[left];
    tree.splits.back().right = number[left + 1];
  }
  tree.leaves = describe_leaves(frontier, leaves);
  return tree;
}

}  // namespace bitgrove
