// The search of split.cu and ruled_split.cu: one warp per (node, feature), eight bins per lane.
//
// A node whose sibling was built gets its own histogram here, from its parent's, on the way.
// Ties: lowest feature, then lowest bin, then missing-left, as everywhere. The last block of a node
// to finish compares what the node's blocks found, so the search is one launch. What a split gains
// is a Gain: PlainGain of gain.h, or RuledGain of rules.h.
#pragma once

#include "blocks.h"
#include "gain.h"
#include "levels.h"
#include "plans.h"

namespace bitgrove {

constexpr int WARPS_PER_BLOCK = FEATURES_PER_BLOCK;
constexpr int BINS_PER_LANE = BINS_PER_FEATURE / WARP;
#define NO_GAIN (-__longlong_as_double(0x7FF0000000000000ll))

BG_FN SplitInfo no_split() { return {NO_GAIN, 0, 0, -1, 0, 0, 0, {}}; }

// Candidate cuts of a feature in the order of ties: 2 * bin, plus 1 where missing goes right.
struct Candidate {
  double gain, left_grad, left_hess;
  int order;
};

// A lane's eight bins of a feature: those of the node's slot, or what is left of its parent's after
// the sibling's were taken away, which then becomes the node's.
template <class Layout>
BG_FN void load_bins(typename Layout::Sum* slot, const typename Layout::Sum* sibling, int n_bins,
                     typename Layout::Sum* mine) {
  const int first = (threadIdx.x % WARP) * BINS_PER_LANE;
#pragma unroll
  for (int k = 0; k < BINS_PER_LANE; ++k) {
    const bool inside = first + k < n_bins;
    mine[k] = inside ? slot[first + k] : typename Layout::Sum{};
    if (!inside || !sibling) continue;
    mine[k] = Layout::subtract(mine[k], sibling[first + k]);
    slot[first + k] = mine[k];
  }
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

// The missing bin is the last one: running sums below it are of values alone.
template <class Layout, class Gain>
BG_FN SplitInfo search_feature(typename Layout::Sum* sums, int n_all, bool has_missing, int feature,
                               const SearchNode& node, const Gain& gain) {
  const int lane = threadIdx.x % WARP, n_values = n_all - (has_missing ? 1 : 0);
  const typename Layout::Sum missing = running_sums<Layout>(sums, n_all - 1);
  const double miss_grad = static_cast<double>(Layout::grad(missing));
  const double miss_hess = static_cast<double>(Layout::hess(missing));
  // With missing rows the last cut is values against missing; without, it is no split.
  const int n_right = has_missing ? n_values : n_values - 1;
  const int drawn = gain.drawn_cut(feature, n_right);
  Candidate best{NO_GAIN, 0.0, 0.0, 2 * BINS_PER_FEATURE};
#pragma unroll
  for (int k = 0; k < BINS_PER_LANE; ++k) {
    const int bin = lane * BINS_PER_LANE + k;
    const double grad = static_cast<double>(Layout::grad(sums[k])),
                 hess = static_cast<double>(Layout::hess(sums[k]));
    if (drawn != EVERY_CUT && bin != drawn) continue;
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

// The host waits for `ready`: everything else is there before it.
BG_FN void tell_host(const SplitInfo& info, SplitInfo* result) {
  *result = info;
  __threadfence_system();
  *static_cast<volatile int32_t*>(&result->ready) = 1;
}

// Node i looks at the i-th row of `allowed`, all at the same one where allowed_stride is 0.
struct Features {
  const int64_t* bin_offset;
  const uint8_t *has_missing, *allowed, *categorical;
  int64_t allowed_stride, first, last;
};

// scratch: of this warp, null where no feature is a category.
template <class Layout, bool Categories, class Gain>
BG_FN SplitInfo search(int64_t* pool, int64_t slot_size, const SearchNode& node,
                       const Features& features, int64_t feature, bool is_allowed,
                       const Gain& gain_of, LevelScratch* scratch) {
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
  load_bins<Layout>(slot, sibling, n_all, sums);
  if (!is_allowed) return no_split();
  const Gain gain = gain_of.of_feature(feature);
  if constexpr (Categories)
    if (features.categorical[feature])
      return search_levels<Layout>(sums, n_all, features.has_missing[feature] != 0,
                                   static_cast<int>(feature), node, gain, *scratch);
  return search_feature<Layout>(sums, n_all, features.has_missing[feature] != 0,
                                static_cast<int>(feature), node, gain);
}

// Where the search leaves what it found.
struct Findings {
  SplitInfo* of_blocks;
  unsigned* n_done;
  SplitInfo* result;
};

// make_gain: the Gain of a node.
template <class Layout, bool Categories, class MakeGain>
__device__ void find_splits(int64_t* pool, int64_t slot_size, const SearchNode* nodes,
                            const Features& features, const GainRules& rules, int64_t n_blocks,
                            const Findings& findings, const MakeGain& make_gain) {
  const int64_t node = blockIdx.x / n_blocks, block = blockIdx.x % n_blocks;
  const int warp = threadIdx.x / WARP;
  const SearchNode mine = nodes[node];
  const auto gain = make_gain(mine);
  __shared__ SplitInfo of_warp[WARPS_PER_BLOCK];
  __shared__ bool is_last;
  const int64_t feature = features.first + block * WARPS_PER_BLOCK + warp;
  LevelScratch* scratch = nullptr;
  if constexpr (Categories) {
    __shared__ LevelScratch of_warps[WARPS_PER_BLOCK];
    scratch = of_warps + warp;
  }
  SplitInfo info = no_split();
  if (feature < features.last)
    info = search<Layout, Categories>(
        pool, slot_size, mine, features, feature,
        features.allowed[node * features.allowed_stride + feature] != 0, gain, scratch);
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
  tell_host(is_split ? best : no_split(), findings.result + node);
}

}  // namespace bitgrove

// What every kernel of the search takes, and what it makes of it.
#define SEARCH_ARGUMENTS                                                                       \
  int64_t *pool, int64_t slot_size, const __grid_constant__ Plan plan, int64_t nodes_at,       \
      const int64_t *bin_offset, const uint8_t *has_missing, const uint8_t *tree_allowed,      \
      int64_t allowed_stride, int64_t allowed_at, const uint8_t *categorical, int64_t first,   \
      int64_t last, double grad_scale, double hess_scale, double reg_lambda, double reg_alpha, \
      double min_gain, double cat_smooth, double cat_l2, double min_data_per_group,            \
      double max_cat_threshold, double max_cat_to_onehot, int64_t n_blocks, SplitInfo *found,  \
      unsigned *n_done, SplitInfo *result
#define SEARCH_NAMED_ARGUMENTS                                                               \
  const SearchNode* nodes = plan.at<SearchNode>(nodes_at);                                   \
  const uint8_t* allowed = allowed_stride > 0 ? plan.at<uint8_t>(allowed_at) : tree_allowed; \
  const GainRules rules{grad_scale,        hess_scale,       reg_lambda, reg_alpha,          \
                        min_gain,          cat_smooth,       cat_l2,     min_data_per_group, \
                        max_cat_threshold, max_cat_to_onehot};                               \
  const Features features{bin_offset,     has_missing, allowed, categorical,                 \
                          allowed_stride, first,       last};                                \
  const Findings findings{found, n_done, result};
