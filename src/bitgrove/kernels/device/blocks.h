// How threads share work: which node a block belongs to, and sums over warps and blocks.
#pragma once

#include "layouts.h"

namespace bitgrove {

typedef unsigned long long Word64;  // what 64-bit atomics take
constexpr unsigned ALL_LANES = 0xFFFFFFFFu;
constexpr int WARP = 32;

// In a graph a kernel may be launched while the one before it still runs; it waits here before it
// reads what that one writes.
BG_FN void wait_for_last_kernel() {
#if __CUDA_ARCH__ >= 900 && !defined(EMULATED_GPU)
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// A batch's blocks are numbered node by node: node i has [first_block[i], first_block[i + 1]).
struct NodeBlock {
  int64_t node, index, n_blocks;
};

// Whole warps call this: the lanes look at 32 places at once, so 32 nodes take one load in turn.
BG_FN NodeBlock node_block(const int64_t* first_block, int64_t n_nodes, int64_t block) {
  const int lane = threadIdx.x % WARP;
  int64_t low = 0, n_left = n_nodes;  // the node is one of [low, low + n_left)
  while (n_left > 1) {
    const int64_t step = (n_left + WARP - 1) / WARP, at = low + lane * step;
    const bool before = lane * step < n_left && first_block[at] <= block;
    const int last = __popc(__ballot_sync(ALL_LANES, before)) - 1;
    n_left = n_left - last * step < step ? n_left - last * step : step;
    low += last * step;
  }
  return {low, block - first_block[low], first_block[low + 1] - first_block[low]};
}

BG_FN void atomic_add(int64_t* address, int64_t value) {
  atomicAdd(reinterpret_cast<Word64*>(address), static_cast<Word64>(value));
}

#if __CUDA_ARCH__ >= 800  // these add up 32 bits over a warp in one step
BG_FN int64_t warp_sum(int64_t value) {
  constexpr int PART = 26;  // 32 of such parts fit
  constexpr unsigned MASK = (1u << PART) - 1;
  const uint64_t low = __reduce_add_sync(ALL_LANES, static_cast<unsigned>(value) & MASK),
                 middle = __reduce_add_sync(ALL_LANES, static_cast<unsigned>(value >> PART) & MASK);
  const int64_t high = __reduce_add_sync(ALL_LANES, static_cast<int>(value >> 2 * PART));
  return static_cast<int64_t>(low + (middle << PART) + (static_cast<uint64_t>(high) << 2 * PART));
}
#else
BG_FN int64_t warp_sum(int64_t value) {
  for (int step = WARP / 2; step > 0; step /= 2) value += __shfl_xor_sync(ALL_LANES, value, step);
  return value;
}
#endif

// The block's sum, in thread 0 alone; `partial` has room for one number per warp.
BG_FN int64_t block_sum(int64_t value, int64_t* partial) {
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  value = warp_sum(value);
  __syncthreads();
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int w = 1; w < blockDim.x / WARP; ++w) value += partial[w];
  return value;
}

// Sums of other lanes of the warp.
BG_FN int64_t from_lane(int64_t sum, int lane) { return __shfl_sync(ALL_LANES, sum, lane); }
BG_FN PairSum<int64_t> from_lane(PairSum<int64_t> sum, int lane) {
  return {__shfl_sync(ALL_LANES, sum.grad, lane), __shfl_sync(ALL_LANES, sum.hess, lane)};
}
BG_FN int64_t shift_up(int64_t sum, int step) { return __shfl_up_sync(ALL_LANES, sum, step); }
BG_FN PairSum<int64_t> shift_up(PairSum<int64_t> sum, int step) {
  return {__shfl_up_sync(ALL_LANES, sum.grad, step), __shfl_up_sync(ALL_LANES, sum.hess, step)};
}

// The sum over the threads up to and with this one; `partial` has room for one number per warp.
BG_FN int64_t block_scan(int64_t value, int64_t* partial) {
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  for (int step = 1; step < WARP; step *= 2) {
    const int64_t before = __shfl_up_sync(ALL_LANES, value, step);
    if (lane >= step) value += before;
  }
  __syncthreads();
  if (lane == WARP - 1) partial[warp] = value;
  __syncthreads();
  return value + warp_sum(lane < warp ? partial[lane] : 0);
}

}  // namespace bitgrove
