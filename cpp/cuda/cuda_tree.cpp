// See cuda_tree.h.
#include "cuda/cuda_tree.h"

#include <algorithm>
#include <stdexcept>

#include "common/plan_checks.h"
#include "cuda/plan_writer.h"
#include "tiles.h"
#include "tree/splits.h"

namespace bitgrove {
namespace {

// Bins of a slot that one block clears or subtracts.
constexpr int64_t SLOT_PART = 2048;
// Bins of a slot that the few blocks of a division clear on the way; more take a launch of their
// own.
constexpr int64_t MOST_CLEARED = 16384;
// Rows of a histogram block: enough that adding costs more than flushing, few enough to fill the
// GPU. Three words hold 4096; below 2048, one word is not worth its many flushes.
constexpr int64_t LEAST_ROWS = 1024, MOST_ROWS = 8192, MOST_SPLIT_ROWS = 4096,
                  LEAST_NARROW_ROWS = 2048;
constexpr int64_t BLOCKS_PER_PROCESSOR = 8;
constexpr int64_t UNKNOWN = -1;

int64_t blocks_of(int64_t n, int64_t block) { return (n + block - 1) / block; }

// Blocks of the search of each node. To end one takes time: where there are warps enough without a
// warp for each feature, a warp looks at several.
constexpr int64_t MANY_WARPS = 32768;
int64_t search_blocks(int64_t n_features, int64_t n_nodes) {
  return std::min(blocks_of(n_features, FEATURES_PER_BLOCK),
                  blocks_of(MANY_WARPS / FEATURES_PER_BLOCK, std::max<int64_t>(n_nodes, 1)));
}

template <class T>
T* host_pointer(uint64_t address) {
  return reinterpret_cast<T*>(address);
}

}  // namespace

BlockPlan plan_blocks(std::span<const Build> builds, int half_bits, int64_t n_tiles,
                      int n_processors) {
  BlockPlan plan{{builds.begin(), builds.end()}, {0}, 0};
  int64_t n_rows = 0;
  bool narrow = true;
  for (const Build& step : builds) {
    require(step.block_rows > 0, "a build needs rows per block");
    const int64_t size = step.end - step.begin;
    n_rows += size;
    narrow =
        narrow && step.local_width <= 16 && step.block_rows >= std::min(size, LEAST_NARROW_ROWS);
  }
  plan.words = half_bits == 32 ? 3 : narrow ? 1 : 2;
  const int64_t wanted = n_rows * n_tiles / (BLOCKS_PER_PROCESSOR * n_processors);
  int64_t limit = std::clamp(wanted, LEAST_ROWS, MOST_ROWS);
  if (plan.words == 3) limit = std::min(limit, MOST_SPLIT_ROWS);
  for (Build& step : plan.builds) {
    step.block_rows = plan.words == 1 ? std::min(limit, step.block_rows) : limit;
    const int64_t n_blocks = blocks_of(step.end - step.begin, step.block_rows);
    plan.first_block.push_back(plan.first_block.back() + n_blocks);
  }
  return plan;
}

std::vector<RowCounts> CudaTree::divide(std::span<const Division> divisions) {
  const auto n_nodes = static_cast<int64_t>(divisions.size());
  for (const Division& step : divisions) check_division(step, n_listed, matrix.n_features);
  if (n_nodes > buffers.n_nodes)
    throw std::length_error("more nodes than the buffers have room for");
  auto* left = host_pointer<int64_t>(buffers.host_left);
  std::vector<int64_t> first_block{0};
  for (int64_t i = 0; i < n_nodes; ++i) {
    const int64_t n_rows = divisions[i].end - divisions[i].begin;
    left[i] = n_rows > 0 ? UNKNOWN : 0;
    first_block.push_back(first_block.back() + blocks_of(n_rows, PARTITION_ROWS));
  }
  cleared_.clear();
  if (first_block.back() > 0) {
    // A child of fewer rows has one block, which needs no zeros.
    for (size_t i = 0; slot_size() <= MOST_CLEARED && i < expected_.size(); ++i)
      if (divisions[i].end - divisions[i].begin > 2 * LEAST_ROWS) cleared_.push_back(expected_[i]);
    expected_.clear();
    PlanWriter writer(stream, buffers.plan_room);
    const int64_t divisions_at = writer.add(divisions), first_block_at = writer.add(first_block),
                  cleared_at = writer.add(cleared_),
                  n_cleared = static_cast<int64_t>(cleared_.size());
    const Plan& plan = writer.finish();
    const Grid grid{first_block.back()};
    stream.launch(kernels.divide, grid, rows, buffers.rows, matrix.bins, matrix.n_features, plan,
                  divisions_at, first_block_at, n_nodes, buffers.counts, buffers.progress,
                  buffers.host_left);
    stream.launch(kernels.place, grid, rows, buffers.rows, plan, divisions_at, first_block_at,
                  n_nodes, buffers.counts, pool, slot_size(), cleared_at, n_cleared);
  }
  std::vector<RowCounts> found;
  for (int64_t i = 0; i < n_nodes; ++i) {
    stream.watch([&] { return __atomic_load_n(left + i, __ATOMIC_ACQUIRE) != UNKNOWN; });
    found.push_back({left[i], 0});
  }
  return found;
}

// A node's only block writes its sums; several, or none, leave what the slot holds: zeros must be
// there.
bool CudaTree::is_clear(const BlockPlan& blocks) const {
  for (size_t i = 0; i < blocks.builds.size(); ++i)
    if (blocks.first_block[i + 1] - blocks.first_block[i] != 1 &&
        std::find(cleared_.begin(), cleared_.end(), blocks.builds[i].slot) == cleared_.end())
      return false;
  return true;
}

void CudaTree::launch_builds(const BlockPlan& blocks, const Plan& plan, int64_t builds_at,
                             int64_t first_block_at) {
  const int64_t n_nodes = static_cast<int64_t>(blocks.builds.size()),
                n_blocks = blocks.first_block.back();
  if (!is_clear(blocks)) {
    const int64_t parts = blocks_of(slot_size(), SLOT_PART);
    stream.launch(kernels.clear, {n_nodes * parts}, pool, slot_size(), plan, builds_at,
                  first_block_at, parts);
  }
  cleared_.clear();  // they are written to now
  if (n_blocks == 0) return;
  const Kernel& kernel = blocks.words == 1 ? kernels.build_narrow : kernels.build;
  const int64_t is_wide = wide;
  stream.launch(kernel, {n_blocks, TileView::n_tiles(static_cast<int>(matrix.n_features))}, pool,
                matrix.n_bins, is_wide, matrix.bins, matrix.n_features, matrix.bin_offset, rows,
                packed_rows, plan, builds_at, first_block_at, n_nodes);
}

BlockPlan CudaTree::blocks_for(std::span<const Build> builds) const {
  for (const Build& step : builds) {
    check_build(step, n_listed);
    check_slot(step.slot, n_slots);
  }
  return plan_blocks(builds, half_bits, TileView::n_tiles(static_cast<int>(matrix.n_features)),
                     n_processors);
}

void CudaTree::build(std::span<const Build> builds) {
  const BlockPlan blocks = blocks_for(builds);
  PlanWriter writer(stream, buffers.plan_room);
  const int64_t builds_at = writer.add(blocks.builds),
                first_block_at = writer.add(blocks.first_block);
  launch_builds(blocks, writer.finish(), builds_at, first_block_at);
  stream.wait();
}

void CudaTree::subtract(std::span<const Subtraction> subtractions, int64_t first_bin,
                        int64_t last_bin) {
  check_bins(first_bin, last_bin, matrix.n_bins);
  for (const Subtraction& step : subtractions) {
    check_slot(step.parent_slot, n_slots);
    check_slot(step.built_slot, n_slots);
    check_slot(step.out_slot, n_slots);
  }
  const int64_t per_bin = wide ? 2 : 1,
                parts = blocks_of((last_bin - first_bin) * per_bin, SLOT_PART);
  const int64_t n_blocks = static_cast<int64_t>(subtractions.size()) * parts;
  if (n_blocks == 0) return;
  PlanWriter writer(stream, buffers.plan_room);
  const int64_t steps_at = writer.add(subtractions);
  stream.launch(kernels.subtract, {n_blocks}, pool, slot_size(), writer.finish(), steps_at,
                first_bin * per_bin, last_bin * per_bin, parts);
  stream.wait();
}

CudaTree::Searched CudaTree::write_nodes(PlanWriter& writer, std::span<const SearchNode> nodes,
                                         std::span<const uint8_t> allowed_rows) const {
  const int64_t n_nodes = static_cast<int64_t>(nodes.size()), nodes_at = writer.add(nodes);
  if (allowed_rows.empty()) return {n_nodes, nodes_at, 0, 0};
  check_allowed(allowed_rows, nodes.size(), matrix.n_features);
  return {n_nodes, nodes_at, writer.add(allowed_rows), matrix.n_features};
}

void CudaTree::launch_search(const Plan& plan, const Searched& searched, int64_t first,
                             int64_t last) {
  if (searched.n_nodes > buffers.n_nodes)
    throw std::length_error("more nodes than the buffers have room for");
  auto* splits = host_pointer<SplitInfo>(buffers.host_splits);
  for (int64_t i = 0; i < searched.n_nodes; ++i) splits[i].ready = 0;
  const int64_t n_blocks = search_blocks(last - first, searched.n_nodes);
  const auto launch = [&](const auto&... more) {
    stream.launch(kernels.find, {searched.n_nodes * n_blocks}, pool, slot_size(), plan,
                  searched.nodes_at, matrix.bin_offset, matrix.has_missing, allowed,
                  searched.allowed_stride, searched.allowed_at, matrix.kinds, first, last,
                  rules.grad_scale, rules.hess_scale, rules.reg_lambda, rules.reg_alpha,
                  rules.min_gain, rules.cat_smooth, rules.cat_l2, rules.min_data_per_group,
                  rules.max_cat_threshold, rules.max_cat_to_onehot, n_blocks, buffers.found,
                  buffers.n_done, buffers.host_splits, more...);
  };
  if (split_rules.direction == 0) return launch();
  launch(split_rules.direction, split_rules.contribution, split_rules.path_smooth,
         split_rules.extra_trees);
}

std::vector<SplitInfo> CudaTree::found_splits(int64_t n_nodes) const {
  auto* splits = host_pointer<SplitInfo>(buffers.host_splits);
  for (int64_t i = 0; i < n_nodes; ++i) {
    stream.watch([&] { return __atomic_load_n(&splits[i].ready, __ATOMIC_ACQUIRE) != 0; });
    splits[i].ready = 0;
  }
  return {splits, splits + n_nodes};
}

std::vector<SplitInfo> CudaTree::find(std::span<const SearchNode> nodes, int64_t first,
                                      int64_t last, std::span<const uint8_t> allowed_rows) {
  const auto n_nodes = static_cast<int64_t>(nodes.size());
  check_features(first, last, matrix.n_features);
  for (const SearchNode& node : nodes) check_slot(node.slot, n_slots);
  if (first == last) return std::vector<SplitInfo>(n_nodes, NO_SPLIT);  // more ranks than features
  std::vector<SearchNode> complete(nodes.begin(), nodes.end());
  for (SearchNode& node : complete) node.sibling = -1;  // was taken away already
  PlanWriter writer(stream, buffers.plan_room);
  const Searched searched = write_nodes(writer, complete, allowed_rows);
  launch_search(writer.finish(), searched, first, last);
  return found_splits(n_nodes);
}

std::vector<SplitInfo> CudaTree::search(const SearchPlan& plan) {
  for (const Subtraction& step : plan.subtractions)
    require(step.out_slot == step.parent_slot, "a GPU subtracts in place");
  const BlockPlan blocks = blocks_for(plan.builds);
  PlanWriter writer(stream, buffers.plan_room);
  const int64_t builds_at = writer.add(blocks.builds),
                first_block_at = writer.add(blocks.first_block);
  const Searched searched = write_nodes(writer, plan.nodes, plan.allowed);
  const Plan& written = writer.finish();
  launch_builds(blocks, written, builds_at, first_block_at);
  launch_search(written, searched, 0, matrix.n_features);
  return found_splits(searched.n_nodes);
}

}  // namespace bitgrove
