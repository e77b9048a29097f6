// Where a raw row goes at a node of a Forest.
#pragma once

#include "predict/forest.h"

namespace bitgrove {

// Whether a level, not a missing one, is in the set of a node; values that are no level are not.
inline bool level_goes_left(const BinSet* sets, const ForestNode& node, double x) {
  return x >= 0.0 && x < BINS_PER_FEATURE &&
         sets[static_cast<size_t>(node.threshold)].holds(static_cast<int>(x));
}

// The next node. Subsets: whether any split of the forest may be by one.
template <bool Subsets, class Real>
inline int32_t step(const BinSet* sets, const ForestNode& node, const Real* row) {
  const double x = static_cast<double>(row[node.feature_and_default & FEATURE_BITS]);
  const bool missing_left = (x != x) & (node.feature_and_default >> 31);
  bool left = (x <= node.threshold) | missing_left;
  if constexpr (Subsets)
    if (node.feature_and_default & SUBSET_BIT)
      left = missing_left || level_goes_left(sets, node, x);
  return node.left + static_cast<int32_t>(!left);
}

}  // namespace bitgrove
