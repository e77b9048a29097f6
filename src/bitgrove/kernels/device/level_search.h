// The search of a category's levels: sorted by their steps, or one against the rest.
#pragma once

#include "candidates.h"

namespace bitgrove {

// Sums of a feature's levels in the order of their steps; first the steps, in the order of bins.
struct LevelScratch {
  double grad[BINS_PER_FEATURE], hess[BINS_PER_FEATURE];
};

// The set of all lanes' bins whose bit is set in `mine`, on every lane.
BG_FN BinSet set_of_lanes(unsigned mine) {
  const int lane = threadIdx.x % WARP;
  uint64_t word = static_cast<uint64_t>(mine) << 8 * (lane % 8);
  for (int step = 1; step < 8; step *= 2) word |= __shfl_xor_sync(ALL_LANES, word, step);
  BinSet set;
  for (int w = 0; w < BINS_PER_FEATURE / 64; ++w)
    set.words[w] = __shfl_sync(ALL_LANES, word, 8 * w);
  return set;
}
static_assert(BINS_PER_LANE == 8, "a lane's bins are a byte of a set");

BG_FN SplitInfo subset_split(double gain, LevelSums left, int feature, const BinSet& set,
                             bool default_left) {
  return {gain,
          static_cast<int64_t>(left.grad),
          static_cast<int64_t>(left.hess),
          feature,
          SUBSET,
          default_left,
          0,
          set};
}

// Writes the sums of the levels with rows to the places of their steps; mine[k]: the places of this
// lane's levels, -1 for those without rows. Returns how many there are.
BG_FN int sort_levels(const LevelSums* levels, const GainRules& rules, LevelScratch& scratch,
                      int* mine) {
  const int first = (threadIdx.x % WARP) * BINS_PER_LANE;
  double step[BINS_PER_LANE];
  int n_levels = 0;
#pragma unroll
  for (int k = 0; k < BINS_PER_LANE; ++k) {
    const bool has_rows = levels[k].hess > 0.0;
    n_levels += has_rows;
    step[k] = has_rows ? level_step(levels[k], rules) : __longlong_as_double(0x7FF8000000000000ll);
    scratch.grad[first + k] = step[k];  // NaN comes before and after nothing
  }
  for (int shift = WARP / 2; shift > 0; shift /= 2)
    n_levels += __shfl_xor_sync(ALL_LANES, n_levels, shift);
  __syncwarp();
#pragma unroll
  for (int k = 0; k < BINS_PER_LANE; ++k) mine[k] = 0;
  for (int b = 0; b < BINS_PER_FEATURE; ++b) {
    const double other = scratch.grad[b];
#pragma unroll
    for (int k = 0; k < BINS_PER_LANE; ++k)
      mine[k] += other < step[k] || (other == step[k] && b < first + k);
  }
  __syncwarp();
#pragma unroll
  for (int k = 0; k < BINS_PER_LANE; ++k) {
    if (!(levels[k].hess > 0.0)) mine[k] = -1;
    if (mine[k] < 0) continue;
    scratch.grad[mine[k]] = levels[k].grad;
    scratch.hess[mine[k]] = levels[k].hess;
  }
  __syncwarp();
  return n_levels;
}

// The better of the runs from both ends: one lane walks from each.
template <class Gain>
BG_FN SplitInfo search_runs(const LevelSums* levels, int missing_bin, int feature,
                            const SearchNode& node, const Gain& gain_of, LevelScratch& scratch) {
  const int lane = threadIdx.x % WARP;
  int mine[BINS_PER_LANE];
  const int n_levels = sort_levels(levels, gain_of.rules, scratch, mine);
  LevelRun run{NO_GAIN, {0.0, 0.0}, 0};
  if (lane < 2)
    run = best_run(n_levels, node, gain_of, NO_GAIN, [&](int i) {
      const int at = lane == 0 ? i : n_levels - 1 - i;
      return LevelSums{scratch.grad[at], scratch.hess[at]};
    });
  __syncwarp();
  const bool low = !(__shfl_sync(ALL_LANES, run.gain, 1) > __shfl_sync(ALL_LANES, run.gain, 0));
  const int from = low ? 0 : 1;
  const double gain = __shfl_sync(ALL_LANES, run.gain, from);
  const LevelSums left{__shfl_sync(ALL_LANES, run.left.grad, from),
                       __shfl_sync(ALL_LANES, run.left.hess, from)};
  const int n = __shfl_sync(ALL_LANES, run.n, from);
  if (n == 0) return no_split();
  unsigned taken = 0;
#pragma unroll
  for (int k = 0; k < BINS_PER_LANE; ++k)
    taken |= static_cast<unsigned>(mine[k] >= 0 && (low ? mine[k] < n : mine[k] >= n_levels - n))
             << k;
  const BinSet set = set_of_lanes(taken);
  const bool missing_left = __ballot_sync(
      ALL_LANES, lane == missing_bin / BINS_PER_LANE && (taken >> missing_bin % BINS_PER_LANE & 1));
  return subset_split(gain, left, feature, set, missing_left);
}

// One level against the rest.
template <class Gain>
BG_FN SplitInfo search_onehot(const LevelSums* levels, int n_bins, int missing_bin, int feature,
                              const SearchNode& node, const Gain& gain) {
  const int first = (threadIdx.x % WARP) * BINS_PER_LANE;
  Candidate best{NO_GAIN, 0.0, 0.0, BINS_PER_FEATURE};
#pragma unroll
  for (int k = 0; k < BINS_PER_LANE; ++k)
    if (first + k < n_bins) consider(best, levels[k].grad, levels[k].hess, first + k, node, gain);
  best = best_of_warp(best);
  if (!(best.gain > NO_GAIN)) return no_split();
  const int at = best.order - first;
  const BinSet set = set_of_lanes(at >= 0 && at < BINS_PER_LANE ? 1u << at : 0u);
  return subset_split(best.gain, {best.left_grad, best.left_hess}, feature, set,
                      best.order == missing_bin);
}

template <class Layout, class Gain>
BG_FN SplitInfo search_levels(const typename Layout::Sum* sums, int n_bins, bool has_missing,
                              int feature, const SearchNode& node, const Gain& gain,
                              LevelScratch& scratch) {
  const int missing_bin = n_bins - (has_missing ? 1 : 0);
  LevelSums levels[BINS_PER_LANE];
#pragma unroll
  for (int k = 0; k < BINS_PER_LANE; ++k)
    levels[k] = {static_cast<double>(Layout::grad(sums[k])),
                 static_cast<double>(Layout::hess(sums[k]))};
  if (is_onehot(n_bins, gain.rules))
    return search_onehot(levels, n_bins, missing_bin, feature, node, gain);
  return search_runs(levels, missing_bin, feature, node, gain, scratch);
}

}  // namespace bitgrove
