// The best split of each node of a batch: one warp per (node, feature), eight bins per lane.
//
// A node whose sibling was built gets its own histogram here, from its parent's, on the way.
// Ties: lowest feature, then lowest bin, then missing-left, as everywhere. The last block of a node
// to finish compares what the node's blocks found, so the search is one launch.
#include "blocks.h"
#include "gain.h"
#include "plans.h"

namespace bitgrove {

constexpr int WARPS_PER_BLOCK = FEATURES_PER_BLOCK;
constexpr int BINS_PER_LANE = BINS_PER_FEATURE / WARP;
#define NO_GAIN (-__longlong_as_double(0x7FF0000000000000ll))

// Candidate cuts of a feature in the order of ties: 2 * bin, plus 1 where missing goes right.
struct Candidate {
  double gain, left_grad, left_hess;
  int order;
};

BG_FN int64_t from_lane(int64_t sum, int lane) { return __shfl_sync(ALL_LANES, sum, lane); }
BG_FN PairSum<int64_t> from_lane(PairSum<int64_t> sum, int lane) {
  return {__shfl_sync(ALL_LANES, sum.grad, lane), __shfl_sync(ALL_LANES, sum.hess, lane)};
}
BG_FN int64_t shift_up(int64_t sum, int step) { return __shfl_up_sync(ALL_LANES, sum, step); }
BG_FN PairSum<int64_t> shift_up(PairSum<int64_t> sum, int step) {
  return {__shfl_up_sync(ALL_LANES, sum.grad, step), __shfl_up_sync(ALL_LANES, sum.hess, step)};
}

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

BG_FN void consider(Candidate& best, double left_grad, double left_hess, int order,
                    const SearchNode& node, double parent_score, const GainRules& rules) {
  const double right_grad = node.grad - left_grad, right_hess = node.hess - left_hess;
  if (!(left_hess >= node.min_hess) || !(right_hess >= node.min_hess)) return;
  const double gain = split_gain(left_grad, left_hess, right_grad, right_hess, parent_score, rules);
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
template <class Layout>
BG_FN SplitInfo search_feature(typename Layout::Sum* sums, int n_all, bool has_missing, int feature,
                               const SearchNode& node, double parent_score,
                               const GainRules& rules) {
  const int lane = threadIdx.x % WARP, n_values = n_all - (has_missing ? 1 : 0);
  const typename Layout::Sum missing = running_sums<Layout>(sums, n_all - 1);
  const double miss_grad = static_cast<double>(Layout::grad(missing));
  const double miss_hess = static_cast<double>(Layout::hess(missing));
  // With missing rows the last cut is values against missing; without, it is no split.
  const int n_right = has_missing ? n_values : n_values - 1;
  Candidate best{NO_GAIN, 0.0, 0.0, 2 * BINS_PER_FEATURE};
#pragma unroll
  for (int k = 0; k < BINS_PER_LANE; ++k) {
    const int bin = lane * BINS_PER_LANE + k;
    const double grad = static_cast<double>(Layout::grad(sums[k])),
                 hess = static_cast<double>(Layout::hess(sums[k]));
    if (has_missing && bin < n_values - 1)
      consider(best, grad + miss_grad, hess + miss_hess, 2 * bin, node, parent_score, rules);
    if (bin < n_right) consider(best, grad, hess, 2 * bin + 1, node, parent_score, rules);
  }
  best = best_of_warp(best);
  if (!(best.gain > NO_GAIN)) return {NO_GAIN, 0, 0, -1, 0, 0, 0};
  const bool default_left = !has_missing || best.order % 2 == 0;
  return {best.gain,
          static_cast<int64_t>(best.left_grad),
          static_cast<int64_t>(best.left_hess),
          feature,
          best.order / 2,
          default_left,
          0};
}

// Written by other blocks: read from L2, where their writes are.
BG_FN SplitInfo load(const SplitInfo* info) {
  return {__ldcg(&info->gain),
          __ldcg(&info->left_grad),
          __ldcg(&info->left_hess),
          __ldcg(&info->feature),
          __ldcg(&info->bin),
          __ldcg(&info->default_left),
          0};
}

// One warp: the first of the best of a node's blocks, whose features ascend.
BG_FN SplitInfo best_of_blocks(const SplitInfo* found, int64_t n_blocks) {
  SplitInfo best{NO_GAIN, 0, 0, -1, 0, 0, 0};
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

struct Features {
  const int64_t* bin_offset;
  const uint8_t *has_missing, *allowed;
  int64_t first, last;
};

template <class Layout>
BG_FN SplitInfo search(int64_t* pool, int64_t slot_size, const SearchNode& node,
                       const Features& features, int64_t feature, double parent_score,
                       const GainRules& rules) {
  if (feature >= features.last || !features.allowed[feature]) return {NO_GAIN, 0, 0, -1, 0, 0, 0};
  using Sum = typename Layout::Sum;
  const int64_t offset = features.bin_offset[feature];
  const int n_all = static_cast<int>(features.bin_offset[feature + 1] - offset);
  Sum* slot = reinterpret_cast<Sum*>(pool + node.slot * slot_size) + offset;
  const Sum* sibling =
      node.sibling < 0 ? nullptr : reinterpret_cast<Sum*>(pool + node.sibling * slot_size) + offset;
  Sum sums[BINS_PER_LANE];
  load_bins<Layout>(slot, sibling, n_all, sums);
  return search_feature<Layout>(sums, n_all, features.has_missing[feature] != 0,
                                static_cast<int>(feature), node, parent_score, rules);
}

template <class Layout>
__device__ void find_splits(int64_t* pool, int64_t slot_size, const SearchNode* nodes,
                            const Features& features, const GainRules& rules, int64_t n_blocks,
                            SplitInfo* found, unsigned* n_done, SplitInfo* result) {
  const int64_t node = blockIdx.x / n_blocks, block = blockIdx.x % n_blocks;
  const int warp = threadIdx.x / WARP;
  const SearchNode mine = nodes[node];
  const double parent_score = leaf_score(mine.grad, mine.hess, rules);
  __shared__ SplitInfo of_warp[WARPS_PER_BLOCK];
  __shared__ bool is_last;
  const int64_t feature = features.first + block * WARPS_PER_BLOCK + warp;
  SplitInfo info = search<Layout>(pool, slot_size, mine, features, feature, parent_score, rules);
  if (threadIdx.x % WARP == 0) of_warp[warp] = info;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < WARPS_PER_BLOCK; ++w)
      if (of_warp[w].gain > info.gain) info = of_warp[w];
    found[blockIdx.x] = info;
    __threadfence();
    is_last = atomicAdd(n_done + node, 1u) == n_blocks - 1;
  }
  __syncthreads();
  if (!is_last || warp > 0) return;
  __threadfence();
  const SplitInfo best = best_of_blocks(found + node * n_blocks, n_blocks);
  if (threadIdx.x > 0) return;
  n_done[node] = 0;  // ready for the next launch
  const bool is_split = best.gain > gain_floor(parent_score, rules);
  tell_host(is_split ? best : SplitInfo{NO_GAIN, 0, 0, -1, 0, 0, 0}, result + node);
}

}  // namespace bitgrove

using namespace bitgrove;

#define FIND_KERNEL(WIDTH)                                                                        \
  extern "C" __global__ void __launch_bounds__(WARPS_PER_BLOCK* WARP) find_splits_##WIDTH(        \
      int64_t* pool, int64_t slot_size, const SearchNode* nodes, const int64_t* bin_offset,       \
      const uint8_t* has_missing, const uint8_t* allowed, int64_t first, int64_t last,            \
      double grad_scale, double hess_scale, double reg_lambda, double reg_alpha, double min_gain, \
      int64_t n_blocks, SplitInfo* found, unsigned* n_done, SplitInfo* result) {                  \
    const GainRules rules{grad_scale, hess_scale, reg_lambda, reg_alpha, min_gain};               \
    const Features features{bin_offset, has_missing, allowed, first, last};                       \
    find_splits<Packed<WIDTH>>(pool, slot_size, nodes, features, rules, n_blocks, found, n_done,  \
                               result);                                                           \
  }

FIND_KERNEL(32)
FIND_KERNEL(64)
