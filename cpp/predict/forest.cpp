// Makes forests from the flat arrays of their trees; every link is checked before anything walks.
#include "predict/forest.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bindings/rooms.h"

namespace bitgrove {
namespace {

// Beyond this, walking a tree takes less time than comparing all of its splits.
constexpr int64_t MAX_CODED_LEAVES = 1024;
constexpr size_t MAX_CODED_COLUMNS = 1 << 16;

struct TreeView {
  const int32_t *feature, *left, *right;
  const double* threshold;
  const uint8_t* default_left;
  const BinSet* left_bins;  // null: no split is by a subset
  int64_t n_splits, n_leaves;

  bool by_subset(int64_t split) const {
    if (!left_bins) return false;
    const uint64_t* words = left_bins[split].words;
    return (words[0] | words[1] | words[2] | words[3]) != 0;
  }
};

// Breadth first, so that the upper levels share cache lines.
void append_tree(Forest& forest, const TreeView& tree) {
  require(tree.n_leaves == tree.n_splits + 1, "a tree has one leaf more than splits");
  const int64_t at = forest.node_offset.back(), n_nodes = tree.n_splits + tree.n_leaves;
  require(at + n_nodes <= std::numeric_limits<int32_t>::max(), "too many nodes");
  forest.nodes.resize(at + n_nodes);
  forest.leaf.resize(at + n_nodes, -1);
  std::vector<bool> is_linked(n_nodes, false);
  std::vector<int32_t> link{tree.n_splits ? 0 : ~0};  // what stands at each node: split, or ~leaf
  for (int64_t node = 0; node < static_cast<int64_t>(link.size()); ++node) {
    const int32_t what = link[node];
    require(what >= 0 ? what < tree.n_splits : ~what < tree.n_leaves, "child out of range");
    std::vector<bool>::reference seen = is_linked[what >= 0 ? what : tree.n_splits + ~what];
    require(!seen, "a node has two parents");
    seen = true;
    if (what < 0) {
      forest.nodes[at + node] = {std::numeric_limits<double>::infinity(), DEFAULT_LEFT_BIT,
                                 static_cast<int32_t>(at + node)};
      forest.leaf[at + node] = ~what;
      continue;
    }
    require(tree.feature[what] >= 0 && tree.feature[what] < forest.n_features,
            "feature out of range");
    const uint32_t default_bit = tree.default_left[what] ? DEFAULT_LEFT_BIT : 0u;
    const bool by_subset = tree.by_subset(what);
    forest.nodes[at + node] = {
        by_subset ? static_cast<double>(forest.sets.size()) : tree.threshold[what],
        static_cast<uint32_t>(tree.feature[what]) | default_bit | (by_subset ? SUBSET_BIT : 0u),
        static_cast<int32_t>(at + link.size())};
    if (by_subset) forest.sets.push_back(tree.left_bins[what]);
    link.push_back(tree.left[what]);
    link.push_back(tree.right[what]);
  }
  require(static_cast<int64_t>(link.size()) == n_nodes, "a node has no parent");
  forest.node_offset.push_back(at + n_nodes);
}

Forest make_forest(const Vector<const int64_t>& split_offset,
                   const Vector<const int64_t>& leaf_offset, const Vector<const int32_t>& feature,
                   const Vector<const double>& threshold, const Vector<const uint8_t>& default_left,
                   const Matrix<const uint64_t>& left_bins, const Vector<const int32_t>& left,
                   const Vector<const int32_t>& right, const Vector<const double>& leaf_value,
                   int64_t n_features, int simd) {
  require(n_features >= 0 && n_features <= static_cast<int64_t>(FEATURE_BITS),
          "the number of features is out of range");
  require(split_offset.shape(0) > 0 && leaf_offset.shape(0) == split_offset.shape(0),
          "a forest has one offset more than trees");
  Forest forest;
  forest.n_features = n_features;
  forest.simd = static_cast<Simd>(simd);
  forest.node_offset.push_back(0);
  const size_t n_trees = split_offset.shape(0) - 1, n_splits = feature.shape(0);
  require(split_offset(0) == 0 && leaf_offset(0) == 0 &&
              split_offset(n_trees) == static_cast<int64_t>(n_splits) &&
              leaf_offset(n_trees) == static_cast<int64_t>(leaf_value.shape(0)),
          "the trees are not all of the arrays");
  require(threshold.shape(0) == n_splits && default_left.shape(0) == n_splits &&
              left.shape(0) == n_splits && right.shape(0) == n_splits &&
              (left_bins.shape(0) == 0 || left_bins.shape(0) == n_splits) &&
              left_bins.shape(1) == 4,
          "tree arrays differ in length");
  const auto* sets =
      left_bins.shape(0) ? reinterpret_cast<const BinSet*>(left_bins.data()) : nullptr;
  for (size_t t = 0; t < n_trees; ++t) {
    const int64_t s = split_offset(t), l = leaf_offset(t), s_end = split_offset(t + 1),
                  l_end = leaf_offset(t + 1);
    require(0 <= s && s <= s_end && s_end <= static_cast<int64_t>(n_splits) && 0 <= l &&
                l <= l_end && l_end <= static_cast<int64_t>(leaf_value.shape(0)),
            "tree offsets out of range");
    append_tree(forest,
                {feature.data() + s, left.data() + s, right.data() + s, threshold.data() + s,
                 default_left.data() + s, sets ? sets + s : nullptr, s_end - s, l_end - l});
  }
  forest.leaf_value.assign(leaf_value.data(), leaf_value.data() + leaf_value.shape(0));
  forest.split_offset.assign(split_offset.data(), split_offset.data() + n_trees + 1);
  forest.leaf_offset.assign(leaf_offset.data(), leaf_offset.data() + n_trees + 1);
  if (forest.simd != Simd::scalar) forest.coded = coded_forest(forest);
  return forest;
}

bool is_leaf(const Forest& forest, int64_t node) { return forest.leaf[node] >= 0; }
uint32_t feature_of(const ForestNode& node) { return node.feature_and_default & FEATURE_BITS; }
bool by_subset(const ForestNode& node) { return node.feature_and_default & SUBSET_BIT; }

// The distinct thresholds of each feature, increasing. Between the levels of a category are all
// halves: the code of a level is the level.
std::vector<std::vector<double>> thresholds_by_feature(const Forest& forest) {
  std::vector<std::vector<double>> result(forest.n_features);
  for (size_t node = 0; node < forest.nodes.size(); ++node)
    if (!is_leaf(forest, node) && !by_subset(forest.nodes[node]))
      result[feature_of(forest.nodes[node])].push_back(forest.nodes[node].threshold);
  for (size_t node = 0; node < forest.nodes.size(); ++node) {
    if (is_leaf(forest, node) || !by_subset(forest.nodes[node])) continue;
    std::vector<double>& halves = result[feature_of(forest.nodes[node])];
    halves.resize(MAX_EDGES);
    for (int level = 0; level < MAX_EDGES; ++level) halves[level] = level + 0.5;
  }
  for (std::vector<double>& thresholds : result) {
    std::sort(thresholds.begin(), thresholds.end());
    thresholds.erase(std::unique(thresholds.begin(), thresholds.end()), thresholds.end());
  }
  return result;
}

void append_coded_tree(CodedForest& coded, const Forest& forest, int64_t tree,
                       const std::vector<uint16_t>& column_of) {
  const int64_t begin = forest.node_offset[tree], end = forest.node_offset[tree + 1],
                n_splits = (end - begin) / 2;
  const size_t first = coded.splits.size();
  std::vector<uint16_t> set_of(end - begin);  // the number of each node's row set
  uint16_t n_before = 0;
  for (int64_t i = begin; i < end; ++i)
    set_of[i - begin] =
        static_cast<uint16_t>(is_leaf(forest, i) ? n_splits + forest.leaf[i] : n_before++);
  for (int64_t i = begin; i < end; ++i) {
    if (is_leaf(forest, i)) continue;
    const ForestNode& node = forest.nodes[i];
    const uint16_t column = column_of[feature_of(node)];
    const Edges& edges = coded.edges[column];
    if (by_subset(node))
      coded.subsets.push_back({forest.sets[static_cast<size_t>(node.threshold)],
                               static_cast<int32_t>(coded.splits.size() - first), column});
    const double* found =
        std::lower_bound(edges.values, edges.values + edges.n_edges, node.threshold);
    const int64_t left = node.left - begin;
    coded.splits.push_back({static_cast<uint32_t>(found - edges.values) * 0x01010101u, column,
                            static_cast<uint16_t>(node.feature_and_default >> 31), set_of[left],
                            set_of[left + 1]});
  }
  coded.subset_offset.push_back(static_cast<int64_t>(coded.subsets.size()));
  coded.most_leaves = std::max(coded.most_leaves, n_splits + 1);
}

}  // namespace

std::optional<CodedForest> coded_forest(const Forest& forest) {
  for (const ForestNode& node : forest.nodes)
    if (std::isnan(node.threshold)) return std::nullopt;  // has no place in an order
  CodedForest coded;
  coded.subset_offset.push_back(0);
  std::vector<uint16_t> column_of(forest.n_features);
  const std::vector<std::vector<double>> thresholds = thresholds_by_feature(forest);
  for (size_t feature = 0; feature < thresholds.size(); ++feature) {
    if (thresholds[feature].empty()) continue;
    if (thresholds[feature].size() > MAX_EDGES || coded.features.size() == MAX_CODED_COLUMNS)
      return std::nullopt;
    column_of[feature] = static_cast<uint16_t>(coded.features.size());
    coded.features.push_back(static_cast<int32_t>(feature));
    coded.edges.emplace_back(thresholds[feature].data(), thresholds[feature].size());
  }
  for (int64_t t = 0; t < forest.n_trees(); ++t) {
    if (forest.leaf_offset[t + 1] - forest.leaf_offset[t] > MAX_CODED_LEAVES) return std::nullopt;
    append_coded_tree(coded, forest, t, column_of);
  }
  return coded;
}

void init_forest(nb::module_& m) {
  nb::class_<Forest>(m, "Forest")
      .def_prop_ro("n_trees", &Forest::n_trees)
      .def_prop_ro("is_coded", [](const Forest& f) { return f.coded.has_value(); });
  m.def("make_forest", &make_forest, "split_offset"_a, "leaf_offset"_a, "feature"_a, "threshold"_a,
        "default_left"_a, "left_bins"_a, "left"_a, "right"_a, "leaf_value"_a, "n_features"_a,
        "simd"_a, "All trees, end to end, in the layouts that prediction walks.");
}

}  // namespace bitgrove
