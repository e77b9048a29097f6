// The Magnitudes of many gradients: each thread takes its own, then a warp adds them to all.
// How many values fall into each bucket of magnitudes is counted by a block.
#pragma once

#include "blocks.h"
#include "plans.h"

namespace bitgrove {

BG_FN uint32_t magnitude_bits(float x) {
  return static_cast<uint32_t>(__float_as_int(x)) & 0x7FFFFFFFu;
}

BG_FN void take_magnitude(float value, int64_t& logs, int64_t& rows, uint32_t& top) {
  const uint32_t bits = magnitude_bits(value);
  logs += bits >> MAGNITUDE_SHIFT;
  rows += bits != 0;
  top = bits > top ? bits : top;
}

BG_FN void take_magnitudes(float grad, float hess, Magnitudes& mine) {
  take_magnitude(grad, mine.grad_logs, mine.grad_rows, mine.grad_top);
  take_magnitude(hess, mine.hess_logs, mine.hess_rows, mine.hess_top);
}

BG_FN void add_top(uint32_t mine, uint32_t* top) {
  for (int step = WARP / 2; step > 0; step /= 2) {
    const uint32_t other = __shfl_xor_sync(ALL_LANES, mine, step);
    mine = other > mine ? other : mine;
  }
  if (threadIdx.x % WARP == 0 && mine > __ldcg(top)) atomicMax(top, mine);
}

BG_FN void add_sum(int64_t mine, int64_t* sum) {
  mine = warp_sum(mine);
  if (threadIdx.x % WARP == 0 && mine != 0) atomic_add(sum, mine);
}

// Whole warps call this.
BG_FN void add_magnitudes(Magnitudes* all, const Magnitudes& mine) {
  add_sum(mine.grad_logs, &all->grad_logs);
  add_sum(mine.hess_logs, &all->hess_logs);
  add_sum(mine.grad_rows, &all->grad_rows);
  add_sum(mine.hess_rows, &all->hess_rows);
  add_top(mine.grad_top, &all->grad_top);
  add_top(mine.hess_top, &all->hess_top);
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
