// Scores and leaves of raw rows (float32 or float64, row-major) through a whole forest.
#include <algorithm>
#include <optional>

#include "parallel.h"
#include "rooms.h"

namespace bitgrove {
namespace {

constexpr int64_t PREDICT_BLOCK = 256;

// Mirrors tree.FOREST_NODE: 24 bytes per split.
struct ForestNode {
  double threshold;
  int32_t feature;
  int32_t left, right;  // >= 0: split of the same tree; < 0: ~leaf
  int32_t default_left;
};

struct Forest {
  const ForestNode* nodes;
  const int64_t *split_offset, *leaf_offset;
  const double* leaf_value;
  int64_t n_trees;
};

template <class Real>
int leaf_of(const ForestNode* nodes, int64_t n_splits, const Real* row) {
  if (n_splits == 0) return 0;
  int node = 0;
  while (node >= 0) {
    const ForestNode& split = nodes[node];
    const double x = static_cast<double>(row[split.feature]);
    const bool left = x != x ? split.default_left != 0 : x <= split.threshold;
    node = left ? split.left : split.right;
  }
  return ~node;
}

// Visits (row, tree, leaf) with trees in order for each row, so that sums are in tree order.
template <class Real, class Visit>
void for_each_leaf(const Forest& forest, const Real* rows, int64_t n_rows, int64_t stride, int n_threads, Visit visit) {
  parallel_tasks(blocks_of(n_rows, PREDICT_BLOCK), n_threads, [&](int64_t task) {
    const int64_t begin = task * PREDICT_BLOCK, end = std::min(begin + PREDICT_BLOCK, n_rows);
    for (int64_t t = 0; t < forest.n_trees; ++t) {
      const int64_t first = forest.split_offset[t], n_splits = forest.split_offset[t + 1] - first;
      for (int64_t row = begin; row < end; ++row)
        visit(row, t, leaf_of(forest.nodes + first, n_splits, rows + row * stride));
    }
  });
}

Forest forest_of(Vector<const uint8_t> nodes, Vector<const int64_t> split_offset, Vector<const int64_t> leaf_offset,
                 Vector<const double> leaf_value, int64_t n_trees) {
  require(n_trees >= 0 && n_trees < static_cast<int64_t>(split_offset.shape(0)) &&
          split_offset.shape(0) == leaf_offset.shape(0), "tree count out of range");
  require(split_offset(n_trees) * static_cast<int64_t>(sizeof(ForestNode)) <= static_cast<int64_t>(nodes.shape(0)) &&
          leaf_offset(n_trees) <= static_cast<int64_t>(leaf_value.shape(0)), "forest arrays too small");
  return {reinterpret_cast<const ForestNode*>(nodes.data()), split_offset.data(), leaf_offset.data(),
          leaf_value.data(), n_trees};
}

// scores (n_rows, n_outputs) already hold the base score; tree t belongs to output t % n_outputs.
template <class Real>
void predict_scores(Vector<const uint8_t> nodes, Vector<const int64_t> split_offset, Vector<const int64_t> leaf_offset,
                    Vector<const double> leaf_value, int64_t n_trees, Matrix<const Real> rows, Matrix<double> scores,
                    int n_threads) {
  const Forest forest = forest_of(nodes, split_offset, leaf_offset, leaf_value, n_trees);
  require(rows.shape(0) == scores.shape(0), "rows and scores differ in length");
  const int64_t n_outputs = scores.shape(1);
  double* out = scores.data();
  const Real* data = rows.data();
  const int64_t n = rows.shape(0), stride = rows.shape(1);
  nb::gil_scoped_release release;
  for_each_leaf(forest, data, n, stride, n_threads, [&](int64_t row, int64_t t, int leaf) {
    out[row * n_outputs + t % n_outputs] += forest.leaf_value[forest.leaf_offset[t] + leaf];
  });
}

template <class Real>
void predict_leaves(Vector<const uint8_t> nodes, Vector<const int64_t> split_offset, Vector<const int64_t> leaf_offset,
                    Vector<const double> leaf_value, int64_t n_trees, Matrix<const Real> rows, Matrix<int32_t> leaves,
                    int n_threads) {
  const Forest forest = forest_of(nodes, split_offset, leaf_offset, leaf_value, n_trees);
  require(rows.shape(0) == leaves.shape(0) && static_cast<int64_t>(leaves.shape(1)) == n_trees, "leaves has the wrong shape");
  int32_t* out = leaves.data();
  const Real* data = rows.data();
  const int64_t n = rows.shape(0), stride = rows.shape(1);
  nb::gil_scoped_release release;
  for_each_leaf(forest, data, n, stride, n_threads,
                [&](int64_t row, int64_t t, int leaf) { out[row * n_trees + t] = leaf; });
}

}  // namespace

void init_predict(nb::module_& m) {
  m.def("predict_scores_f32", &predict_scores<float>);
  m.def("predict_scores_f64", &predict_scores<double>);
  m.def("predict_leaves_f32", &predict_leaves<float>);
  m.def("predict_leaves_f64", &predict_leaves<double>);
}

}  // namespace bitgrove
