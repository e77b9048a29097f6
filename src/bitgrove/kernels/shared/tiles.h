// Row-major bins in tiles of 32 features: tile t holds features [32 t, 32 t + 32) of all rows.
//
// Within a tile a row takes 4, 8, 16 or 32 bytes, a power of two, so that it never straddles a
// cache line. Only the last tile can be narrower than 32 bytes.
#pragma once

#include "layouts.h"

namespace bitgrove {

struct TileView {
  const uint8_t* data;
  int64_t n_rows;
  int n_features;

  static BG_FN int n_tiles(int n_features) {
    return (n_features + TILE_FEATURES - 1) / TILE_FEATURES;
  }
  static BG_FN int features_of(int tile, int n_features) {
    const int left = n_features - tile * TILE_FEATURES;
    return left < TILE_FEATURES ? left : TILE_FEATURES;
  }
  static BG_FN int stride_of(int tile, int n_features) {
    const int n = features_of(tile, n_features);
    return n <= 4 ? 4 : n <= 8 ? 8 : n <= 16 ? 16 : 32;
  }
  static BG_FN int64_t offset_of(int tile, int64_t n_rows) { return tile * n_rows * TILE_FEATURES; }
  static BG_FN int64_t n_bytes(int64_t n_rows, int n_features) {
    const int last = n_tiles(n_features) - 1;
    return offset_of(last, n_rows) + n_rows * stride_of(last, n_features);
  }

  BG_FN const uint8_t* rows_of(int tile) const { return data + offset_of(tile, n_rows); }
  BG_FN uint8_t bin(int64_t row, int feature) const {
    const int tile = feature / TILE_FEATURES;
    return rows_of(tile)[row * stride_of(tile, n_features) + feature % TILE_FEATURES];
  }
};

// bin = number of edges below the value: x <= edge[b] puts x into bin b or lower. A feature's
// edges are padded with +inf to BINS_PER_FEATURE, so that the search needs no bounds.
BG_FN int count_below(const double* edges, double x) {
  int position = 0;
  for (int step = BINS_PER_FEATURE / 2; step > 0; step /= 2)
    position += step * static_cast<int>(edges[position + step - 1] < x);
  return position;
}

// The side a bin takes at a split; the missing bin is above all value bins.
BG_FN bool goes_left(int bin, int split_bin, int missing_bin, bool default_left) {
  return bin <= split_bin || (default_left && bin == missing_bin);
}

}  // namespace bitgrove
