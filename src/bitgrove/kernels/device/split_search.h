// The search of split.cu and ruled_split.cu: a warp looks at one or more features of a node, one
// after another, eight bins per lane.
//
// A node whose sibling was built gets its own histogram here, from its parent's, on the way.
// Ties: lowest feature, then lowest bin, then missing-left, as everywhere. The last block of a node
// to finish compares what the node's blocks found, so the search is one launch. What a split gains
// is a Gain: PlainGain of gain.h, or RuledGain of rules.h.
#pragma once

#include "blocking.h"
#include "candidates.h"
#include "gain.h"
#include "level_search.h"
#include "sampling.h"

namespace bitgrove {

constexpr int WARPS_PER_BLOCK = FEATURES_PER_BLOCK;

// A feature's bins on their way from lanes side by side to one: memory is read and written by whole
// lines. A gap behind each lane's bins keeps lanes apart in the banks of shared memory.
template <class Sum>
struct BinScratch {
  Sum bins[BINS_PER_FEATURE + WARP];
  BG_FN Sum& at(int bin) { return bins[bin + bin / BINS_PER_LANE]; }
};

// A lane's eight bins of a feature: those of the node's slot, or what is left of its parent's after
// the sibling's were taken away, which then becomes the node's.
template <class Layout>
BG_FN void load_bins(typename Layout::Sum* slot, const typename Layout::Sum* sibling, int n_bins,
                     BinScratch<typename Layout::Sum>& scratch, typename Layout::Sum* mine) {
  const int lane = threadIdx.x % WARP;
#pragma unroll
  for (int k = 0; k < BINS_PER_LANE; ++k) {
    const int bin = k * WARP + lane;
    const bool inside = bin < n_bins;
    mine[k] = inside ? slot[bin] : typename Layout::Sum{};
    if (!inside || !sibling) continue;
    mine[k] = Layout::subtract(mine[k], sibling[bin]);
    slot[bin] = mine[k];
  }
#pragma unroll
  for (int k = 0; k < BINS_PER_LANE; ++k) scratch.at(k * WARP + lane) = mine[k];
  __syncwarp();
#pragma unroll
  for (int k = 0; k < BINS_PER_LANE; ++k) mine[k] = scratch.at(lane * BINS_PER_LANE + k);
  __syncwarp();
}

// Turns a lane's bins into running sums over the feature; returns what its last bin had alone.
template <class Layout>
BG_FN typename Layout::Sum running_sums(typename Layout::Sum* sums, int last_bin) {
  const int lane = threadIdx.x % WARP;
  typename Layout::Sum sum{}, last{};
#pragma unroll
  for (int k = 0; k < BINS_PER_LANE; ++k) {
    last =
        Layout::add(last, lane * BINS_PER_LANE + k == last_bin ? sums[k] : typename Layout::Sum{});
    sum = Layout::add(sum, sums[k]);
    sums[k] = sum;
  }
  typename Layout::Sum before = sum;
  for (int step = 1; step < WARP; step *= 2) {
    const typename Layout::Sum other = shift_up(before, step);
    if (lane >= step) before = Layout::add(before, other);
  }
  before = Layout::subtract(before, sum);
#pragma unroll
  for (int k = 0; k < BINS_PER_LANE; ++k) sums[k] = Layout::add(before, sums[k]);
  return from_lane(last, last_bin / BINS_PER_LANE);
}

// The cuts of a DRAWN column that a node can use, of the first n_cuts.
template <class Layout>
BG_FN CutRange usable_cuts(const typename Layout::Sum* sums, int n_cuts, double missing,
                           const SearchNode& node) {
  const UsableHess usable = usable_hess(node.hess, missing, node.min_hess);
  const int first = (threadIdx.x % WARP) * BINS_PER_LANE;
  int n_low = 0, n_high = 0;
#pragma unroll
  for (int k = 0; k < BINS_PER_LANE; ++k) {
    if (first + k >= n_cuts) continue;
    n_low += Layout::hess(sums[k]) < usable.least;
    n_high += Layout::hess(sums[k]) > usable.most;
  }
  const int64_t both = warp_sum(static_cast<int64_t>(n_high) << 32 | n_low);
  return {static_cast<int>(both & 0xFFFFFFFF), n_cuts - static_cast<int>(both >> 32)};
}

// Which cuts of a feature a node looks at: all; one drawn of all; one drawn of those it can use.
enum class Cuts { EVERY, ONE, ONE_USABLE };

// The missing bin is the last one: running sums below it are of values alone.
template <class Layout, class Gain>
BG_FN SplitInfo search_feature(typename Layout::Sum* sums, int n_all, bool has_missing, int feature,
                               Cuts looked_at, const SearchNode& node, const Gain& gain) {
  const int lane = threadIdx.x % WARP, n_values = n_all - (has_missing ? 1 : 0);
  const typename Layout::Sum missing = running_sums<Layout>(sums, n_all - 1);
  const double miss_grad = static_cast<double>(Layout::grad(missing));
  const double miss_hess = static_cast<double>(Layout::hess(missing));
  // With missing rows the last cut is values against missing; without, it is no split.
  const int n_right = has_missing ? n_values : n_values - 1;
  CutRange cuts{0, n_right};
  if (looked_at == Cuts::ONE_USABLE)
    cuts = usable_cuts<Layout>(sums, n_right, has_missing ? miss_hess : 0.0, node);
  const int drawn = looked_at == Cuts::EVERY ? NO_CUT : drawn_cut(node.key, feature, cuts);
  Candidate best{NO_GAIN, 0.0, 0.0, 2 * BINS_PER_FEATURE};
#pragma unroll
  for (int k = 0; k < BINS_PER_LANE; ++k) {
    const int bin = lane * BINS_PER_LANE + k;
    const double grad = static_cast<double>(Layout::grad(sums[k])),
                 hess = static_cast<double>(Layout::hess(sums[k]));
    if (looked_at != Cuts::EVERY && bin != drawn) continue;
    if (has_missing && bin < n_values - 1)
      consider(best, grad + miss_grad, hess + miss_hess, 2 * bin, node, gain);
    if (bin < n_right) consider(best, grad, hess, 2 * bin + 1, node, gain);
  }
  best = best_of_warp(best);
  if (!(best.gain > NO_GAIN)) return no_split();
  const bool default_left = !has_missing || best.order % 2 == 0;
  return {best.gain,
          static_cast<int64_t>(best.left_grad),
          static_cast<int64_t>(best.left_hess),
          feature,
          best.order / 2,
          default_left,
          0,
          {}};
}

// Written by other blocks: read from L2, where their writes are.
BG_FN SplitInfo load(const SplitInfo* info) {
  return {__ldcg(&info->gain),
          __ldcg(&info->left_grad),
          __ldcg(&info->left_hess),
          __ldcg(&info->feature),
          __ldcg(&info->bin),
          __ldcg(&info->default_left),
          0,
          {__ldcg(&info->left_bins.words[0]), __ldcg(&info->left_bins.words[1]),
           __ldcg(&info->left_bins.words[2]), __ldcg(&info->left_bins.words[3])}};
}

// One warp: the first of the best of a node's blocks, whose features ascend.
BG_FN SplitInfo best_of_blocks(const SplitInfo* found, int64_t n_blocks) {
  SplitInfo best = no_split();
  int64_t at = n_blocks;
  for (int64_t i = threadIdx.x; i < n_blocks; i += WARP) {
    const double gain = __ldcg(&found[i].gain);
    if (gain > best.gain) {
      best.gain = gain;
      at = i;
    }
  }
  for (int step = WARP / 2; step > 0; step /= 2) {
    const double gain = __shfl_xor_sync(ALL_LANES, best.gain, step);
    const int64_t other = __shfl_xor_sync(ALL_LANES, at, step);
    if (gain > best.gain || (gain == best.gain && other < at)) {
      best.gain = gain;
      at = other;
    }
  }
  return at < n_blocks ? load(found + at) : best;
}

// A host waits for `ready`: everything else is there before it.
BG_FN void tell(const SplitInfo& info, SplitInfo* result, bool host_waits) {
  *result = info;
  if (!host_waits) return;
  __threadfence_system();
  *static_cast<volatile int32_t*>(&result->ready) = 1;
}

// Node i looks at the i-th row of `allowed`, all at the same one where allowed_stride is 0.
struct Features {
  const int64_t* bin_offset;
  const uint8_t *has_missing, *allowed, *kinds;
  int64_t allowed_stride, first, last;
};

// Of a warp: its bins first; then, of a category, its levels.
template <class Layout, bool Mixed>
struct WarpScratch {
  union {
    BinScratch<typename Layout::Sum> bins;
    LevelScratch levels;
  };
};
template <class Layout>
struct WarpScratch<Layout, false> {
  BinScratch<typename Layout::Sum> bins;
};

// Mixed: not all columns are NUMBERS.
template <class Layout, bool Mixed, class Gain>
BG_FN SplitInfo search(int64_t* pool, int64_t slot_size, const SearchNode& node,
                       const Features& features, int64_t feature, bool is_allowed,
                       const Gain& gain_of, WarpScratch<Layout, Mixed>& scratch) {
  // Where nodes have features of their own, a child may look at what this node may not.
  const bool is_needed = is_allowed || (features.allowed_stride > 0 && node.sibling >= 0);
  if (!is_needed) return no_split();
  using Sum = typename Layout::Sum;
  const int64_t offset = features.bin_offset[feature];
  const int n_all = static_cast<int>(features.bin_offset[feature + 1] - offset);
  Sum* slot = reinterpret_cast<Sum*>(pool + node.slot * slot_size) + offset;
  const Sum* sibling =
      node.sibling < 0 ? nullptr : reinterpret_cast<Sum*>(pool + node.sibling * slot_size) + offset;
  Sum sums[BINS_PER_LANE];
  load_bins<Layout>(slot, sibling, n_all, scratch.bins, sums);
  if (!is_allowed) return no_split();
  const Gain gain = gain_of.of_feature(feature);
  const bool has_missing = features.has_missing[feature] != 0;
  Cuts looked_at = gain.draws_all() ? Cuts::ONE : Cuts::EVERY;
  if constexpr (Mixed) {
    const uint8_t kind = features.kinds[feature];
    if (kind == LEVELS)
      return search_levels<Layout>(sums, n_all, has_missing, static_cast<int>(feature), node, gain,
                                   scratch.levels);
    if (kind == DRAWN && looked_at == Cuts::EVERY) looked_at = Cuts::ONE_USABLE;
  }
  return search_feature<Layout>(sums, n_all, has_missing, static_cast<int>(feature), looked_at,
                                node, gain);
}

// Where the search leaves what it found.
struct Findings {
  SplitInfo* of_blocks;
  unsigned* n_done;
  SplitInfo* result;
};

// make_gain: the Gain of a node.
template <class Layout, bool Mixed, class MakeGain>
__device__ void find_splits(int64_t* pool, int64_t slot_size, const SearchNode* nodes,
                            const Features& features, const GainRules& rules,
                            const RoundSizes& sizes, const Findings& findings,
                            const MakeGain& make_gain) {
  const int64_t n_blocks = sizes.search_blocks, node = blockIdx.x / n_blocks,
                block = blockIdx.x % n_blocks;
  if (node >= sizes.n_searched) return;
  const int warp = threadIdx.x / WARP;
  const SearchNode mine = nodes[node];
  const auto gain = make_gain(mine);
  __shared__ SplitInfo of_warp[WARPS_PER_BLOCK];
  __shared__ bool is_last;
  __shared__ WarpScratch<Layout, Mixed> scratch[WARPS_PER_BLOCK];
  const int64_t n_features = features.last - features.first, n_warps = n_blocks * WARPS_PER_BLOCK,
                per_warp = (n_features + n_warps - 1) / n_warps;
  const int64_t first = features.first + (block * WARPS_PER_BLOCK + warp) * per_warp,
                last = first + per_warp < features.last ? first + per_warp : features.last;
  SplitInfo info = no_split();
  for (int64_t feature = first; feature < last; ++feature) {
    const bool is_allowed = features.allowed[node * features.allowed_stride + feature] != 0;
    const SplitInfo found = search<Layout, Mixed>(pool, slot_size, mine, features, feature,
                                                  is_allowed, gain, scratch[warp]);
    if (found.gain > info.gain) info = found;
  }
  if (threadIdx.x % WARP == 0) of_warp[warp] = info;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < WARPS_PER_BLOCK; ++w)
      if (of_warp[w].gain > info.gain) info = of_warp[w];
    findings.of_blocks[blockIdx.x] = info;
    __threadfence();
    is_last = atomicAdd(findings.n_done + node, 1u) == n_blocks - 1;
  }
  __syncthreads();
  if (!is_last || warp > 0) return;
  __threadfence();
  const SplitInfo best = best_of_blocks(findings.of_blocks + node * n_blocks, n_blocks);
  if (threadIdx.x > 0) return;
  findings.n_done[node] = 0;  // ready for the next launch
  const bool is_split = best.gain > gain_floor(gain.parent_score, rules);
  tell(is_split ? best : no_split(), findings.result + sizes.first_found + node,
       sizes.host_waits != 0);
}

}  // namespace bitgrove

// What every kernel of the search takes, and what it makes of it.
#define SEARCH_ARGUMENTS                                                                          \
  int64_t *pool, int64_t slot_size, const __grid_constant__ Plan plan, int64_t sizes_at,          \
      int64_t nodes_at, const int64_t *bin_offset, const uint8_t *has_missing,                    \
      const uint8_t *tree_allowed, int64_t allowed_stride, int64_t allowed_at,                    \
      const uint8_t *kinds, int64_t first, int64_t last, const __grid_constant__ GainRules rules, \
      SplitInfo *found, unsigned *n_done, SplitInfo *result
#define SEARCH_NAMED_ARGUMENTS                                                                   \
  wait_for_last_kernel();                                                                        \
  const RoundSizes& sizes = *plan.at<RoundSizes>(sizes_at);                                      \
  const SearchNode* nodes = plan.at<SearchNode>(nodes_at);                                       \
  const uint8_t* allowed = allowed_stride > 0 ? plan.at<uint8_t>(allowed_at) : tree_allowed;     \
  const Features features{bin_offset, has_missing, allowed, kinds, allowed_stride, first, last}; \
  const Findings findings{found, n_done, result};
