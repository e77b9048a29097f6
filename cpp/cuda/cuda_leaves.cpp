// See cuda_leaves.h.
#include "cuda/cuda_leaves.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace bitgrove {
namespace {

// Rows of a part of an average leaf: many, so that a thread has several loads under way, but not so
// many that blocks are too few for a GPU. The largest leaf's parts must not keep the others
// waiting.
constexpr int64_t LEAST_PART = 256, MOST_PART = 1024, LARGEST_PART = 16384, ENOUGH_BLOCKS = 1024;
constexpr int64_t MOST_PARTS = 65535;  // the limit of a grid's second axis
// Rows of a block that sums them by leaf, at least, and its blocks per processor: each adds all
// leaves to the device's memory in the end. Blocks per processor that add values.
constexpr int64_t SUMMED_ROWS = 4096, SUM_BLOCKS = 4, ADD_BLOCKS = 8;

int64_t blocks_of(int64_t n, int64_t block) { return (n + block - 1) / block; }

Grid grid_of(int64_t n_seen, int64_t largest, int64_t n_leaves) {
  const int64_t part_rows = std::clamp(n_seen / ENOUGH_BLOCKS, LEAST_PART, MOST_PART);
  const int64_t n_parts =
      std::max<int64_t>({n_seen / (n_leaves * part_rows), largest / LARGEST_PART, 1});
  return {n_leaves, std::min(n_parts, MOST_PARTS)};
}

}  // namespace

void CudaLeaves::mark(DeviceAddress rows, std::span<const int64_t> begins,
                      std::span<const int64_t> ends) {
  if (begins.empty() || begins.size() != ends.size())
    throw std::invalid_argument("a tree has leaves, each with a begin and an end");
  n_leaves_ = static_cast<int64_t>(begins.size());
  int64_t n_seen = 0, largest = 0;
  for (size_t i = 0; i < begins.size(); ++i) {
    if (begins[i] < 0 || ends[i] < begins[i] || ends[i] > n_rows)
      throw std::invalid_argument("a leaf has rows beyond those of the tree");
    n_seen += ends[i] - begins[i];
    largest = std::max(largest, ends[i] - begins[i]);
  }
  parts_ = grid_of(n_seen, largest, n_leaves_);
  if (n_seen < n_rows) stream.fill(leaf_of, 0xFF, static_cast<size_t>(n_rows * number_bytes));
  // Lists have at most 2^31 rows.
  const std::vector<int32_t> from(begins.begin(), begins.end()), to(ends.begin(), ends.end());
  PlanWriter writer(stream, ranges_room);
  const int64_t begins_at = writer.add(from), ends_at = writer.add(to);
  stream.launch(kernels.mark, parts_, rows, writer.finish(), begins_at, ends_at, leaf_of);
}

void CudaLeaves::sum(DeviceAddress grad, DeviceAddress hess, double grad_unit,
                     double hess_unit) const {
  const int64_t n_blocks =
      std::clamp<int64_t>(blocks_of(n_rows, SUMMED_ROWS), 1, SUM_BLOCKS * n_processors);
  answer->expect(2 * n_leaves_, n_blocks);
  stream.launch(kernels.sums, {n_blocks}, leaf_of, n_rows, n_leaves_, grad, hess, grad_unit,
                hess_unit, answer->place);
}

void CudaLeaves::add(DeviceAddress scores, std::span<const double> values) const {
  if (static_cast<int64_t>(values.size()) != n_leaves_)
    throw std::invalid_argument("there must be one value per leaf");
  const int64_t n_blocks =
      std::clamp<int64_t>(blocks_of(n_rows, THREADS), 1, ADD_BLOCKS * n_processors);
  PlanWriter writer(stream, values_room);
  const int64_t values_at = writer.add(values);
  stream.launch(kernels.add, {n_blocks}, scores, leaf_of, n_rows, writer.finish(), values_at,
                n_leaves_);
}

}  // namespace bitgrove
