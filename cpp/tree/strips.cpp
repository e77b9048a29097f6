// See strips.h: which columns belong together, and a whole SearchPlan done strip by strip.
#include "tree/strips.h"

#include <algorithm>

#include "common/parallel.h"
#include "tree/cpu_tree.h"

namespace bitgrove {
namespace {

// A thread that has fewer columns spends its time on finding rows, not on adding them.
constexpr int LEAST_COLUMNS = 4;
// Work worth calling a thread for, in additions into bins: less than of rows that threads share
// (histogram.cpp), since nobody waits for a slot. Bins that are searched count as so many.
constexpr int64_t STRIP_UPDATES_PER_THREAD = 1 << 12, UPDATES_PER_BIN = 2;

Strip make_strip(const TileColumns& columns, const TileLayout& layout, const int64_t* bin_offset,
                 int n_features) {
  Strip strip{columns, {}, {}};
  const TileColumn* column = layout.columns().data() + columns.first_of_all();
  for (int c = 0; c < columns.n(); ++c)
    for (const TileCode& code : column[c].codes)
      for (const TileMember& member : code.members) {
        // Features without bins in slots may come before it, at the same offset.
        const auto* at = std::upper_bound(bin_offset, bin_offset + n_features, member.bin_offset);
        strip.features.push_back(static_cast<int>(at - bin_offset) - 1);
      }
  std::sort(strip.features.begin(), strip.features.end());
  for (const int f : strip.features) {
    if (strip.bins.empty() || strip.bins.back().last != bin_offset[f])
      strip.bins.push_back({bin_offset[f], bin_offset[f]});
    strip.bins.back().last = bin_offset[f + 1];
  }
  return strip;
}

// Threads share the rows of a node where adding them takes longer than putting their sums together:
// above so many rows per bin, measured on 2 to 16 threads.
constexpr double SHARED_ROWS_PER_BIN = 0.4;
bool is_shared(const Build& build, int64_t n_bins, int n_threads) {
  return n_threads > 1 && static_cast<double>(build.end - build.begin) >
                              SHARED_ROWS_PER_BIN * static_cast<double>(n_bins);
}

// Of each node's best splits, one strip's after the other: of equal gains the lowest feature.
std::vector<SplitInfo> best_of_strips(const std::vector<SplitInfo>& found, size_t n_nodes) {
  const size_t n_strips = found.size() / std::max<size_t>(n_nodes, 1);
  std::vector<SplitInfo> best(n_nodes, NO_SPLIT);
  for (size_t i = 0; i < found.size(); ++i) {
    SplitInfo& so_far = best[i / n_strips];
    const bool is_first = found[i].gain == so_far.gain && found[i].feature < so_far.feature;
    if (found[i].gain > so_far.gain || is_first) so_far = found[i];
  }
  return best;
}

}  // namespace

Strips::Strips(const TileLayout& layout, const int64_t* bin_offset, int n_features, int n_threads) {
  const int n_columns = layout.n_columns();
  n_tiles_ = TileView::n_tiles(n_columns);
  const int n_wide = std::min(n_columns, TILE_FEATURES);
  for (int n_parts = 1;; n_parts *= 2) {
    std::vector<Strip>& strips = by_halves_.emplace_back();
    for (int tile = 0; tile < n_tiles_; ++tile) {
      const int n_here = TileView::features_of(tile, n_columns);
      const int n_strips = std::clamp(n_here / LEAST_COLUMNS, 1, n_parts);
      for (int s = 0; s < n_strips; ++s)
        strips.push_back(make_strip({tile, n_here * s / n_strips, n_here * (s + 1) / n_strips},
                                    layout, bin_offset, n_features));
    }
    if (n_parts * LEAST_COLUMNS >= n_wide || n_parts * n_tiles_ >= n_threads) return;
  }
}

const std::vector<Strip>& Strips::of_batch(const BatchWork& work, int n_threads) const {
  if (n_threads == 1) return by_halves_.front();
  const int64_t for_tasks = blocks_of(n_threads, work.n_parts * n_tiles_),
                for_balance = blocks_of(n_threads * work.most_of_part, work.total * n_tiles_);
  const int64_t wanted = std::max(for_tasks, for_balance);
  size_t half = 0;
  while (half + 1 < by_halves_.size() && (int64_t{1} << half) < wanted) ++half;
  return by_halves_[half];
}

std::vector<SplitInfo> CpuTree::search_strips(const SearchPlan& plan) const {
  const int64_t n_bins = all_bins().last;
  const auto n_parts = static_cast<int64_t>(plan.parts.size());
  std::vector<Build> shared;
  BatchWork batch{n_parts, 0, 0};
  for (const PlanPart& part : plan.parts) {
    int64_t n_updates = UPDATES_PER_BIN * n_bins * (part.last_node - part.first_node);
    if (part.build >= 0) {
      const Build& step = plan.builds[part.build];
      if (is_shared(step, n_bins, n_threads))
        shared.push_back(step);
      else
        n_updates += (step.end - step.begin) * source.tiles.n_features;
    }
    batch.total += n_updates;
    batch.most_of_part = std::max(batch.most_of_part, n_updates);
  }
  if (!shared.empty()) build(shared);
  for (const Subtraction& step : plan.subtractions) check_subtraction(step, pool, n_bins);
  const SplitFeatures searched = features_of(plan.nodes.size(), plan.allowed);
  const std::vector<SearchedNode> nodes = searched_nodes(plan.nodes, pool, searched, rules);
  const int n_here = threads_for(batch.total, STRIP_UPDATES_PER_THREAD, n_threads);
  const std::vector<Strip>& chosen = strips->of_batch(batch, n_here);
  const auto n_strips = static_cast<int64_t>(chosen.size());
  std::vector<SplitInfo> found(nodes.size() * chosen.size());
  parallel_tasks(n_strips * n_parts, n_here, [&](int64_t task) {
    const Strip& strip = chosen[task / n_parts];
    const PlanPart& part = plan.parts[task % n_parts];
    if (part.build >= 0 && !is_shared(plan.builds[part.build], n_bins, n_threads))
      build_columns(plan.builds[part.build], strip.columns, pool, source, simd);
    if (part.subtraction >= 0)
      for (const BinRange& bins : strip.bins)
        subtract_histogram(plan.subtractions[part.subtraction], pool, bins, simd);
    for (int node = part.first_node; node < part.last_node; ++node)
      found[node * n_strips + task / n_parts] =
          find_split(nodes[node], searched, strip.features, rules, simd);
  });
  return best_of_strips(found, nodes.size());
}

std::vector<SplitInfo> CpuTree::search_without_slots(const SearchPlan& plan) const {
  const SplitFeatures searched = features_of(plan.nodes.size(), plan.allowed);
  std::vector<SplitInfo> found =
      search_postings(plan, pool, source, searched, rules, n_threads, simd);
  if (source.layout->n_columns() == 0) return found;
  CpuTree in_tiles = *this;
  in_tiles.source.sparse = nullptr;
  const std::vector<SplitInfo> more = in_tiles.search_strips(plan);
  for (size_t i = 0; i < found.size(); ++i)
    if (more[i].gain > found[i].gain ||
        (more[i].gain == found[i].gain && more[i].feature < found[i].feature))
      found[i] = more[i];
  return found;
}

}  // namespace bitgrove
