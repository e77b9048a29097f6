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

// What the parts of a plan have to do, in additions into bins.
struct BatchWork {
  int64_t n_parts, total, most_of_part;
};

// All columns, divided into more and more strips, until all threads can work on one node.
class Strips {
 public:
  // bin_offset: of each of the n_features features.
  Strips(const TileLayout& layout, const int64_t* bin_offset, int n_features, int n_threads);

  // As few as keep the threads busy: each strip goes through a node's rows again.
  const std::vector<Strip>& of_batch(const BatchWork& work, int n_threads) const;

 private:
  std::vector<std::vector<Strip>> by_halves_;  // each twice as many for a tile as before
  int n_tiles_;
};

}  // namespace bitgrove
