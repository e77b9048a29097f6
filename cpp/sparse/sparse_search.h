// Splits of features in lists, found without slots (sparse_bins.h).
//
// Where a table has nearly as many bins as values, a histogram of all of them is as large as the
// table. Here the values of a few features at a time are added up, of all searched nodes at once.
#pragma once

#include <vector>

#include "tree/splits.h"

namespace bitgrove {

// Of each node of the plan the best split among the features in lists, which all have postings.
std::vector<SplitInfo> search_postings(const SearchPlan& plan, const PoolView& pool,
                                       const HistogramSource& source, const SplitFeatures& features,
                                       const SearchRules& rules, int n_threads, Simd simd);

}  // namespace bitgrove
