// Rows go through the trees of a forest, and each (row, tree, leaf) is visited, a row's trees in
// order.
//
// Many rows go through a coded forest, 256 at a time. Otherwise eight walks go down together, of
// eight rows in one tree or of one row in eight trees: their steps do not depend on each other, so
// the waits for memory overlap.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "predict/coded_rows.h"
#include "predict/forest.h"
#include "predict/step.h"

namespace bitgrove {

constexpr int LANES = 8;

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

// The rows [begin, end), which were read by `rows`.
template <class Visit>
void visit_coded(const Forest& forest, int64_t n_trees, CodedRows& rows, int64_t begin, int64_t end,
                 Visit& visit) {
  for (int64_t t = 0; t < n_trees; ++t) {
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

}  // namespace bitgrove
