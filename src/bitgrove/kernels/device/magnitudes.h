// The Magnitudes of many gradients: each thread takes its own, then a block adds them to all.
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

BG_FN uint32_t warp_maximum(uint32_t value) {
  for (int step = WARP / 2; step > 0; step /= 2) {
    const uint32_t other = __shfl_xor_sync(ALL_LANES, value, step);
    value = other > value ? other : value;
  }
  return value;
}

// Adds to what all blocks have; whole blocks call this, of at most 32 warps. A block adds up its
// own first: atomics of one address wait for each other.
BG_FN void add_magnitudes(Magnitudes* all, const Magnitudes& mine) {
  __shared__ Magnitudes of_warp[WARP];
  const Magnitudes sums{warp_sum(mine.grad_logs),    warp_sum(mine.hess_logs),
                        warp_sum(mine.grad_rows),    warp_sum(mine.hess_rows),
                        warp_maximum(mine.grad_top), warp_maximum(mine.hess_top)};
  if (threadIdx.x % WARP == 0) of_warp[threadIdx.x / WARP] = sums;
  __syncthreads();
  if (threadIdx.x == 0) {
    Magnitudes block = sums;
    for (int w = 1; w < blockDim.x / WARP; ++w) {
      const Magnitudes& other = of_warp[w];
      block.grad_logs += other.grad_logs;
      block.hess_logs += other.hess_logs;
      block.grad_rows += other.grad_rows;
      block.hess_rows += other.hess_rows;
      block.grad_top = max(block.grad_top, other.grad_top);
      block.hess_top = max(block.hess_top, other.hess_top);
    }
    if (block.grad_rows > 0) {
      atomic_add(&all->grad_logs, block.grad_logs);
      atomic_add(&all->grad_rows, block.grad_rows);
      atomicMax(&all->grad_top, block.grad_top);
    }
    if (block.hess_rows > 0) {
      atomic_add(&all->hess_logs, block.hess_logs);
      atomic_add(&all->hess_rows, block.hess_rows);
      atomicMax(&all->hess_top, block.hess_top);
    }
  }
  __syncthreads();  // of_warp is free for the next call
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
