// One tree on the CPU: its arrays, and the verbs that work on them.
#pragma once

#include <span>
#include <vector>

#include "common/plan_checks.h"
#include "gain.h"
#include "growth/frontier.h"
#include "sparse/sparse_histogram.h"
#include "sparse/sparse_search.h"
#include "tree/histogram.h"
#include "tree/partition.h"
#include "tree/splits.h"
#include "tree/strips.h"

namespace bitgrove {

struct CpuTree {
  PoolView pool;
  HistogramSource source;
  PartitionSource division;
  SplitFeatures features;  // all of them
  SearchRules rules;
  const Strips* strips;
  int n_threads;
  Simd simd;

  BinRange all_bins() const { return {0, features.bin_offset[features.n_features]}; }

  void build(std::span<const Build> builds) const {
    build_histograms(builds, pool, source, n_threads, simd);
  }
  void subtract(std::span<const Subtraction> subtractions, BinRange bins) const {
    subtract_histograms(subtractions, pool, bins, n_threads, simd);
  }
  // The best splits among the features [first, last); allowed: those of each node, one row after
  // the other; none: those of the tree.
  std::vector<SplitInfo> find(std::span<const SearchNode> nodes, int first, int last,
                              std::span<const uint8_t> allowed) const {
    SplitFeatures searched = features_of(nodes.size(), allowed);
    searched.first = first;
    searched.last = last;
    return find_splits(nodes, pool, searched, rules, n_threads, simd);
  }
  // With the rows of allowed features of so many nodes, if they have such.
  SplitFeatures features_of(size_t n_nodes, std::span<const uint8_t> allowed) const {
    SplitFeatures searched = features;
    if (allowed.empty()) return searched;
    check_allowed(allowed, n_nodes, features.n_features);
    searched.allowed = allowed.data();
    searched.allowed_stride = features.n_features;
    return searched;
  }
  std::vector<SplitInfo> search(const SearchPlan& plan) const {
    if (!source.sparse) return search_strips(plan);
    if (source.sparse->by_postings()) return search_without_slots(plan);
    build(plan.builds);
    subtract_sparse(plan.subtractions, plan.builds, pool, source, n_threads, simd);
    return find(plan.nodes, 0, features.n_features, plan.allowed);
  }
  // Strip by strip, where all features are in the tiles.
  std::vector<SplitInfo> search_strips(const SearchPlan& plan) const;
  // The same, and features in lists from their postings.
  std::vector<SplitInfo> search_without_slots(const SearchPlan& plan) const;
  void expect_builds(const std::vector<int>&) const {}  // threads clear their own sums
  std::vector<RowCounts> divide(std::span<const Division> divisions) const {
    return divide_rows(divisions, division, n_threads, simd);
  }
};

}  // namespace bitgrove
