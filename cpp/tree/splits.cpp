// The best split of each node of a batch, from its histogram.
#include "tree/splits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <type_traits>
#include <vector>

#include "bindings/rooms.h"
#include "common/parallel.h"
#include "levels.h"
#include "rules.h"
#include "sampling.h"
#include "tree/estimates.h"
#include "tree/scan.h"

namespace bitgrove {
namespace {

constexpr int FEATURE_BLOCK = 16, MANY_FEATURES = 4096;
constexpr int LANES = 8;
constexpr int64_t TASKS_PER_THREAD = 2;  // some 3 us each
constexpr double NO_GAIN = NO_SPLIT.gain;

struct Candidate {
  double gain;
  int bin;
};

// The largest of `n` gains, eight lanes at a time; gains are padded with NO_GAIN to a multiple.
BG_FN double largest(const double* gains, int n) {
  double top[LANES];
  for (int lane = 0; lane < LANES; ++lane) top[lane] = NO_GAIN;
  for (int b = 0; b < n; b += LANES)
    for (int lane = 0; lane < LANES; ++lane)
      top[lane] = gains[b + lane] > top[lane] ? gains[b + lane] : top[lane];
  double result = top[0];
  for (int lane = 1; lane < LANES; ++lane) result = top[lane] > result ? top[lane] : result;
  return result;
}

// The best bin, if its gain is above `least`, when (add_grad, add_hess), the missing rows, go left
// too. Of equals the first one.
template <class Gain>
BG_FN Candidate best_bin(const Prefix& prefix, int n_bins, double add_grad, double add_hess,
                         const SearchedNode& node, const Gain& gain_of, double least) {
  alignas(64) double gains[BINS_PER_FEATURE + LANES];
  for (int b = 0; b < n_bins; ++b) {
    const double gl = prefix.grad_at(b) + add_grad, hl = prefix.hess_at(b) + add_hess;
    const double gr = node.grad - gl, hr = node.hess - hl;
    const bool allowed = (hl >= node.min_hess) & (hr >= node.min_hess);
    const double gain = gain_of(gl, hl, gr, hr);
    gains[b] = allowed ? gain : NO_GAIN;
  }
  for (int lane = 0; lane < LANES; ++lane) gains[n_bins + lane] = NO_GAIN;
  const double top = largest(gains, n_bins);
  if (!(top > least)) return {NO_GAIN, 0};
  int bin = 0;
  while (gains[bin] != top) ++bin;
  return {top, bin};
}

// As the other best_bin: only bins whose estimate comes near the largest can be the best.
template <class Sums>
  requires requires(Sums sums) { sums.gain; }
BG_FN Candidate best_bin(Sums& prefix, int n_bins, double add_grad, double add_hess,
                         const SearchedNode& node, const PlainGain& gain_of, double least) {
  const Estimates estimates = estimate_gains(prefix, n_bins, static_cast<int32_t>(add_grad),
                                             static_cast<int32_t>(add_hess), node);
  const double top = estimates.top;
  Candidate best{NO_GAIN, 0};
  if (top < 0.0 ||
      0.5 * (top * (1.0 + ESTIMATE_ERROR) * node.estimate_unit - gain_of.parent_score) < least)
    return best;
  const auto bar = static_cast<float>(top * (1.0 - ESTIMATE_ERROR));
  for (int first = estimates.first; first < estimates.last; first += ESTIMATE_LANES) {
    if (!any_reaches<ESTIMATE_LANES>(prefix.gain + first, bar)) continue;
    for (int b = first; b < first + ESTIMATE_LANES; ++b) {
      if (!(prefix.gain[b] >= bar)) continue;
      const double gl = prefix.grad_at(b) + add_grad, hl = prefix.hess_at(b) + add_hess;
      const double gain = gain_of(gl, hl, node.grad - gl, node.hess - hl);
      if (gain > best.gain) best = {gain, b};
    }
  }
  return best.gain > least ? best : Candidate{NO_GAIN, 0};
}

BG_FN SplitInfo cut_split(double gain, LevelSums left, int feature, int bin, bool default_left) {
  return {gain,
          static_cast<int64_t>(left.grad),
          static_cast<int64_t>(left.hess),
          feature,
          bin,
          default_left,
          0,
          {}};
}

// The only cut of a feature of two bins, such as one of zeros and ones.
template <class Gain>
BG_FN void search_cut(const SearchedNode& node, const LevelSums& left, int f, const Gain& gain_of,
                      SplitInfo& best) {
  const double gl = left.grad, hl = left.hess;
  const double gr = node.grad - gl, hr = node.hess - hl;
  if (hl < node.min_hess || hr < node.min_hess) return;
  const double gain = gain_of(gl, hl, gr, hr);
  if (gain > best.gain) best = cut_split(gain, left, f, 0, true);
}

template <class Sums, class Gain>
void search_feature(const SearchedNode& node, const SplitFeatures& features, int f,
                    const Gain& gain, SplitInfo& best) {
  const int64_t offset = features.bin_offset[f];
  const int n_all = static_cast<int>(features.bin_offset[f + 1] - offset);
  const bool has_missing = features.has_missing[f];
  const int n_values = n_all - (has_missing ? 1 : 0);
  if (n_all == 2 && !has_missing) return search_cut(node, read_bin(node, offset), f, gain, best);
  HalfPageOff<Sums> room;
  Sums& prefix = room.from(node.bins(offset));
  const int n_summed = running_sums(node, offset, n_values, prefix);
  // With missing rows the last cut is values against missing; without, it is no split.
  const int n_cuts = has_missing ? n_values : n_values - 1;
  Candidate right = best_bin(prefix, std::min(n_cuts, n_summed), 0.0, 0.0, node, gain, best.gain);
  bool default_left = !has_missing;
  LevelSums missing{};
  if (has_missing) {
    missing = read_bin(node, offset + n_values);
    const Candidate left = best_bin(prefix, std::min(n_values - 1, n_summed), missing.grad,
                                    missing.hess, node, gain, best.gain);
    if (left.gain > right.gain || (left.gain == right.gain && left.bin <= right.bin)) {
      right = left;
      default_left = true;
    }
  }
  if (!(right.gain > best.gain)) return;
  if (!default_left) missing = {};
  best = cut_split(
      right.gain,
      {prefix.grad_at(right.bin) + missing.grad, prefix.hess_at(right.bin) + missing.hess}, f,
      right.bin, default_left);
}

// One drawn cut of a feature; sums are taken apart only where they are looked at. Not inlined: see
// search_levels.
template <class Gain>
BG_NOINLINE void search_drawn(const SearchedNode& node, const SplitFeatures& features, int f,
                              const Gain& gain_of, SplitInfo& best) {
  const int64_t offset = features.bin_offset[f];
  const bool has_missing = features.has_missing[f];
  const int n_values = static_cast<int>(features.bin_offset[f + 1] - offset) - has_missing;
  const LevelSums missing = has_missing ? read_bin(node, offset + n_values) : LevelSums{};
  CutRange cuts{0, has_missing ? n_values : n_values - 1};
  int cut = NO_CUT;
  LevelSums values{};
  visit_bins(node, offset, [&](const auto* bins, auto layout) {
    using Layout = decltype(layout);
    using Sums = std::array<typename Layout::Sum, BINS_PER_FEATURE>;
    HalfPageOff<Sums> room;
    Sums& sums = room.from(bins);
    // Cuts without a sum leave too little.
    const int n_summed = scan<Layout>(bins, cuts.last, node.most_hess(), sums.data());
    const auto hess = [&](int b) { return Layout::hess(sums[b]); };
    if (!gain_of.draws_all()) cuts = usable_cuts(hess, n_summed, node, missing.hess);
    cut = drawn_cut(node.searched->key, f, cuts);
    if (cut >= n_summed) cut = NO_CUT;
    if (cut != NO_CUT)
      values = {static_cast<double>(Layout::grad(sums[cut])), static_cast<double>(hess(cut))};
  });
  if (cut == NO_CUT) return;
  const auto consider = [&](LevelSums left, bool default_left) {
    if (left.hess < node.min_hess || node.hess - left.hess < node.min_hess) return;
    const double gain = level_gain(left, node, gain_of);
    if (gain > best.gain) best = cut_split(gain, left, f, cut, default_left);
  };
  if (has_missing && cut < n_values - 1)
    consider({values.grad + missing.grad, values.hess + missing.hess}, true);
  consider(values, !has_missing);
}

// The levels of a category, sorted by the step they ask for.
struct SortedLevels {
  std::array<LevelSums, BINS_PER_FEATURE> sums;
  std::array<double, BINS_PER_FEATURE> step;
  std::array<uint8_t, BINS_PER_FEATURE> bins;
  int n = 0;
};

void sort_levels(const SearchedNode& node, int64_t offset, int n_bins, const GainRules& rules,
                 SortedLevels& levels) {
  read_bins(node, offset, n_bins, levels.sums.data());
  for (int b = 0; b < n_bins; ++b) {
    if (levels.sums[b].hess == 0.0) continue;
    levels.step[b] = level_step(levels.sums[b], rules);
    levels.bins[levels.n++] = static_cast<uint8_t>(b);
  }
  std::sort(levels.bins.begin(), levels.bins.begin() + levels.n, [&](uint8_t a, uint8_t b) {
    return levels.step[a] != levels.step[b] ? levels.step[a] < levels.step[b] : a < b;
  });
}

SplitInfo subset_split(const LevelRun& run, int feature, const BinSet& left_bins, int missing_bin) {
  return {run.gain,
          static_cast<int64_t>(run.left.grad),
          static_cast<int64_t>(run.left.hess),
          feature,
          SUBSET,
          left_bins.holds(missing_bin),
          0,
          left_bins};
}

// One level against the rest.
template <class Gain>
void search_onehot(const SearchedNode& node, int64_t offset, int n_bins, int f, int missing_bin,
                   const Gain& gain_of, SplitInfo& best) {
  std::array<LevelSums, BINS_PER_FEATURE> sums;
  read_bins(node, offset, n_bins, sums.data());
  for (int b = 0; b < n_bins; ++b) {
    const LevelSums& left = sums[b];
    if (left.hess < node.min_hess || node.hess - left.hess < node.min_hess) continue;
    const double gain = level_gain(left, node, gain_of);
    if (!(gain > best.gain)) continue;
    BinSet alone{};
    alone.add(b);
    best = subset_split({gain, left, b + 1}, f, alone, missing_bin);
  }
}

// Not inlined: the loops over bins of numeric features are the hot ones, and are compiled alone.
template <class Gain>
BG_NOINLINE void search_levels(const SearchedNode& node, const SplitFeatures& features, int f,
                               const Gain& gain, SplitInfo& best) {
  const int64_t offset = features.bin_offset[f];
  const int n_bins = static_cast<int>(features.bin_offset[f + 1] - offset);
  const int missing_bin = n_bins - features.has_missing[f];
  if (is_onehot(n_bins, gain.rules))
    return search_onehot(node, offset, n_bins, f, missing_bin, gain, best);
  SortedLevels levels;
  sort_levels(node, offset, n_bins, gain.rules, levels);
  const auto from = [&](bool low, int i) { return levels.bins[low ? i : levels.n - 1 - i]; };
  for (const bool low : {true, false}) {
    const LevelRun run =
        best_run(levels.n, node, gain, best.gain, [&](int i) { return levels.sums[from(low, i)]; });
    if (run.n == 0) continue;
    BinSet left_bins{};
    for (int i = 0; i < run.n; ++i) left_bins.add(from(low, i));
    best = subset_split(run, f, left_bins, missing_bin);
  }
}

// Whether a side of every split lacks hessian: the one without the bin that most rows are in.
BG_FN bool is_too_rare(const SearchedNode& node, const SplitFeatures& features, int f) {
  if (!features.implied || features.implied[f] < 0) return false;
  return node.hess - read_bin(node, features.implied[f]).hess < node.min_hess;
}

// The best split among the listed features, each half of whose sums fits Sums.
template <class Sums, class Gain>
void search_all(const SearchedNode& node, const SplitFeatures& features,
                std::span<const int> listed, const Gain& gain, SplitInfo& best) {
  for (const int f : listed)
    if (is_too_rare(node, features, f) || !node.allowed[f])
      continue;
    else if (features.kinds[f] == LEVELS)
      search_levels(node, features, f, gain.of_feature(f), best);
    else if (features.kinds[f] == DRAWN || gain.draws_all())
      search_drawn(node, features, f, gain.of_feature(f), best);
    else
      search_feature<Sums>(node, features, f, gain.of_feature(f), best);
}

}  // namespace

SplitInfo find_split(const SearchedNode& node, const SplitFeatures& features,
                     std::span<const int> listed, const SearchRules& rules, Simd simd) {
  const PlainGain plain{rules.gain, leaf_score(node.grad, node.hess, rules.gain)};
  double parent_score = plain.parent_score;
  SplitInfo best = NO_SPLIT;
  if (node.hess < 2.0 * std::ceil(node.min_hess)) return best;
  const bool estimates = node.can_estimate && has_vectors(simd);
  // A body for each kind of sums: in one, they would share registers and a stack.
  if (rules.split) {
    const RuledGain ruled = ruled_gain(rules.gain, *node.searched, *rules.split);
    parent_score = ruled.parent_score;
    with_simd(simd, [&] { search_all<Prefix>(node, features, listed, ruled, best); });
#if defined(BG_X86)
  } else if (estimates && node.width == 16 && simd == Simd::avx512) {
    run_avx512([&] { search_all<WidePrefix>(node, features, listed, plain, best); });
#endif
  } else if (estimates && node.width == 16) {
    with_simd<Simd::avx2, Simd::avx2>(
        simd, [&] { search_all<PackedPrefix>(node, features, listed, plain, best); });
  } else if (estimates) {
    with_simd<Simd::avx2, Simd::avx2>(
        simd, [&] { search_all<ShortPrefix>(node, features, listed, plain, best); });
  } else {
    with_simd(simd, [&] { search_all<Prefix>(node, features, listed, plain, best); });
  }
  if (!(best.gain > gain_floor(parent_score, rules.gain))) best = NO_SPLIT;
  return best;
}

std::vector<SearchedNode> searched_nodes(std::span<const SearchNode> searched, const PoolView& pool,
                                         const SplitFeatures& features, const SearchRules& rules) {
  std::vector<SearchedNode> nodes;
  const int64_t n_bins = features.bin_offset[features.n_features];
  for (size_t i = 0; i < searched.size(); ++i)
    nodes.push_back(searched_node(searched[i],
                                  pool.slot(searched[i].slot, n_bins, searched[i].width),
                                  features.allowed + i * features.allowed_stride, rules.gain));
  return nodes;
}

std::vector<SplitInfo> find_splits(std::span<const SearchNode> searched, const PoolView& pool,
                                   const SplitFeatures& features, const SearchRules& rules,
                                   int n_threads, Simd simd) {
  const std::vector<SearchedNode> nodes = searched_nodes(searched, pool, features, rules);
  const auto n_nodes = static_cast<int64_t>(nodes.size());
  const int n_features = features.last - features.first;
  // Wide tables are sparse: most features are passed over.
  const int block = FEATURE_BLOCK * std::max(1, n_features / MANY_FEATURES);
  const int64_t n_blocks = blocks_of(n_features, block);
  std::vector<int> listed(n_features);
  std::iota(listed.begin(), listed.end(), features.first);
  std::vector<SplitInfo> found(n_nodes * n_blocks);
  parallel_tasks(
      n_nodes * n_blocks, n_threads,
      [&](int64_t task) {
        const int begin = static_cast<int>(task % n_blocks) * block;
        const std::span<const int> mine(listed.data() + begin, std::min(block, n_features - begin));
        found[task] = find_split(nodes[task / n_blocks], features, mine, rules, simd);
      },
      TASKS_PER_THREAD);
  std::vector<SplitInfo> best(n_nodes, NO_SPLIT);
  for (int64_t i = 0; i < n_nodes; ++i)
    for (int64_t b = 0; b < n_blocks; ++b)
      if (found[i * n_blocks + b].gain > best[i].gain) best[i] = found[i * n_blocks + b];
  return best;
}

}  // namespace bitgrove
