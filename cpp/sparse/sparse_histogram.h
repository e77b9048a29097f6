// The part of histograms that is made of lists of stored values (sparse_bins.h).
#pragma once

#include "tree/histogram.h"

namespace bitgrove {

// Fills the slots of the plan, in their total widths: the bins of features in lists with their
// sums, all others with zero. What is not stored is in the implied bin: the node's sums less those
// of the feature's other bins.
void build_sparse(std::span<const Build> plan, const PoolView& pool, const HistogramSource& source,
                  int n_threads);

// As subtract_histograms, of all bins. Where a build has few values, they are taken from its
// parent's slot one by one, instead of slot from slot. builds: those that filled the built slots.
void subtract_sparse(std::span<const Subtraction> plan, std::span<const Build> builds,
                     const PoolView& pool, const HistogramSource& source, int n_threads, Simd simd);

}  // namespace bitgrove
