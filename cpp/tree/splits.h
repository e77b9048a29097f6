// The search for the best splits of a batch of nodes, as a verb of a tree (cpu_tree.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gain.h"
#include "growth/frontier.h"
#include "plans.h"
#include "rules.h"
#include "tree/histogram.h"
#include "tree/scan.h"

namespace bitgrove {

// The features [first, last) are searched, where allowed: node i looks at the i-th row of
// `allowed`, all at the same one where allowed_stride is 0.
struct SplitFeatures {
  const int64_t* bin_offset;
  const uint8_t* has_missing;
  const uint8_t* allowed;
  int64_t allowed_stride;
  const uint8_t* kinds;  // NUMBERS, LEVELS or DRAWN
  int n_features, first, last;
  const int64_t* implied;  // of each feature in lists its implied bin, else -1; null: none is
};

// split: null for a training without rules of its own.
struct SearchRules {
  GainRules gain;
  const SplitRules* split = nullptr;
};

// The nodes with their histograms; `searched` must outlive them.
std::vector<SearchedNode> searched_nodes(std::span<const SearchNode> searched, const PoolView& pool,
                                         const SplitFeatures& features, const SearchRules& rules);

// The best split of a node among some features, which ascend, by the calling thread.
SplitInfo find_split(const SearchedNode& node, const SplitFeatures& features,
                     std::span<const int> listed, const SearchRules& rules, Simd simd);

std::vector<SplitInfo> find_splits(std::span<const SearchNode> nodes, const PoolView& pool,
                                   const SplitFeatures& features, const SearchRules& rules,
                                   int n_threads, Simd simd);

}  // namespace bitgrove
