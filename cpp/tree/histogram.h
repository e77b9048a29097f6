// Building and subtracting histograms, as verbs of a tree (cpu_tree.h).
#pragma once

#include <cstdint>
#include <span>

#include "common/simd.h"
#include "data/tile_layout.h"
#include "plans.h"
#include "sparse/sparse_bins.h"
#include "tiles.h"

namespace bitgrove {

struct PoolView {
  uint8_t* data;
  int64_t n_slots, slot_bytes;

  // Checks that n_bins sums of that width fit.
  uint8_t* slot(int64_t index, int64_t n_bins, int width) const;
};

struct BinRange {
  int64_t first, last;
};

// Some neighbouring columns of a tile.
struct TileColumns {
  int tile, first, last;

  int n() const { return last - first; }
  int first_of_all() const { return tile * TILE_FEATURES + first; }
};

// What histograms are made of. packed: accumulators hold both halves of a sum in one integer, as
// slots do; false is the paper's ablation.
struct HistogramSource {
  const TileLayout* layout;
  TileView tiles;  // what TileView calls a feature is a column of the layout here
  const int32_t* rows;
  int64_t n_listed;
  const void* packed_rows;
  int row_width;
  bool packed;
  const SparseBins* sparse;  // of the features that are not in the tiles; null: all are
};

void build_histograms(std::span<const Build> plan, const PoolView& pool,
                      const HistogramSource& source, int n_threads, Simd simd);

// Of some columns, by the calling thread.
void build_columns(const Build& step, const TileColumns& columns, const PoolView& pool,
                   const HistogramSource& source, Simd simd);

// A step of which n_bins bins fit their slots.
void check_subtraction(const Subtraction& step, const PoolView& pool, int64_t n_bins);

// Of a step that was checked, within the given bins, by the calling thread.
void subtract_histogram(const Subtraction& step, const PoolView& pool, BinRange bins, Simd simd);

// Within the given bins alone.
void subtract_histograms(std::span<const Subtraction> plan, const PoolView& pool, BinRange bins,
                         int n_threads, Simd simd);

}  // namespace bitgrove
