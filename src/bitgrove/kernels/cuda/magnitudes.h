// The largest magnitude of many floats, as a bit pattern: infinities and NaN are above all numbers.
#pragma once

#include "blocks.h"

namespace bitgrove {

BG_FN uint32_t magnitude_bits(float x) {
  return static_cast<uint32_t>(__float_as_int(x)) & 0x7FFFFFFFu;
}

// Whole warps call this.
BG_FN void take_maximum(uint32_t mine, uint32_t* top) {
  for (int step = WARP / 2; step > 0; step /= 2) {
    const uint32_t other = __shfl_xor_sync(ALL_LANES, mine, step);
    mine = other > mine ? other : mine;
  }
  if (threadIdx.x % WARP == 0 && mine > 0) atomicMax(top, mine);
}

}  // namespace bitgrove
