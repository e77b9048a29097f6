// The second step of a division: the two halves of every block of rows go to their places.
//
// A kernel of its own (partition.cu), and a part of one that plans the children meanwhile
// (ahead.cu).
#pragma once

#include "blocking.h"
#include "blocks.h"
#include "plans.h"

namespace bitgrove {

constexpr int PARTITION_WARPS = PARTITION_THREADS / WARP;

// number: of the block, of n_launched; those that have rows come first, and all clear slots. Every
// block adds up the counts of its node itself: cheaper than a launch of its own.
__device__ void place_rows(int32_t* __restrict__ rows, const int32_t* __restrict__ scratch,
                           const Plan& plan, int64_t sizes_at, int64_t divisions_at,
                           int64_t first_block_at, const int64_t* n_left, int64_t* pool,
                           int64_t slot_size, int64_t cleared_at, int64_t number,
                           int64_t n_launched) {
  const RoundSizes& sizes = *plan.at<RoundSizes>(sizes_at);
  const auto size = static_cast<uint32_t>(slot_size),
             n_bins = static_cast<uint32_t>(sizes.n_cleared) * size;
  for (auto at = static_cast<uint32_t>(number) * PARTITION_THREADS + threadIdx.x; at < n_bins;
       at += static_cast<uint32_t>(n_launched) * PARTITION_THREADS)
    pool[plan.at<int32_t>(cleared_at)[at / size] * slot_size + at % size] = 0;
  if (number >= sizes.division_blocks) return;
  const int64_t* first_block = plan.at<int64_t>(first_block_at);
  const NodeBlock block = node_block(first_block, sizes.n_divided, number);
  const Division split = plan.at<Division>(divisions_at)[block.node];
  const int64_t* counts = n_left + (number - block.index);
  int64_t before = 0, total = 0;
  for (int64_t b = threadIdx.x; b < block.n_blocks; b += PARTITION_THREADS) {
    before += b < block.index ? counts[b] : 0;
    total += counts[b];
  }
  __shared__ int64_t partial[PARTITION_WARPS];
  __shared__ int64_t sums[2];
  before = block_sum(before, partial);
  total = block_sum(total, partial);
  if (threadIdx.x == 0) {
    sums[0] = before;
    sums[1] = total;
  }
  __syncthreads();
  const int64_t begin = split.begin + block.index * PARTITION_ROWS;
  const int64_t n_block = split.end - begin < PARTITION_ROWS ? split.end - begin : PARTITION_ROWS;
  const int64_t mine = counts[block.index];
  const int64_t left_to = split.begin + sums[0];
  const int64_t right_to = split.begin + sums[1] + (block.index * PARTITION_ROWS - sums[0]);
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < n_block; i += PARTITION_THREADS)
    rows[i < mine ? left_to + i : right_to + i - mine] = scratch[begin + i];
}

}  // namespace bitgrove

#define PLACE_ARGUMENTS                                                                \
  int32_t *__restrict__ rows, const int32_t *__restrict__ scratch,                     \
      const __grid_constant__ Plan plan, int64_t sizes_at, int64_t divisions_at,       \
      int64_t first_block_at, const int64_t *n_left, int64_t *pool, int64_t slot_size, \
      int64_t cleared_at
#define PLACE_NAMES \
  rows, scratch, plan, sizes_at, divisions_at, first_block_at, n_left, pool, slot_size, cleared_at
