// The best split of each node of a batch, for trainings with rules (rules.h).
//
// A file of its own: a training without rules does not wait for it to be compiled.
#include "rules.h"
#include "split_search.h"

using namespace bitgrove;

#define FIND_KERNEL(NAME, WIDTH, MIXED)                                                     \
  extern "C" __global__ void __launch_bounds__(WARPS_PER_BLOCK* WARP)                       \
      NAME##_##WIDTH(SEARCH_ARGUMENTS, const int8_t* direction, const double* contribution, \
                     double path_smooth, int64_t extra_trees) {                             \
    SEARCH_NAMED_ARGUMENTS                                                                  \
    const SplitRules split_rules{direction, contribution, path_smooth, extra_trees};        \
    find_splits<Packed<WIDTH>, MIXED>(                                                      \
        pool, slot_size, nodes, features, rules, sizes, findings,                           \
        [&](const SearchNode& node) { return ruled_gain(rules, node, split_rules); });      \
  }

FIND_KERNEL(find_splits, 32, false)
FIND_KERNEL(find_splits, 64, false)
FIND_KERNEL(find_mixed_splits, 32, true)
FIND_KERNEL(find_mixed_splits, 64, true)
