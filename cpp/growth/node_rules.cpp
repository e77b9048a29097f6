// See node_rules.h.
#include "growth/node_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "rounding.h"

namespace bitgrove {
namespace {

constexpr double INFINITE = std::numeric_limits<double>::infinity();
constexpr Bounds UNBOUNDED{-INFINITE, INFINITE};

double middle(double a, double b) { return 0.5 * a + 0.5 * b; }

BinSet intersection(const BinSet& a, const BinSet& b) {
  BinSet both{};
  for (int w = 0; w < 4; ++w) both.words[w] = a.words[w] & b.words[w];
  return both;
}

BinSet complement(const BinSet& a) {
  BinSet others{};
  for (int w = 0; w < 4; ++w) others.words[w] = ~a.words[w];
  return others;
}

bool is_empty(const BinSet& a) { return (a.words[0] | a.words[1] | a.words[2] | a.words[3]) == 0; }

}  // namespace

NodeRules::NodeRules(TreeRules rules)
    : rules_(std::move(rules)),
      is_monotone_(std::any_of(rules_.direction.begin(), rules_.direction.end(),
                               [](int8_t direction) { return direction != 0; })) {}

bool NodeRules::moves_bounds() const { return rules_.intermediate && is_monotone_; }

void NodeRules::start(NodeSums root) {
  const double output =
      leaf_output(static_cast<double>(root.grad), static_cast<double>(root.hess), rules_.gain);
  nodes_.push_back({root, UNBOUNDED, output, {}, {}, {}, {}});
}

SearchNode NodeRules::as_parent(const Node& node) const {
  SearchNode parent{};
  parent.hess_per_row = static_cast<double>(node.sums.hess) /
                        static_cast<double>(std::max<int64_t>(node.sums.n_rows, 1));
  parent.lower = node.bounds.lower;
  parent.upper = node.bounds.upper;
  parent.output = node.output;
  return parent;
}

std::vector<int> NodeRules::divide(int node, const SplitInfo& split, int first_child,
                                   const std::array<NodeSums, 2>& children) {
  nodes_.resize(first_child + 2);
  const SearchNode parent = as_parent(nodes_[node]);
  for (int side = 0; side < 2; ++side) {
    Node& child = nodes_[first_child + side];
    child.sums = children[side];
    child.bounds = nodes_[node].bounds;
    child.output = child_output(static_cast<double>(children[side].grad),
                                static_cast<double>(children[side].hess), parent, rules_.gain,
                                rules_.path_smooth);
    child.path = nodes_[node].path;
    if (std::find(child.path.begin(), child.path.end(), split.feature) == child.path.end())
      child.path.push_back(split.feature);
  }
  if (moves_bounds()) return meet_neighbours(node, split, first_child, children);
  bound_at_middle(split, first_child);
  return {};
}

void NodeRules::bound_at_middle(const SplitInfo& split, int first_child) {
  Node &left = nodes_[first_child], &right = nodes_[first_child + 1];
  const int direction = rules_.direction[split.feature];
  if (direction == 0) return;
  Node &low = direction > 0 ? left : right, &high = direction > 0 ? right : left;
  low.bounds.upper = high.bounds.lower = middle(left.output, right.output);
}

// Rows without a value go where predictions send them: with the majority, if training had none.
BinSet NodeRules::left_bins(const SplitInfo& split, const std::array<NodeSums, 2>& children) const {
  BinSet bins = split.left_bins;
  if (split.bin != SUBSET) {
    bins = {};
    for (int b = 0; b <= split.bin; ++b) bins.add(b);
  }
  const bool majority_left = 2 * children[0].n_rows >= children[0].n_rows + children[1].n_rows;
  const bool default_left = rules_.has_missing[split.feature] ? split.default_left : majority_left;
  const auto missing = static_cast<int>(rules_.missing_bin[split.feature]);
  bins.words[missing >> 6] &= ~(uint64_t{1} << (missing & 63));
  if (default_left) bins.add(missing);
  return bins;
}

// Whether two rows, one of each node, can be equal in all features but one.
bool NodeRules::overlap(const Node& a, const Node& b, int but) const {
  for (const Side& mine : a.box) {
    if (mine.feature == but) continue;
    for (const Side& other : b.box)
      if (other.feature == mine.feature && is_empty(intersection(mine.bins, other.bins)))
        return false;
  }
  return true;
}

std::vector<int> NodeRules::meet_neighbours(int parent, const SplitInfo& split, int first_child,
                                            const std::array<NodeSums, 2>& children) {
  const BinSet to_left = left_bins(split, children);
  const int direction = rules_.direction[split.feature];
  for (int side = 0; side < 2; ++side) {
    Node& child = nodes_[first_child + side];
    const BinSet bins = side == 0 ? to_left : complement(to_left);
    child.box = nodes_[parent].box;
    const auto known = std::find_if(child.box.begin(), child.box.end(),
                                    [&](const Side& s) { return s.feature == split.feature; });
    if (known == child.box.end())
      child.box.push_back({split.feature, bins});
    else
      known->bins = intersection(known->bins, bins);
    if (direction != 0) {
      const bool is_low = (side == 0) == (direction > 0);
      (is_low ? child.above : child.below).push_back({first_child + 1 - side, split.feature});
    }
  }
  std::vector<int> touched;
  for (const auto& [mine, theirs] :
       {std::pair{&Node::above, &Node::below}, std::pair{&Node::below, &Node::above}})
    for (const Neighbour& other : nodes_[parent].*mine) {
      touched.push_back(other.node);
      std::vector<Neighbour>& back = nodes_[other.node].*theirs;
      std::erase_if(back, [&](const Neighbour& n) { return n.node == parent; });
      for (int child = first_child; child < first_child + 2; ++child) {
        if (!overlap(nodes_[child], nodes_[other.node], other.feature)) continue;
        (nodes_[child].*mine).push_back(other);
        back.push_back({child, other.feature});
      }
    }
  for (int child : {first_child, first_child + 1})
    nodes_[child].bounds = bounds_by_neighbours(nodes_[child]);
  std::erase_if(touched, [&](int other) {
    const Bounds before = nodes_[other].bounds;
    nodes_[other].bounds = bounds_by_neighbours(nodes_[other]);
    return nodes_[other].bounds == before;
  });
  std::sort(touched.begin(), touched.end());
  return touched;
}

Bounds NodeRules::bounds_by_neighbours(const Node& node) const {
  Bounds bounds = UNBOUNDED;
  for (const Neighbour& n : node.above)
    bounds.upper = std::min(bounds.upper, nodes_[n.node].output);
  for (const Neighbour& n : node.below)
    bounds.lower = std::max(bounds.lower, nodes_[n.node].output);
  return bounds;
}

Bounds NodeRules::leaf_bounds(int id) const {
  const Node& node = nodes_[id];
  if (!moves_bounds()) return node.bounds;
  Bounds bounds = UNBOUNDED;
  for (const Neighbour& n : node.above)
    bounds.upper = std::min(bounds.upper, middle(node.output, nodes_[n.node].output));
  for (const Neighbour& n : node.below)
    bounds.lower = std::max(bounds.lower, middle(node.output, nodes_[n.node].output));
  return bounds;
}

// Those of the groups that hold all features above the node, then a part of them: the smallest
// hashes.
std::vector<uint8_t> NodeRules::features_of(const Node& node, uint64_t key) const {
  const size_t n_features = rules_.allowed.size();
  std::vector<uint8_t> allowed = rules_.allowed;
  if (!rules_.groups.empty()) {
    std::vector<uint8_t> together(n_features, 0);
    for (size_t at = 0; at < rules_.groups.size(); at += n_features) {
      const uint8_t* group = rules_.groups.data() + at;
      if (std::all_of(node.path.begin(), node.path.end(), [&](int f) { return group[f] != 0; }))
        for (size_t f = 0; f < n_features; ++f) together[f] |= group[f];
    }
    for (size_t f = 0; f < n_features; ++f) allowed[f] &= together[f];
  }
  if (rules_.features_per_node >= 1.0) return allowed;
  std::vector<std::pair<uint64_t, size_t>> hashes;
  for (size_t f = 0; f < n_features; ++f)
    if (allowed[f]) hashes.emplace_back(row_hash(key, f), f);
  const double part = rules_.features_per_node * static_cast<double>(hashes.size());
  const auto n_kept = std::max<size_t>(1, static_cast<size_t>(std::floor(part + 0.5)));
  if (hashes.size() <= n_kept) return allowed;
  std::nth_element(hashes.begin(), hashes.begin() + static_cast<int64_t>(n_kept), hashes.end());
  for (size_t i = n_kept; i < hashes.size(); ++i) allowed[hashes[i].second] = 0;
  return allowed;
}

void NodeRules::describe(int id, SearchNode& searched, std::vector<uint8_t>& allowed) const {
  const Node& node = nodes_[id];
  searched.lower = node.bounds.lower;
  searched.upper = node.bounds.upper;
  searched.output = node.output;
  if (rules_.groups.empty() && rules_.features_per_node >= 1.0) return;
  const std::vector<uint8_t> mine = features_of(node, searched.key);
  allowed.insert(allowed.end(), mine.begin(), mine.end());
}

}  // namespace bitgrove
