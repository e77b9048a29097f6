// Bins of a table whose rows lie in two places.
#pragma once

#include "plans.h"
#include "tiles.h"

namespace bitgrove {

// A tile of a place as if it began with row 0 of the table; `first` is the place's own first row.
BG_FN const uint8_t* tile_rows(const BinsPlace& place, int64_t first, int tile, int n_features) {
  const int64_t before = first * TileView::stride_of(tile, n_features);
  return reinterpret_cast<const uint8_t*>(place.tiles + TileView::offset_of(tile, place.n_rows) -
                                          before);
}

// The bins of one feature in one place: the address of row 0, and bytes from row to row.
struct BinSteps {
  const uint8_t* first_bin;
  int64_t step;
};

// Of a column, if there is one: there neighbours share what is read at once.
BG_FN BinSteps steps_of(const BinsPlace& place, int64_t first, int feature, int n_features) {
  if (place.columns != 0)
    return {reinterpret_cast<const uint8_t*>(place.columns + feature * place.n_rows - first), 1};
  const int tile = feature / TILE_FEATURES;
  return {tile_rows(place, first, tile, n_features) + feature % TILE_FEATURES,
          TileView::stride_of(tile, n_features)};
}

// The bins of one feature, wherever its rows are.
struct BinColumn {
  BinSteps here, there;
  int64_t n_here;

  BG_FN BinColumn(const PlacedBins& bins, int feature, int n_features)
      : here(steps_of(bins.here, 0, feature, n_features)),
        there(steps_of(bins.there, bins.here.n_rows, feature, n_features)),
        n_here(bins.here.n_rows) {}
  BG_FN int bin(int64_t row) const {
    const BinSteps& place = row < n_here ? here : there;
    return place.first_bin[row * place.step];
  }
};

// One bin of a row whose other bins are read, too: from the tiles, where they lie together.
BG_FN int bin_of_row(const PlacedBins& bins, int64_t row, int feature, int n_features) {
  const bool is_here = row < bins.here.n_rows;
  const BinsPlace& place = is_here ? bins.here : bins.there;
  const int tile = feature / TILE_FEATURES;
  const uint8_t* rows = tile_rows(place, is_here ? 0 : bins.here.n_rows, tile, n_features);
  return rows[row * TileView::stride_of(tile, n_features) + feature % TILE_FEATURES];
}

}  // namespace bitgrove
