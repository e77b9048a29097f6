// From a half-width known at run time to the layout type known at compile time.
#pragma once

#include <cstddef>
#include <stdexcept>

#include "layouts.h"

namespace bitgrove {

// Checked before a parallel region starts, where it is said once.
inline bool is_width(int64_t half_bits) {
  return half_bits == 8 || half_bits == 16 || half_bits == 32 || half_bits == 64;
}

// Of a slot's sums: 8 bits are for accumulators alone.
inline bool is_total_width(int64_t half_bits) { return is_width(half_bits) && half_bits > 8; }

// From the bytes of a packed row to its layout.
template <class Visit>
void visit_row_width(size_t n_bytes, Visit&& visit) {
  switch (n_bytes) {
    case 2:
      return visit(Packed<8>{});
    case 4:
      return visit(Packed<16>{});
    case 8:
      return visit(Packed<32>{});
    default:
      throw std::invalid_argument("bitgrove core: packed rows of unknown width");
  }
}

// The layout of rows that are added to such sums: no row is wider than they are.
template <class Sums, class Visit>
void visit_row_within(int half_bits, Visit&& visit) {
  visit_row_width(half_bits / 4, [&](auto row) {
    if constexpr (decltype(row)::half_bits <= Sums::half_bits) visit(row);
  });
}

// The layout of a slot's sums. Every layout that is visited is a copy of the code that visits it.
template <class Visit>
void visit_total_width(int half_bits, Visit&& visit) {
  switch (half_bits) {
    case 16:
      return visit(Packed<16>{});
    case 32:
      return visit(Packed<32>{});
    case 64:
      return visit(Packed<64>{});
    default:
      throw std::invalid_argument("bitgrove core: width must be 16, 32 or 64");
  }
}

// The layout of an accumulator. Not packed: the paper's ablation.
template <class Visit>
void visit_local_width(int half_bits, bool packed, Visit&& visit) {
  if (half_bits == 8) return packed ? visit(Packed<8>{}) : visit(Unpacked<8>{});
  if (half_bits == 16 && !packed) return visit(Unpacked<16>{});
  if (half_bits == 32 && !packed) return visit(Unpacked<32>{});
  visit_total_width(half_bits, visit);
}

}  // namespace bitgrove
