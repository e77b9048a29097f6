// Scores and leaves of raw rows (float32 or float64, row-major) through a whole forest.
// Each row adds its leaves in tree order, as training did: the sums are equal bits.
#include <algorithm>
#include <optional>

#include "bindings/gil.h"
#include "bindings/rooms.h"
#include "common/parallel.h"
#include "predict/visits.h"

namespace bitgrove {
namespace {

// Below this many rows, or with more columns to code per tree, walking is faster.
constexpr int64_t LEAST_CODED_ROWS = 48;
constexpr int64_t MOST_COLUMNS_PER_TREE = 4;

template <class Real, class Visit>
void for_each_leaf(const Work<Real>& work, int n_threads, Visit visit) {
  const std::optional<CodedForest>& coded = work.forest.coded;
  const bool can_code =
      coded && static_cast<int64_t>(coded->features.size()) <= MOST_COLUMNS_PER_TREE * work.n_trees;
  parallel_tasks(blocks_of(work.n_rows, CODED_ROWS), n_threads, [&](int64_t task) {
    const int64_t begin = task * CODED_ROWS,
                  end = std::min<int64_t>(begin + CODED_ROWS, work.n_rows);
    if (can_code && end - begin >= LEAST_CODED_ROWS) {
      CodedRows rows(*coded, work.forest.simd);
      rows.read(work.row(begin), end - begin, work.stride);
      return visit_coded(work.forest, work.n_trees, rows, begin, end, visit);
    }
    const int64_t whole = end - (end - begin) % LANES;
    visit_eight_rows(work, begin, whole, visit);
    for (int64_t row = whole; row < end; ++row) visit_one_row(work, row, visit);
  });
}

// scores (n_rows, n_outputs) already hold the base score; tree t belongs to output t % n_outputs.
template <class Real>
void predict_scores(const Forest& forest, int64_t n_trees, const Matrix<const Real>& rows,
                    const Matrix<double>& scores, int n_threads) {
  require(n_trees >= 0 && n_trees <= forest.n_trees(), "tree count out of range");
  require(rows.shape(0) == scores.shape(0) && scores.shape(1) > 0 &&
              static_cast<int64_t>(rows.shape(1)) == forest.n_features,
          "rows or scores have the wrong shape");
  const Work<Real> work{forest, n_trees, rows.data(), static_cast<int64_t>(rows.shape(0)),
                        static_cast<int64_t>(rows.shape(1))};
  const int64_t n_outputs = scores.shape(1);
  double* out = scores.data();
  WithoutGil released;
  for_each_leaf(work, n_threads, [&](int64_t row, int64_t t, int64_t leaf) {
    out[row * n_outputs + t % n_outputs] += forest.leaf_value[forest.leaf_offset[t] + leaf];
  });
}

template <class Real>
void predict_leaves(const Forest& forest, const Matrix<const Real>& rows,
                    const Matrix<int32_t>& leaves, int n_threads) {
  const int64_t n_trees = forest.n_trees();
  require(rows.shape(0) == leaves.shape(0) && static_cast<int64_t>(leaves.shape(1)) == n_trees &&
              static_cast<int64_t>(rows.shape(1)) == forest.n_features,
          "rows or leaves have the wrong shape");
  const Work<Real> work{forest, n_trees, rows.data(), static_cast<int64_t>(rows.shape(0)),
                        static_cast<int64_t>(rows.shape(1))};
  int32_t* out = leaves.data();
  WithoutGil released;
  for_each_leaf(work, n_threads, [&](int64_t row, int64_t t, int64_t leaf) {
    out[row * n_trees + t] = static_cast<int32_t>(leaf);
  });
}

}  // namespace

void init_predict(nb::module_& m) {
  const auto bind_scores = [&m](auto function) {
    m.def("predict_scores", function, "forest"_a, "n_trees"_a, "rows"_a.noconvert(), "scores"_a,
          "n_threads"_a, "Adds the leaf values of the first trees to the scores of raw rows.");
  };
  const auto bind_leaves = [&m](auto function) {
    m.def("predict_leaves", function, "forest"_a, "rows"_a.noconvert(), "leaves"_a, "n_threads"_a,
          "Writes the leaf that each row reaches in each tree.");
  };
  bind_scores(&predict_scores<float>);
  bind_scores(&predict_scores<double>);
  bind_leaves(&predict_leaves<float>);
  bind_leaves(&predict_leaves<double>);
}

}  // namespace bitgrove
