// How a GPU divides the work of a round into blocks, whoever plans it: the host or the GPU itself.
#pragma once

#include "plans.h"

namespace bitgrove {

// What a round of a tree has to do. Its kernels may be launched for more than that: blocks that
// have nothing to do end at once. search_blocks: of each node. first_found: where the first one's
// split goes; the host may wait for it.
struct RoundSizes {
  int64_t n_divided, division_blocks, n_cleared, n_built, build_blocks;
  int64_t n_searched, search_blocks, first_found, host_waits;
};

// Rows of a histogram block: enough that adding costs more than flushing, few enough to fill the
// GPU. Three words hold 4096; below 2048, one word is not worth its many flushes.
constexpr int64_t LEAST_ROWS = 1024, MOST_ROWS = 8192, MOST_SPLIT_ROWS = 4096,
                  LEAST_NARROW_ROWS = 2048;
constexpr int64_t BLOCKS_PER_PROCESSOR = 8;
// Bins of a slot that a division clears on the way, which may have few blocks; more take a launch
// of their own.
constexpr int64_t MOST_CLEARED = 65536;
// To end a block of the search takes time: where there are warps enough without a warp for each
// feature, a warp looks at several.
constexpr int64_t MANY_WARPS = 32768;

BG_FN int64_t blocks_of(int64_t n, int64_t block) { return (n + block - 1) / block; }

// words: of 32 bits, per bin in shared memory.
BG_FN int64_t build_block_rows(int64_t n_rows, int64_t n_tiles, int64_t n_processors, int words) {
  const int64_t most = words == 3 ? MOST_SPLIT_ROWS : MOST_ROWS,
                wanted = n_rows * n_tiles / (BLOCKS_PER_PROCESSOR * n_processors);
  return wanted < LEAST_ROWS ? LEAST_ROWS : wanted > most ? most : wanted;
}

// Whether the smaller child of a division may get several blocks, which need zeros to add to, and
// its slot is short enough to be cleared by the division.
BG_FN bool may_need_clearing(const Division& division, int64_t slot_size) {
  return slot_size <= MOST_CLEARED && division.end - division.begin > 2 * LEAST_ROWS;
}

// Blocks of the search of each node.
BG_FN int64_t search_blocks(int64_t n_features, int64_t n_nodes) {
  const int64_t all = blocks_of(n_features, FEATURES_PER_BLOCK),
                enough = blocks_of(MANY_WARPS / FEATURES_PER_BLOCK, n_nodes > 1 ? n_nodes : 1);
  return all < enough ? all : enough;
}

}  // namespace bitgrove
