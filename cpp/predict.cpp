// Scores and leaves of raw rows (float32 or float64, row-major) through a whole forest.
//
// Eight rows walk down a tree together: their steps do not depend on each other, so the waits for
// memory overlap. Each row adds its leaves in tree order, as training did: the sums are equal bits.
#include <algorithm>
#include <limits>
#include <optional>

#include "forest.h"
#include "parallel.h"
#include "rooms.h"

namespace bitgrove {
namespace {

constexpr int64_t PREDICT_BLOCK = 256;  // rows whose values stay in L2 while the trees pass by
constexpr int LANES = 8;

struct TreeView {
  const int32_t *feature, *left, *right;
  const double *threshold, *leaf_value;
  const uint8_t* default_left;
  int64_t n_splits, n_leaves;
};

void append_leaf(Forest& forest, int64_t at, int64_t node, int64_t leaf, double value) {
  forest.nodes[at + node] = {std::numeric_limits<double>::infinity(), DEFAULT_LEFT_BIT, static_cast<int32_t>(node)};
  forest.value[at + node] = value;
  forest.leaf[at + node] = static_cast<int32_t>(leaf);
}

// Breadth first, so that the upper levels share cache lines. Every link is checked.
void append_tree(Forest& forest, const TreeView& tree) {
  require(tree.n_leaves == tree.n_splits + 1, "a tree has one leaf more than splits");
  const int64_t at = static_cast<int64_t>(forest.nodes.size()), n_nodes = tree.n_splits + tree.n_leaves;
  forest.nodes.resize(at + n_nodes);
  forest.value.resize(at + n_nodes, 0.0);
  forest.leaf.resize(at + n_nodes, -1);
  std::vector<int32_t> link{tree.n_splits ? 0 : ~0};  // what stands at each node: split, or ~leaf
  for (int64_t node = 0; node < static_cast<int64_t>(link.size()); ++node) {
    const int32_t what = link[node];
    require(what >= 0 ? what < tree.n_splits : ~what < tree.n_leaves, "child out of range");
    if (what < 0) {
      append_leaf(forest, at, node, ~what, tree.leaf_value[~what]);
      continue;
    }
    require(tree.feature[what] >= 0 && tree.feature[what] < forest.n_features, "feature out of range");
    require(static_cast<int64_t>(link.size()) + 2 <= n_nodes, "more children than nodes");
    const uint32_t default_bit = tree.default_left[what] ? DEFAULT_LEFT_BIT : 0u;
    forest.nodes[at + node] = {tree.threshold[what], static_cast<uint32_t>(tree.feature[what]) | default_bit,
                               static_cast<int32_t>(link.size())};
    link.push_back(tree.left[what]);
    link.push_back(tree.right[what]);
  }
  forest.tree_offset.push_back(at + n_nodes);
}

Forest make_forest(Vector<const int64_t> split_offset, Vector<const int64_t> leaf_offset, Vector<const int32_t> feature,
                   Vector<const double> threshold, Vector<const uint8_t> default_left, Vector<const int32_t> left,
                   Vector<const int32_t> right, Vector<const double> leaf_value, int64_t n_features) {
  Forest forest;
  forest.n_features = n_features;
  forest.tree_offset.push_back(0);
  const size_t n_trees = split_offset.shape(0) - 1, n_splits = feature.shape(0);
  require(leaf_offset.shape(0) == n_trees + 1 && threshold.shape(0) == n_splits && default_left.shape(0) == n_splits &&
          left.shape(0) == n_splits && right.shape(0) == n_splits, "tree arrays differ in length");
  for (size_t t = 0; t < n_trees; ++t) {
    const int64_t s = split_offset(t), l = leaf_offset(t), s_end = split_offset(t + 1), l_end = leaf_offset(t + 1);
    require(0 <= s && s <= s_end && s_end <= static_cast<int64_t>(n_splits) && 0 <= l && l <= l_end &&
            l_end <= static_cast<int64_t>(leaf_value.shape(0)), "tree offsets out of range");
    append_tree(forest, {feature.data() + s, left.data() + s, right.data() + s, threshold.data() + s, leaf_value.data() + l,
                         default_left.data() + s, s_end - s, l_end - l});
  }
  return forest;
}

template <class Real>
inline int32_t step(const ForestNode& node, const Real* row) {
  const double x = static_cast<double>(row[node.feature_and_default & ~DEFAULT_LEFT_BIT]);
  const bool left = (x <= node.threshold) | ((x != x) & (node.feature_and_default >> 31));
  return node.left + static_cast<int32_t>(!left);
}

// The leaf nodes of `Lanes` neighbouring rows; done when no lane moves any more.
template <int Lanes, class Real>
void walk(const ForestNode* nodes, const Real* rows, int64_t stride, int32_t* leaf_nodes) {
  int32_t at[Lanes] = {};
  for (int32_t changed = 1; changed != 0;) {
    changed = 0;
    for (int lane = 0; lane < Lanes; ++lane) {
      const int32_t next = step(nodes[at[lane]], rows + lane * stride);
      changed |= next ^ at[lane];
      at[lane] = next;
    }
  }
  for (int lane = 0; lane < Lanes; ++lane) leaf_nodes[lane] = at[lane];
}

// Visits (row, tree, node of the leaf) with trees in order for each row.
template <class Real, class Visit>
void for_each_leaf(const Forest& forest, int64_t n_trees, const Real* rows, int64_t n_rows, int64_t stride,
                   int n_threads, Visit visit) {
  parallel_tasks(blocks_of(n_rows, PREDICT_BLOCK), n_threads, [&](int64_t task) {
    const int64_t begin = task * PREDICT_BLOCK, end = std::min(begin + PREDICT_BLOCK, n_rows);
    for (int64_t t = 0; t < n_trees; ++t) {
      const int64_t offset = forest.tree_offset[t];
      const ForestNode* nodes = forest.nodes.data() + offset;
      int32_t at[LANES];
      int64_t row = begin;
      for (; row + LANES <= end; row += LANES) {
        walk<LANES>(nodes, rows + row * stride, stride, at);
        for (int lane = 0; lane < LANES; ++lane) visit(row + lane, t, offset + at[lane]);
      }
      for (; row < end; ++row) {
        walk<1>(nodes, rows + row * stride, stride, at);
        visit(row, t, offset + at[0]);
      }
    }
  });
}

// scores (n_rows, n_outputs) already hold the base score; tree t belongs to output t % n_outputs.
template <class Real>
void predict_scores(const Forest& forest, int64_t n_trees, Matrix<const Real> rows, Matrix<double> scores, int n_threads) {
  require(n_trees >= 0 && n_trees <= forest.n_trees(), "tree count out of range");
  require(rows.shape(0) == scores.shape(0) && static_cast<int64_t>(rows.shape(1)) == forest.n_features, "rows have the wrong shape");
  const int64_t n_outputs = scores.shape(1), n = rows.shape(0), stride = rows.shape(1);
  double* out = scores.data();
  const Real* data = rows.data();
  nb::gil_scoped_release release;
  for_each_leaf(forest, n_trees, data, n, stride, n_threads, [&](int64_t row, int64_t t, int64_t node) {
    out[row * n_outputs + t % n_outputs] += forest.value[node];
  });
}

template <class Real>
void predict_leaves(const Forest& forest, Matrix<const Real> rows, Matrix<int32_t> leaves, int n_threads) {
  const int64_t n_trees = forest.n_trees(), n = rows.shape(0), stride = rows.shape(1);
  require(rows.shape(0) == leaves.shape(0) && static_cast<int64_t>(leaves.shape(1)) == n_trees &&
          stride == forest.n_features, "rows or leaves have the wrong shape");
  int32_t* out = leaves.data();
  const Real* data = rows.data();
  nb::gil_scoped_release release;
  for_each_leaf(forest, n_trees, data, n, stride, n_threads,
                [&](int64_t row, int64_t t, int64_t node) { out[row * n_trees + t] = forest.leaf[node]; });
}

}  // namespace

void init_predict(nb::module_& m) {
  nb::class_<Forest>(m, "Forest").def_prop_ro("n_trees", &Forest::n_trees);
  m.def("make_forest", &make_forest);
  m.def("predict_scores", &predict_scores<float>, nb::arg(), nb::arg(), nb::arg().noconvert(), nb::arg(), nb::arg());
  m.def("predict_scores", &predict_scores<double>, nb::arg(), nb::arg(), nb::arg().noconvert(), nb::arg(), nb::arg());
  m.def("predict_leaves", &predict_leaves<float>, nb::arg(), nb::arg().noconvert(), nb::arg(), nb::arg());
  m.def("predict_leaves", &predict_leaves<double>, nb::arg(), nb::arg().noconvert(), nb::arg(), nb::arg());
}

}  // namespace bitgrove
