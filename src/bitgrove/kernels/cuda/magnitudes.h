// Magnitudes of many floats: the largest, as a bit pattern (infinities and NaN are above all
// numbers), and how many fall into each bucket.
#pragma once

#include "blocks.h"
#include "plans.h"

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

// A block's counts, in shared memory; all its threads call these. It sees fewer than 2^32 rows.
struct BlockCounts {
  uint32_t counts[MAGNITUDE_BUCKETS];

  __device__ void clear() {
    for (int b = threadIdx.x; b < MAGNITUDE_BUCKETS; b += THREADS) counts[b] = 0;
    __syncthreads();
  }
  __device__ void add(float x) { atomicAdd(counts + (magnitude_bits(x) >> MAGNITUDE_SHIFT), 1u); }
  __device__ void add_to(int64_t* all) {
    __syncthreads();
    for (int b = threadIdx.x; b < MAGNITUDE_BUCKETS; b += THREADS)
      if (counts[b] != 0) atomic_add(all + b, counts[b]);
  }
};

}  // namespace bitgrove
