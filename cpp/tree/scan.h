// Running sums of 64 bytes of integers at a time, in the compiler's vector types.
#pragma once

#include <cstring>
#include <type_traits>

#include "layouts.h"

namespace bitgrove {

template <class Int>
constexpr int lanes_of = 64 / sizeof(Int);

#if defined(__clang__)

// out[i] = before + in[0] + ... + in[i] for one vector of lanes; returns the last.
template <class Int>
BG_FN Int scan_lanes(const Int* in, Int before, Int* out) {
  auto sum = static_cast<std::make_unsigned_t<Int>>(before);
  for (int i = 0; i < lanes_of<Int>; ++i) out[i] = static_cast<Int>(sum += in[i]);
  return static_cast<Int>(sum);
}

#else  // vectors with shuffles of GCC

// Unsigned: lanes behind the last bin hold anything, and their sums, which nobody reads, may wrap.
template <class Int>
using Lanes __attribute__((vector_size(64))) = std::make_unsigned_t<Int>;

// x[i] += x[i - Shift], then the same with twice the shift: each lane gets the sum up to itself.
template <class Int, int Shift = 1>
BG_FN void add_lower_lanes(Lanes<Int>& x) {
  if constexpr (Shift < lanes_of<Int>) {
    Lanes<Int> from{};  // lane 0 to Shift - 1 of zeros, then the lanes of x
    for (int i = 0; i < lanes_of<Int>; ++i) from[i] = i < Shift ? i : lanes_of<Int> + i - Shift;
    x += __builtin_shuffle(Lanes<Int>{}, x, from);
    add_lower_lanes<Int, 2 * Shift>(x);
  }
}

// out[i] = before + in[0] + ... + in[i] for one vector of lanes; returns the last.
template <class Int>
BG_FN Int scan_lanes(const Int* in, Int before, Int* out) {
  Lanes<Int> x;
  std::memcpy(&x, in, sizeof x);
  add_lower_lanes<Int>(x);
  x += static_cast<std::make_unsigned_t<Int>>(before);
  std::memcpy(out, &x, sizeof x);
  return static_cast<Int>(x[lanes_of<Int> - 1]);
}

#endif

}  // namespace bitgrove
