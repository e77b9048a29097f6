// Building and subtracting histograms, for the bindings in search.cpp.
#pragma once

#include <cstdint>

#include "common/simd.h"
#include "data/tile_layout.h"
#include "layouts.h"
#include "tiles.h"

namespace bitgrove {

// A plan: one step per row, as the frontier or a test made it.
struct PlanView {
  const int64_t* data;
  int64_t n_steps, n_columns;

  const int64_t* step(int64_t i) const { return data + i * n_columns; }
};

struct PoolView {
  uint8_t* data;
  int64_t n_slots, slot_bytes;

  // Checks that n_bins sums of that width fit.
  uint8_t* slot(int64_t index, int64_t n_bins, int width) const;
};

struct BinRange {
  int64_t first, last;
};

// What histograms are made of; `packed` is false for the paper's unpacked ablation.
struct HistogramSource {
  const TileLayout* layout;
  TileView tiles;  // what TileView calls a feature is a column of the layout here
  const int32_t* rows;
  int64_t n_listed;
  const void* packed_rows;
  int row_width;
  bool packed;
};

// plan: begin, end, slot, local width, total width, rows per block.
void build_histograms(const PlanView& plan, const PoolView& pool, const HistogramSource& source,
                      int n_threads, Simd simd);

// plan: parent slot (becomes the larger child), built slot, parent width, built width, out width.
void subtract_histograms(const PlanView& plan, const PoolView& pool, BinRange bins, bool packed,
                         int n_threads, Simd simd);

}  // namespace bitgrove
