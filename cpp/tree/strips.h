// Columns of the tiles that belong to one thread: it builds, subtracts and searches the histograms
// of their features, so that sums stay in its caches, from node to child, and no two threads add to
// the same ones.
#pragma once

#include <cstdint>
#include <vector>

#include "tree/histogram.h"

namespace bitgrove {

struct Strip {
  TileColumns columns;
  std::vector<int> features;   // whose bins are in these columns; they ascend
  std::vector<BinRange> bins;  // of these features
};

// At least one for each thread, if there are columns enough, and for each tile. bin_offset: of each
// of the n_features features.
std::vector<Strip> make_strips(const TileLayout& layout, const int64_t* bin_offset, int n_features,
                               int n_threads);

}  // namespace bitgrove
