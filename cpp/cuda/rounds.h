// The rounds of one tree on a GPU: plans go up, counts and splits come back.
//
// Results are written by the kernels straight into pinned memory of the host, which watches for
// them: rows gone left are known, and the next kernels planned, while rows are still being moved.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/driver.h"
#include "gain.h"
#include "tree/frontier.h"

namespace bitgrove {

struct RoundKernels {
  Kernel divide, place, clear, subtract, find;
  Kernel build_narrow;  // 16 + 16 bits per bin in shared memory: for rows proved to fit
  Kernel build;         // for any rows of the packed width
};

// Bins of the training rows: row-major tiles and columns.
struct DeviceMatrix {
  DeviceAddress tiles = 0, columns = 0, bin_offset = 0, has_missing = 0;
  int64_t n_rows = 0, n_features = 0, n_bins = 0;
};

// Memory that is used again in every round; `plan` and its twin on the host have plan_bytes.
struct RoundBuffers {
  DeviceAddress rows = 0, counts = 0, progress = 0, found = 0, n_done = 0, plan = 0;
  uint64_t host_plan = 0, host_left = 0, host_splits = 0;  // pinned
  int64_t plan_bytes = 0, n_nodes = 0;
};

constexpr int64_t DIVISION_COLUMNS = 7, BUILD_COLUMNS = 6, SUBTRACTION_COLUMNS = 5;

// Builds divided into blocks of rows; node i has the blocks [first_block[i], first_block[i + 1]).
struct BlockPlan {
  std::vector<int64_t> steps;  // builds, with this device's rows per block
  std::vector<int64_t> first_block;
  int words;  // of 32 bits, per bin in shared memory
};

// A plan proves that its rows per block cannot overflow its local width. One word takes that
// promise for 16 bits; two and three words hold any rows of the packed widths they are used for.
BlockPlan plan_blocks(const std::vector<int64_t>& builds, int half_bits, int64_t n_tiles,
                      int n_processors);

class DeviceRounds {
 public:
  Stream stream;
  RoundKernels kernels;
  DeviceMatrix matrix;
  RoundBuffers buffers;
  DeviceAddress pool = 0, packed = 0, rows = 0, allowed = 0;
  int half_bits = 8;
  bool wide = false;  // 64 + 64 bits per bin of the pool
  int n_processors = 1;
  GainRules rules{};

  // plan: as the frontier makes it. No rows are known to be zero here: all count as active.
  std::vector<RowCounts> partition(const std::vector<int64_t>& plan);
  void build(const std::vector<int64_t>& builds);
  void subtract(const std::vector<int64_t>& subtractions, int64_t first_bin, int64_t last_bin);
  std::vector<SplitInfo> find(const SearchPlan& plan, int64_t first, int64_t last);
  // A whole plan of the frontier, with the subtractions done on the way of the search.
  std::vector<SplitInfo> search(const SearchPlan& plan);

 private:
  class Upload;
  struct SearchNode;

  int64_t slot_size() const { return matrix.n_bins * (wide ? 2 : 1); }
  BlockPlan blocks_for(const std::vector<int64_t>& builds) const;
  void launch_builds(const BlockPlan& plan, DeviceAddress steps, DeviceAddress first_block);
  static std::vector<SearchNode> search_nodes(const SearchPlan& plan, bool subtract_here);
  void launch_search(DeviceAddress nodes, int64_t n_nodes, int64_t first, int64_t last);
  std::vector<SplitInfo> found_splits(int64_t n_nodes) const;
  template <class Ready>
  void watch(const Ready& ready) const;
};

}  // namespace bitgrove
