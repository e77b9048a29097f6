// Which features share a byte of the CPU's row-major tiles.
//
// Features of few bins are written into one code, in mixed radix: with the bins b0, b1, b2 of
// features that have n0, n1, n2 bins, it is (b0 * n1 + b1) * n2 + b2. Such codes share a tile
// column when the rows hold at most 256 different combinations of them, as one-hot features do: the
// byte is the combination's number. One addition into the histogram of that byte serves all
// features; sums over combinations and over the other features' bins are their histograms, exactly.
// A layout is a matter of one shard: histograms of features, not of bytes, go to other ranks.
#pragma once

#include <cstdint>
#include <vector>

namespace bitgrove {

struct TileMember {
  int feature;                 // its column of bins
  int64_t n_bins, bin_offset;  // where its bins are in a histogram
};

// Features in mixed radix.
struct TileCode {
  int n_codes = 1;                  // the product of its features' bins, at most 256
  std::vector<TileMember> members;  // the most significant first
  std::vector<uint8_t> of_byte;     // this code's value in each byte of a column that codes share
};

struct TileColumn {
  int n_bytes = 1;  // different ones
  std::vector<TileCode> codes;
  // The byte of the codes up to k: numbers[k - 1][byte of those before * n_codes + code k].
  std::vector<std::vector<uint8_t>> numbers;
};

// Bins by column, (n_features, at least n_rows).
struct ColumnView {
  const uint8_t* bins;
  int64_t stride, n_rows;
};

class TileLayout {
 public:
  // Feature f has the bins [bin_offset[f], bin_offset[f + 1]), the missing one included. features:
  // those that are in the tiles; what a member calls its feature is the place in this list.
  [[gnu::cold]] TileLayout(const std::vector<int64_t>& bin_offset,
                           const std::vector<int64_t>& features);
  TileLayout(const TileLayout&) = delete;

  // Joins columns of which these rows hold few combinations.
  void join_columns(const ColumnView& rows);
  // Fills the tiles; false if a bin is none of its feature's.
  bool lay(const ColumnView& rows, uint8_t* tiles, int n_threads) const;

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
