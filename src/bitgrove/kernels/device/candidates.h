// Cuts that a warp compares: eight bins of a feature per lane, the best of which every lane learns.
#pragma once

#include "blocks.h"
#include "levels.h"
#include "plans.h"

namespace bitgrove {

constexpr int BINS_PER_LANE = BINS_PER_FEATURE / WARP;
#define NO_GAIN (-__longlong_as_double(0x7FF0000000000000ll))

BG_FN SplitInfo no_split() { return {NO_GAIN, 0, 0, -1, 0, 0, 0, {}}; }

// Candidate cuts of a feature in the order of ties: 2 * bin, plus 1 where missing goes right.
struct Candidate {
  double gain, left_grad, left_hess;
  int order;
};

template <class Gain>
BG_FN void consider(Candidate& best, double left_grad, double left_hess, int order,
                    const SearchNode& node, const Gain& gain_of) {
  const double right_grad = node.grad - left_grad, right_hess = node.hess - left_hess;
  if (!(left_hess >= node.min_hess) || !(right_hess >= node.min_hess)) return;
  const double gain = gain_of(left_grad, left_hess, right_grad, right_hess);
  if (gain > best.gain) best = {gain, left_grad, left_hess, order};
}

// The warp's best candidate, on every lane.
BG_FN Candidate best_of_warp(Candidate best) {
  for (int step = WARP / 2; step > 0; step /= 2) {
    const Candidate other{__shfl_xor_sync(ALL_LANES, best.gain, step),
                          __shfl_xor_sync(ALL_LANES, best.left_grad, step),
                          __shfl_xor_sync(ALL_LANES, best.left_hess, step),
                          __shfl_xor_sync(ALL_LANES, best.order, step)};
    if (other.gain > best.gain || (other.gain == best.gain && other.order < best.order))
      best = other;
  }
  return best;
}

}  // namespace bitgrove
