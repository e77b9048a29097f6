// The best split of each node of a batch, from its histogram.
#include "splits.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "parallel.h"
#include "rooms.h"
#include "widths.h"

namespace bitgrove {
namespace {

constexpr int FEATURE_BLOCK = 16;
constexpr int LANES = 8;
constexpr int64_t TASKS_PER_THREAD = 4;
constexpr double NO_GAIN = NO_SPLIT.gain;

struct Node {
  const uint8_t* slot;
  int width;
  double grad, hess, min_hess;
};

struct Candidate {
  double gain;
  int bin;
};

// Running sums over the value bins, as float64 (exact: below 2^53).
struct Prefix {
  alignas(64) double grad[BINS_PER_FEATURE];
  alignas(64) double hess[BINS_PER_FEATURE];
};

template <class Layout>
void running_sums(const typename Layout::Sum* bins, int n_bins, Prefix& prefix) {
  typename Layout::Sum sum{};
  alignas(64) typename Layout::Sum sums[BINS_PER_FEATURE];
  for (int b = 0; b < n_bins; ++b) sums[b] = sum = Layout::add(sum, bins[b]);
  for (int b = 0; b < n_bins; ++b) {
    prefix.grad[b] = static_cast<double>(Layout::grad(sums[b]));
    prefix.hess[b] = static_cast<double>(Layout::hess(sums[b]));
  }
}

// The largest of `n` gains, eight lanes at a time; gains are padded with NO_GAIN to a multiple.
BG_FN double largest(const double* gains, int n) {
  double top[LANES];
  for (int lane = 0; lane < LANES; ++lane) top[lane] = NO_GAIN;
  for (int b = 0; b < n; b += LANES)
    for (int lane = 0; lane < LANES; ++lane) top[lane] = gains[b + lane] > top[lane] ? gains[b + lane] : top[lane];
  double result = top[0];
  for (int lane = 1; lane < LANES; ++lane) result = top[lane] > result ? top[lane] : result;
  return result;
}

// The best bin, if its gain is above `least`, when (add_grad, add_hess), the missing rows, go left
// too. Of equals the first one.
BG_FN Candidate best_bin(const Prefix& prefix, int n_bins, double add_grad, double add_hess, const Node& node,
                         double parent_score, const GainRules& rules, double least) {
  alignas(64) double gains[BINS_PER_FEATURE + LANES];
  for (int b = 0; b < n_bins; ++b) {
    const double gl = prefix.grad[b] + add_grad, hl = prefix.hess[b] + add_hess;
    const double gr = node.grad - gl, hr = node.hess - hl;
    const bool allowed = (hl >= node.min_hess) & (hr >= node.min_hess);
    const double gain = split_gain(gl, hl, gr, hr, parent_score, rules);
    gains[b] = allowed ? gain : NO_GAIN;
  }
  for (int lane = 0; lane < LANES; ++lane) gains[n_bins + lane] = NO_GAIN;
  const double top = largest(gains, n_bins);
  if (!(top > least)) return {NO_GAIN, 0};
  int bin = 0;
  while (gains[bin] != top) ++bin;
  return {top, bin};
}

template <class Layout>
void search_feature(const Node& node, const SplitFeatures& features, int f, double parent_score,
                    const GainRules& rules, SplitInfo& best) {
  const int64_t offset = features.bin_offset[f];
  const int n_all = static_cast<int>(features.bin_offset[f + 1] - offset);
  const bool has_missing = features.has_missing[f];
  const int n_values = n_all - (has_missing ? 1 : 0);
  const auto* bins = reinterpret_cast<const typename Layout::Sum*>(node.slot) + offset;
  Prefix prefix;
  running_sums<Layout>(bins, n_values, prefix);
  // With missing rows the last cut is values against missing; without, it is no split.
  Candidate right = best_bin(prefix, has_missing ? n_values : n_values - 1, 0.0, 0.0, node, parent_score, rules, best.gain);
  bool default_left = !has_missing;
  if (has_missing) {
    const double miss_grad = static_cast<double>(Layout::grad(bins[n_values]));
    const double miss_hess = static_cast<double>(Layout::hess(bins[n_values]));
    const Candidate left = best_bin(prefix, n_values - 1, miss_grad, miss_hess, node, parent_score, rules, best.gain);
    if (left.gain > right.gain || (left.gain == right.gain && left.bin <= right.bin)) {
      right = left;
      default_left = true;
    }
    if (default_left && right.gain != NO_GAIN) {
      prefix.grad[right.bin] += miss_grad;
      prefix.hess[right.bin] += miss_hess;
    }
  }
  if (right.gain > best.gain)
    best = {right.gain, static_cast<int64_t>(prefix.grad[right.bin]), static_cast<int64_t>(prefix.hess[right.bin]),
            f, right.bin, default_left, 0};
}

SplitInfo search_block(const Node& node, const SplitFeatures& features, int begin, int end, const GainRules& rules,
                       bool packed, Simd simd) {
  const double parent_score = leaf_score(node.grad, node.hess, rules);
  SplitInfo best = NO_SPLIT;
  visit_width(node.width, packed, [&](auto layout) {
    using Layout = decltype(layout);
    if constexpr (Layout::half_bits >= 16)
      with_simd(simd, [&] {
        for (int f = begin; f < end; ++f)
          if (features.allowed[f]) search_feature<Layout>(node, features, f, parent_score, rules, best);
      });
  });
  if (!(best.gain > gain_floor(parent_score, rules))) best = NO_SPLIT;
  return best;
}

}  // namespace

void find_splits(const SearchedNodes& searched, const PoolView& pool, const SplitFeatures& features,
                 const GainRules& rules, bool packed, SplitInfo* result, int n_threads, Simd simd) {
  const int64_t n_nodes = searched.n_nodes;
  std::vector<Node> nodes;
  for (int64_t i = 0; i < n_nodes; ++i) {
    const int width = static_cast<int>(searched.widths[i]);
    const double* sums = searched.sums + 3 * i;
    nodes.push_back({pool.slot(searched.slots[i], features.bin_offset[features.n_features], width), width, sums[0], sums[1], sums[2]});
  }
  const int64_t n_blocks = blocks_of(features.last - features.first, FEATURE_BLOCK);
  std::vector<SplitInfo> found(n_nodes * n_blocks);
  parallel_tasks(n_nodes * n_blocks, n_threads, [&](int64_t task) {
    const int begin = features.first + static_cast<int>(task % n_blocks) * FEATURE_BLOCK;
    const int end = std::min(begin + FEATURE_BLOCK, features.last);
    found[task] = search_block(nodes[task / n_blocks], features, begin, end, rules, packed, simd);
  }, TASKS_PER_THREAD);
  for (int64_t i = 0; i < n_nodes; ++i) {
    result[i] = NO_SPLIT;
    for (int64_t b = 0; b < n_blocks; ++b)
      if (found[i * n_blocks + b].gain > result[i].gain) result[i] = found[i * n_blocks + b];
  }
}

}  // namespace bitgrove
