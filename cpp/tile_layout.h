// Which features share a byte of the CPU's row-major tiles.
//
// Features of few bins are written into one tile column, in mixed radix: with the bins b0, b1, b2 of
// features that have n0, n1, n2 bins, the byte is (b0 * n1 + b1) * n2 + b2. One addition into the
// histogram of that byte serves all of them; its marginals are the features' histograms, exactly.
// The numbers of bins alone decide who shares, so every shard has the same layout.
#pragma once

#include <cstdint>
#include <vector>

namespace bitgrove {

struct TileMember {
  int feature;
  int64_t n_bins, bin_offset;  // where its bins are in a histogram
};

struct TileColumn {
  int n_codes = 1;                  // the product of its features' bins, at most 256
  std::vector<TileMember> members;  // the most significant first
};

class TileLayout {
 public:
  // Feature f has the bins [bin_offset[f], bin_offset[f + 1]), the missing one included.
  explicit TileLayout(const std::vector<int64_t>& bin_offset);

  const std::vector<TileColumn>& columns() const { return columns_; }
  int n_columns() const { return static_cast<int>(columns_.size()); }
  int n_features() const { return n_features_; }
  int64_t n_bins() const { return n_bins_; }
  int64_t n_bytes(int64_t n_rows) const;

 private:
  int n_features_;
  int64_t n_bins_;
  std::vector<TileColumn> columns_;
};

}  // namespace bitgrove
