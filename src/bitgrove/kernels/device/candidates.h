// Cuts that a warp compares: eight bins of a feature per lane, the best of which every lane learns.
#pragma once

#include "blocks.h"
#include "levels.h"
#include "plans.h"

namespace bitgrove {

constexpr int BINS_PER_LANE = BINS_PER_FEATURE / WARP;
#define NO_GAIN (-__longlong_as_double(0x7FF0000000000000ll))

BG_FN SplitInfo no_split() { return {NO_GAIN, 0, 0, -1, 0, 0, 0, {}}; }

// A cut of a feature. order: which of equals is taken; 2 * bin, plus 1 where missing goes right.
struct Candidate {
  double gain;
  int order;
};

template <class Gain>
BG_FN void consider(Candidate& best, double left_grad, double left_hess, int order,
                    const SearchNode& node, const Gain& gain_of) {
  const double right_grad = node.grad - left_grad, right_hess = node.hess - left_hess;
  if (!(left_hess >= node.min_hess) || !(right_hess >= node.min_hess)) return;
  const double gain = gain_of(left_grad, left_hess, right_grad, right_hess);
  if (gain > best.gain) best = {gain, order};
}

// The warp's best candidate, on every lane: of equals the first one's. A lane's candidates come
// before those of the next.
BG_FN Candidate best_of_warp(const Candidate& mine) {
  double gain = mine.gain;
  for (int step = WARP / 2; step > 0; step /= 2) {
    const double other = __shfl_xor_sync(ALL_LANES, gain, step);
    gain = other > gain ? other : gain;
  }
  const int from = __ffs(__ballot_sync(ALL_LANES, mine.gain == gain)) - 1;
  return {gain, __shfl_sync(ALL_LANES, mine.order, from)};
}

BG_FN LevelSums from_lane(LevelSums sums, int lane) {
  return {__shfl_sync(ALL_LANES, sums.grad, lane), __shfl_sync(ALL_LANES, sums.hess, lane)};
}

// What a bin's lane holds of it, on every lane.
template <class Value>
BG_FN Value of_bin(const Value* mine, int bin) {
  Value value = mine[0];
#pragma unroll
  for (int k = 1; k < BINS_PER_LANE; ++k)
    if (bin % BINS_PER_LANE == k) value = mine[k];
  return from_lane(value, bin / BINS_PER_LANE);
}

}  // namespace bitgrove
