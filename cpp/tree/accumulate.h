// Rows of a node, added into narrow sums of a thread's own: the histogram of some columns of a
// tile.
//
// The plan says how many rows surely fit the narrow width, whichever they are; the real sums are
// watched, so that more are added while they fit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "common/compiler.h"
#include "tree/histogram.h"

namespace bitgrove {

// A row is asked for so many rows early, earlier where rows of few columns follow each other
// faster.
template <int Columns>
constexpr int64_t PREFETCHED_ROWS = Columns > 0 && Columns <= 8 ? 96 : 48;
constexpr int64_t CACHE_LINE = 64;
// The sums are looked at after each of so many parts of the rows that surely fit.
constexpr int64_t PARTS = 4;

// Rows of the list, and the columns of which they are added.
struct RowSpan {
  TileColumns columns;
  int64_t begin, end;
};

// From one column to the next in a local histogram. The cache line between two columns keeps equal
// codes of different columns out of the same cache set: where few codes are frequent they are hot.
template <class Local>
constexpr int64_t COLUMN_STRIDE = BINS_PER_FEATURE + CACHE_LINE / sizeof(typename Local::Sum);

template <class Local>
BG_FN void add_to(typename Local::Sum* local, const uint8_t* codes, int column,
                  typename Local::Sum value) {
  auto& sum = local[column * COLUMN_STRIDE<Local> + codes[column]];
  sum = Local::add(sum, value);
}

// Adds one row's value to its code of each column, from the last one down: straight code that is
// entered at `last`. The mask changes nothing; it saves the compiler a test.
template <class Local>
BG_FN void add_row(typename Local::Sum* local, const uint8_t* codes, int last,
                   typename Local::Sum value) {
  static_assert(TILE_FEATURES == 32);
#define ADD(COLUMN)                             \
  case COLUMN:                                  \
    add_to<Local>(local, codes, COLUMN, value); \
    [[fallthrough]];
#define ADD_FOUR(COLUMN) \
  ADD(COLUMN + 3)        \
  ADD(COLUMN + 2)        \
  ADD(COLUMN + 1)        \
  ADD(COLUMN + 0)
  switch (last & 31) {
    ADD_FOUR(28)
    ADD_FOUR(24)
    ADD_FOUR(20)
    ADD_FOUR(16)
    ADD_FOUR(12)
    ADD_FOUR(8)
    ADD_FOUR(4)
    ADD_FOUR(0)
    default:
      break;
  }
#undef ADD_FOUR
#undef ADD
}

// Largest |gradient sum| and hessian sum of a layout, as histograms.py plans with.
template <class Layout>
constexpr GradientSums MOST_SUMS{INT64_MAX >> (64 - Layout::half_bits),
                                 INT64_MAX >> (63 - std::min(Layout::half_bits, 63))};

// Up to so many columns have code of their own, without a jump for each row. Of more
// columns the jump is a small part, and of rows of 32 bits the additions are slower.
constexpr int OWN_COLUMNS = 16;

// Returns what the rows add to a sum at most: their |gradients| and hessians. Columns: how many
// there are, or 0: as many as the span says.
template <class Row, class Local, int Columns>
GradientSums accumulate(const HistogramSource& source, const RowSpan& span,
                        typename Local::Sum* local) {
  using Int = std::conditional_t<Row::half_bits <= 16, int32_t, int64_t>;
  const int last_column = span.columns.n() - 1, tile = span.columns.tile;
  const int64_t stride = TileView::stride_of(tile, source.tiles.n_features);
  const uint8_t* codes = source.tiles.rows_of(tile) + span.columns.first;
  const auto* packed_rows = static_cast<const typename Row::Sum*>(source.packed_rows);
  const int32_t* rows = source.rows;
  const int64_t last = source.n_listed - 1;
  Int abs_grad = 0, hess = 0;
  for (int64_t i = span.begin; i < span.end; ++i) {
    const int64_t row = rows[i];
    const int64_t ahead = rows[std::min(i + PREFETCHED_ROWS<Columns>, last)];
    prefetch(codes + ahead * stride);
    prefetch(packed_rows + ahead);
    const typename Row::Sum packed = packed_rows[row];
    const auto grad = static_cast<Int>(Row::grad(packed));
    abs_grad += grad < 0 ? -grad : grad;
    hess += static_cast<Int>(Row::hess(packed));
    add_row<Local>(local, codes + row * stride, Columns > 0 ? Columns - 1 : last_column,
                   convert<Local, Row>(packed));
  }
  return {abs_grad, hess};
}

// Chooses the code for the number of columns.
template <class Row, class Local, int Columns = OWN_COLUMNS>
GradientSums accumulate_columns(const HistogramSource& source, const RowSpan& span,
                                typename Local::Sum* local) {
  if constexpr (Columns > 0 && std::is_integral_v<typename Local::Sum> && Row::half_bits <= 8 &&
                Local::half_bits <= 16) {
    if (span.columns.n() != Columns)
      return accumulate_columns<Row, Local, Columns - 1>(source, span, local);
    return accumulate<Row, Local, Columns>(source, span, local);
  } else {
    return accumulate<Row, Local, 0>(source, span, local);
  }
}

// Adds the rows in parts, and flushes where another part might not fit any more, and in the end.
template <class Row, class Local, class Flush>
void add_rows(const HistogramSource& source, const RowSpan& span, int64_t block_rows,
              typename Local::Sum* local, const Flush& flush_local) {
  constexpr GradientSums MOST = MOST_SUMS<Local>;
  // Of the sums that leave room for another part; of fewer rows than parts, each is a part alone.
  const int64_t parts_before = block_rows < PARTS ? 0 : PARTS - 1;
  const GradientSums room{MOST.grad / PARTS * parts_before, MOST.hess / PARTS * parts_before};
  const int64_t part_rows = std::max<int64_t>(1, block_rows / PARTS);
  GradientSums used{0, 0};
  for (int64_t begin = span.begin; begin < span.end; begin += part_rows) {
    if (used.grad > room.grad || used.hess > room.hess) {
      flush_local();
      used = {0, 0};
    }
    const RowSpan part{span.columns, begin, std::min(begin + part_rows, span.end)};
    const GradientSums more = accumulate_columns<Row, Local>(source, part, local);
    used = {used.grad + more.grad, used.hess + more.hess};
  }
  flush_local();
}

}  // namespace bitgrove
