// The best split of each node of a batch, for trainings without rules of their own.
//
// The search is split_search.h. Columns of several kinds are searched by kernels of their own name,
// which a table of numbers never starts.
#include "split_search.h"

using namespace bitgrove;

// BLOCKS: that a processor must have room for at a time. The search waits for memory most of its
// time: a few spilled registers cost less than a block fewer.
#define FIND_KERNEL(NAME, WIDTH, MIXED, BLOCKS)                                                 \
  extern "C" __global__ void __launch_bounds__(WARPS_PER_BLOCK* WARP, BLOCKS)                   \
      NAME##_##WIDTH(SEARCH_ARGUMENTS) {                                                        \
    SEARCH_NAMED_ARGUMENTS                                                                      \
    find_splits<Packed<WIDTH>, MIXED>(                                                          \
        pool, slot_size, nodes, features, rules, sizes, findings, [&](const SearchNode& node) { \
          return PlainGain{rules, leaf_score(node.grad, node.hess, rules)};                     \
        });                                                                                     \
  }

FIND_KERNEL(find_splits, 32, false, 4)
FIND_KERNEL(find_splits, 64, false, 2)
FIND_KERNEL(find_mixed_splits, 32, true, 2)
FIND_KERNEL(find_mixed_splits, 64, true, 2)
