// See cuda_tree.h.
#include "cuda/cuda_tree.h"

#include <algorithm>
#include <stdexcept>

#include "common/plan_checks.h"
#include "cuda/plan_writer.h"
#include "tree/splits.h"

namespace bitgrove {
namespace {

// Bins of a slot that one block subtracts.
constexpr int64_t SLOT_PART = 2048;
constexpr int64_t UNKNOWN = -1;

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
  const int64_t limit = build_block_rows(n_rows, n_tiles, n_processors, plan.words);
  for (Build& step : plan.builds) {
    step.block_rows = plan.words == 1 ? std::min(limit, step.block_rows) : limit;
    const int64_t n_blocks = blocks_of(step.end - step.begin, step.block_rows);
    plan.first_block.push_back(plan.first_block.back() + n_blocks);
  }
  return plan;
}

Launch CudaTree::division(const Plan& plan, const PlanPlaces& at, int64_t blocks,
                          uint64_t left) const {
  return {kernels.divide,
          {blocks},
          rows,
          buffers.rows,
          matrix.bins,
          matrix.n_features,
          plan,
          at.sizes,
          at.divisions,
          at.first_division,
          buffers.counts,
          buffers.progress,
          left};
}

Launch CudaTree::placing(const Kernel& kernel, const Plan& plan, const PlanPlaces& at,
                         int64_t blocks) const {
  return {kernel,       {blocks},          rows,           buffers.rows, plan,        at.sizes,
          at.divisions, at.first_division, buffers.counts, pool,         slot_size(), at.cleared};
}

Launch CudaTree::clearing(const Plan& plan, const PlanPlaces& at) const {
  constexpr int64_t PER_PROCESSOR = 8;
  return {
      kernels.clear, {PER_PROCESSOR * n_processors}, pool, slot_size(), plan, at.sizes, at.builds,
      at.first_build};
}

Launch CudaTree::building(const Plan& plan, const PlanPlaces& at, int64_t blocks,
                          bool narrow) const {
  const int64_t is_wide = wide;
  return {narrow ? kernels.build_narrow : kernels.build,
          {blocks, n_tiles()},
          pool,
          matrix.n_bins,
          is_wide,
          matrix.bins,
          matrix.n_features,
          matrix.bin_offset,
          rows,
          packed_rows,
          plan,
          at.sizes,
          at.builds,
          at.first_build};
}

Launch CudaTree::searching(const Plan& plan, const PlanPlaces& at, int64_t blocks,
                           std::pair<int64_t, int64_t> features, uint64_t result) const {
  Launch launch{kernels.find,
                {blocks},
                pool,
                slot_size(),
                plan,
                at.sizes,
                at.nodes,
                matrix.bin_offset,
                matrix.has_missing,
                allowed,
                at.allowed_stride,
                at.allowed,
                matrix.kinds,
                features.first,
                features.second,
                rules,
                buffers.found,
                buffers.n_done,
                result};
  if (split_rules.direction != 0) {
    launch.add(split_rules.direction);
    launch.add(split_rules.contribution);
    launch.add(split_rules.path_smooth);
    launch.add(split_rules.extra_trees);
  }
  return launch;
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
    for (size_t i = 0; i < expected_.size(); ++i)
      if (may_need_clearing(divisions[i], slot_size())) cleared_.push_back(expected_[i]);
    expected_.clear();
    RoundSizes sizes{};
    sizes.n_divided = n_nodes;
    sizes.division_blocks = first_block.back();
    sizes.n_cleared = static_cast<int64_t>(cleared_.size());
    PlanWriter writer(stream, buffers.plan_room);
    PlanPlaces at;
    at.sizes = writer.add(std::span<const RoundSizes>(&sizes, 1));
    at.divisions = writer.add(divisions);
    at.first_division = writer.add(first_block);
    at.cleared = writer.add(cleared_);
    const Plan& plan = writer.finish();
    stream.launch(division(plan, at, first_block.back(), buffers.host_left));
    stream.launch(placing(kernels.place, plan, at, first_block.back()));
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

BlockPlan CudaTree::blocks_for(std::span<const Build> builds) const {
  for (const Build& step : builds) {
    check_build(step, n_listed);
    check_slot(step.slot, n_slots);
  }
  return plan_blocks(builds, half_bits, n_tiles(), n_processors);
}

void CudaTree::write_builds(PlanWriter& writer, const BlockPlan& blocks, RoundSizes& sizes,
                            PlanPlaces& at) const {
  sizes.n_built = static_cast<int64_t>(blocks.builds.size());
  sizes.build_blocks = blocks.first_block.back();
  at.builds = writer.add(blocks.builds);
  at.first_build = writer.add(blocks.first_block);
}

void CudaTree::start_builds(const Plan& plan, const PlanPlaces& at, const BlockPlan& blocks) {
  if (!is_clear(blocks)) stream.launch(clearing(plan, at));
  cleared_.clear();  // they are written to now
  stream.launch(building(plan, at, blocks.first_block.back(), blocks.words == 1));
}

void CudaTree::build(std::span<const Build> builds) {
  const BlockPlan blocks = blocks_for(builds);
  PlanWriter writer(stream, buffers.plan_room);
  RoundSizes sizes{};
  PlanPlaces at;
  write_builds(writer, blocks, sizes, at);
  at.sizes = writer.add(std::span<const RoundSizes>(&sizes, 1));
  start_builds(writer.finish(), at, blocks);
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

void CudaTree::write_nodes(PlanWriter& writer, std::span<const SearchNode> nodes,
                           std::span<const uint8_t> allowed_rows, int64_t n_features,
                           RoundSizes& sizes, PlanPlaces& at) const {
  sizes.n_searched = static_cast<int64_t>(nodes.size());
  sizes.search_blocks = search_blocks(n_features, sizes.n_searched);
  sizes.host_waits = 1;
  at.nodes = writer.add(nodes);
  if (allowed_rows.empty()) return;
  check_allowed(allowed_rows, nodes.size(), matrix.n_features);
  at.allowed = writer.add(allowed_rows);
  at.allowed_stride = matrix.n_features;
}

void CudaTree::start_search(const Plan& plan, const PlanPlaces& at, const RoundSizes& sizes,
                            int64_t first, int64_t last) const {
  if (sizes.n_searched > buffers.n_nodes)
    throw std::length_error("more nodes than the buffers have room for");
  auto* splits = host_pointer<SplitInfo>(buffers.host_splits);
  for (int64_t i = 0; i < sizes.n_searched; ++i) splits[i].ready = 0;
  const int64_t n_blocks = sizes.n_searched * sizes.search_blocks;
  stream.launch(searching(plan, at, n_blocks, {first, last}, buffers.host_splits));
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
  check_features(first, last, matrix.n_features);
  for (const SearchNode& node : nodes) check_slot(node.slot, n_slots);
  if (first == last)
    return std::vector<SplitInfo>(nodes.size(), NO_SPLIT);  // more ranks than features
  std::vector<SearchNode> complete(nodes.begin(), nodes.end());
  for (SearchNode& node : complete) node.sibling = -1;  // was taken away already
  PlanWriter writer(stream, buffers.plan_room);
  RoundSizes sizes{};
  PlanPlaces at;
  write_nodes(writer, complete, allowed_rows, last - first, sizes, at);
  at.sizes = writer.add(std::span<const RoundSizes>(&sizes, 1));
  start_search(writer.finish(), at, sizes, first, last);
  return found_splits(sizes.n_searched);
}

std::vector<SplitInfo> CudaTree::search(const SearchPlan& plan) {
  for (const Subtraction& step : plan.subtractions)
    require(step.out_slot == step.parent_slot, "a GPU subtracts in place");
  const BlockPlan blocks = blocks_for(plan.builds);
  PlanWriter writer(stream, buffers.plan_room);
  RoundSizes sizes{};
  PlanPlaces at;
  write_builds(writer, blocks, sizes, at);
  write_nodes(writer, plan.nodes, plan.allowed, matrix.n_features, sizes, at);
  at.sizes = writer.add(std::span<const RoundSizes>(&sizes, 1));
  const Plan& written = writer.finish();
  start_builds(written, at, blocks);
  start_search(written, at, sizes, 0, matrix.n_features);
  return found_splits(sizes.n_searched);
}

}  // namespace bitgrove
