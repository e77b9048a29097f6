// Scores and leaves of raw rows (float32 or float64, row-major) through a whole forest.
//
// Many rows go through a coded forest, 256 at a time. Otherwise eight walks go down together, of
// eight rows in one tree or of one row in eight trees: their steps do not depend on each other, so
// the waits for memory overlap. Each row adds its leaves in tree order, as training did: the sums
// are equal bits.
#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "bindings/rooms.h"
#include "common/parallel.h"
#include "predict/coded_rows.h"
#include "predict/forest.h"
#include "predict/step.h"

namespace bitgrove {
namespace {

constexpr int LANES = 8;
// Below this many rows, or with more columns to code per tree, walking is faster.
constexpr int64_t LEAST_CODED_ROWS = 48;
constexpr int64_t MOST_COLUMNS_PER_TREE = 4;

template <class Real>
struct Walk {
  int32_t node;
  const Real* row;
};

// Takes all walks to their leaves; done when none moves any more.
template <bool Subsets, size_t Lanes, class Real>
void walk_all(const Forest& forest, std::array<Walk<Real>, Lanes>& walks) {
  for (int32_t changed = 1; changed != 0;) {
    changed = 0;
    for (Walk<Real>& lane : walks) {
      const int32_t next = step<Subsets>(forest.sets.data(), forest.nodes[lane.node], lane.row);
      changed |= next ^ lane.node;
      lane.node = next;
    }
  }
}

template <size_t Lanes, class Real>
void walk(const Forest& forest, std::array<Walk<Real>, Lanes>& walks) {
  forest.sets.empty() ? walk_all<false>(forest, walks) : walk_all<true>(forest, walks);
}

// The rows a call works on and the trees they go through.
template <class Real>
struct Work {
  const Forest& forest;
  int64_t n_trees;
  const Real* rows;
  int64_t n_rows, stride;

  const Real* row(int64_t i) const { return rows + i * stride; }
  int32_t root(int64_t tree) const { return static_cast<int32_t>(forest.node_offset[tree]); }
};

// Visits (row, tree, leaf) with the trees in order for each row.
template <class Real, class Visit>
void visit_coded(const Work<Real>& work, int64_t begin, int64_t end, Visit& visit) {
  const Forest& forest = work.forest;
  CodedRows rows(*forest.coded, forest.simd);
  rows.read(work.row(begin), end - begin, work.stride);
  for (int64_t t = 0; t < work.n_trees; ++t) {
    const auto part = [t](const auto& all, const std::vector<int64_t>& offset) {
      return std::span(all).subspan(offset[t], offset[t + 1] - offset[t]);
    };
    const auto& leaves = rows.leaves_of(part(forest.coded->splits, forest.split_offset),
                                        part(forest.coded->subsets, forest.coded->subset_offset));
    for (int64_t i = begin; i < end; ++i) visit(i, t, leaves[i - begin]);
  }
}

// A tree stays in L1 while all groups of eight rows go through it.
template <class Real, class Visit>
void visit_eight_rows(const Work<Real>& work, int64_t begin, int64_t end, Visit& visit) {
  for (int64_t t = 0; t < work.n_trees; ++t)
    for (int64_t row = begin; row < end; row += LANES) {
      std::array<Walk<Real>, LANES> walks;
      for (int lane = 0; lane < LANES; ++lane) walks[lane] = {work.root(t), work.row(row + lane)};
      walk(work.forest, walks);
      for (int lane = 0; lane < LANES; ++lane)
        visit(row + lane, t, work.forest.leaf[walks[lane].node]);
    }
}

template <class Real, class Visit>
void visit_one_row(const Work<Real>& work, int64_t row, Visit& visit) {
  int64_t t = 0;
  for (; t + LANES <= work.n_trees; t += LANES) {
    std::array<Walk<Real>, LANES> walks;
    for (int lane = 0; lane < LANES; ++lane) walks[lane] = {work.root(t + lane), work.row(row)};
    walk(work.forest, walks);
    for (int lane = 0; lane < LANES; ++lane)
      visit(row, t + lane, work.forest.leaf[walks[lane].node]);
  }
  for (; t < work.n_trees; ++t) {
    std::array<Walk<Real>, 1> walks{{{work.root(t), work.row(row)}}};
    walk(work.forest, walks);
    visit(row, t, work.forest.leaf[walks[0].node]);
  }
}

template <class Real, class Visit>
void for_each_leaf(const Work<Real>& work, int n_threads, Visit visit) {
  const std::optional<CodedForest>& coded = work.forest.coded;
  const bool can_code =
      coded && static_cast<int64_t>(coded->features.size()) <= MOST_COLUMNS_PER_TREE * work.n_trees;
  parallel_tasks(blocks_of(work.n_rows, CODED_ROWS), n_threads, [&](int64_t task) {
    const int64_t begin = task * CODED_ROWS,
                  end = std::min<int64_t>(begin + CODED_ROWS, work.n_rows);
    if (can_code && end - begin >= LEAST_CODED_ROWS) return visit_coded(work, begin, end, visit);
    const int64_t whole = end - (end - begin) % LANES;
    visit_eight_rows(work, begin, whole, visit);
    for (int64_t row = whole; row < end; ++row) visit_one_row(work, row, visit);
  });
}

// scores (n_rows, n_outputs) already hold the base score; tree t belongs to output t % n_outputs.
template <class Real>
void predict_scores(const Forest& forest, int64_t n_trees, Matrix<const Real> rows,
                    Matrix<double> scores, int n_threads) {
  require(n_trees >= 0 && n_trees <= forest.n_trees(), "tree count out of range");
  require(rows.shape(0) == scores.shape(0) && scores.shape(1) > 0 &&
              static_cast<int64_t>(rows.shape(1)) == forest.n_features,
          "rows or scores have the wrong shape");
  const Work<Real> work{forest, n_trees, rows.data(), static_cast<int64_t>(rows.shape(0)),
                        static_cast<int64_t>(rows.shape(1))};
  const int64_t n_outputs = scores.shape(1);
  double* out = scores.data();
  nb::gil_scoped_release release;
  for_each_leaf(work, n_threads, [&](int64_t row, int64_t t, int64_t leaf) {
    out[row * n_outputs + t % n_outputs] += forest.leaf_value[forest.leaf_offset[t] + leaf];
  });
}

template <class Real>
void predict_leaves(const Forest& forest, Matrix<const Real> rows, Matrix<int32_t> leaves,
                    int n_threads) {
  const int64_t n_trees = forest.n_trees();
  require(rows.shape(0) == leaves.shape(0) && static_cast<int64_t>(leaves.shape(1)) == n_trees &&
              static_cast<int64_t>(rows.shape(1)) == forest.n_features,
          "rows or leaves have the wrong shape");
  const Work<Real> work{forest, n_trees, rows.data(), static_cast<int64_t>(rows.shape(0)),
                        static_cast<int64_t>(rows.shape(1))};
  int32_t* out = leaves.data();
  nb::gil_scoped_release release;
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
