// The search for the best splits of a batch of nodes, for the bindings in search.cpp.
#pragma once

#include <cstdint>
#include <limits>

#include "gain.h"
#include "layouts.h"
#include "tree/histogram.h"

namespace bitgrove {

constexpr SplitInfo NO_SPLIT{-std::numeric_limits<double>::infinity(), 0, 0, -1, 0, 0, 0};

// The features [first, last) are searched, where allowed.
struct SplitFeatures {
  const int64_t* bin_offset;
  const uint8_t* has_missing;
  const uint8_t* allowed;
  int n_features, first, last;
};

// sums: grad, hess and least hessian of a child of each node.
struct SearchedNodes {
  int64_t n_nodes;
  const int64_t* slots;
  const int64_t* widths;
  const double* sums;
};

void find_splits(const SearchedNodes& searched, const PoolView& pool, const SplitFeatures& features,
                 const GainRules& rules, bool packed, SplitInfo* result, int n_threads, Simd simd);

}  // namespace bitgrove
