// One tree on a GPU: plans go up, counts and splits come back.
//
// Results are written by the kernels straight into pinned memory of the host, which watches for
// them: rows gone left are known, and the next kernels planned, while rows are still being moved.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "blocking.h"
#include "cuda/plan_writer.h"
#include "gain.h"
#include "growth/frontier.h"
#include "tiles.h"

namespace bitgrove {

struct TreeKernels {
  Kernel divide, place, clear, subtract, find;
  Kernel build_narrow;  // 16 + 16 bits per bin in shared memory: for rows proved to fit
  Kernel build;         // for any rows of the packed width
};

// Bins of the training rows.
struct DeviceMatrix {
  PlacedBins bins{};
  DeviceAddress bin_offset = 0, has_missing = 0, kinds = 0;
  int64_t n_features = 0, n_bins = 0;
};

// SplitRules of a training that has some; their arrays are on the device.
struct DeviceRules {
  DeviceAddress direction = 0, contribution = 0;  // 0: there are none
  double path_smooth = 0.0;
  int64_t extra_trees = 0;
};

// Memory that is used again in every round.
struct TreeBuffers {
  DeviceAddress rows = 0, counts = 0, progress = 0, found = 0, n_done = 0;
  uint64_t host_left = 0, host_splits = 0;  // pinned
  int64_t n_nodes = 0;
  PlanRoom plan_room;
};

// Where in a plan its records are. allowed: a row of features for each node, stride bytes apart;
// stride 0: there are none, all nodes look at those of the tree.
struct PlanPlaces {
  int64_t sizes = 0, divisions = 0, first_division = 0, cleared = 0;
  int64_t builds = 0, first_build = 0, nodes = 0, allowed = 0, allowed_stride = 0;
};

// Builds divided into blocks of rows; node i has the blocks [first_block[i], first_block[i + 1]).
struct BlockPlan {
  std::vector<Build> builds;  // with this device's rows per block
  std::vector<int64_t> first_block;
  int words;  // of 32 bits, per bin in shared memory
};

// A plan proves that its rows per block cannot overflow its local width. One word takes that
// promise for 16 bits; two and three words hold any rows of the packed widths they are used for.
BlockPlan plan_blocks(std::span<const Build> builds, int half_bits, int64_t n_tiles,
                      int n_processors);

class AheadGrowth;

class CudaTree {
 public:
  Stream stream;
  TreeKernels kernels;
  DeviceMatrix matrix;
  TreeBuffers buffers;
  DeviceAddress pool = 0, packed_rows = 0, rows = 0, allowed = 0;
  int64_t n_slots = 0, n_listed = 0;  // of the pool, and of the row list
  int half_bits = 8;                  // of the packed rows
  bool wide = false;                  // 64 + 64 bits per bin of the pool
  int n_processors = 1;
  GainRules rules{};
  DeviceRules split_rules;       // kernels.find must be the one for them
  AheadGrowth* ahead = nullptr;  // of the pool; without one, the host plans every round
  bool has_begun = false;        // and ahead must be followed

  // Free slots that the builds after the next division will probably add to.
  void expect_builds(std::vector<int> slots) { expected_ = std::move(slots); }
  // No rows are known to be zero here: all count as active.
  std::vector<RowCounts> divide(std::span<const Division> divisions);
  void build(std::span<const Build> builds);
  void subtract(std::span<const Subtraction> subtractions, int64_t first_bin, int64_t last_bin);
  // The best splits among the features [first, last); allowed: of each node, one row after the
  // other; none: those of the tree.
  std::vector<SplitInfo> find(std::span<const SearchNode> nodes, int64_t first, int64_t last,
                              std::span<const uint8_t> allowed_rows);
  // A whole plan of the frontier; the kernel that finds splits subtracts while it loads the bins.
  std::vector<SplitInfo> search(const SearchPlan& plan);

  int64_t slot_size() const { return matrix.n_bins * (wide ? 2 : 1); }
  int64_t n_tiles() const { return TileView::n_tiles(static_cast<int>(matrix.n_features)); }

  // The launches of a round; `blocks` at least as many as its plan says. left, result: where rows
  // gone left and splits are written, in the host's memory or the device's.
  Launch division(const Plan& plan, const PlanPlaces& at, int64_t blocks, uint64_t left) const;
  // By `place`, or a kernel that does something else beside it and takes more.
  Launch placing(const Kernel& kernel, const Plan& plan, const PlanPlaces& at,
                 int64_t blocks) const;
  Launch clearing(const Plan& plan, const PlanPlaces& at) const;
  Launch building(const Plan& plan, const PlanPlaces& at, int64_t blocks, bool narrow) const;
  Launch searching(const Plan& plan, const PlanPlaces& at, int64_t blocks,
                   std::pair<int64_t, int64_t> features, uint64_t result) const;

 private:
  BlockPlan blocks_for(std::span<const Build> builds) const;
  bool is_clear(const BlockPlan& blocks) const;
  void write_builds(PlanWriter& writer, const BlockPlan& blocks, RoundSizes& sizes,
                    PlanPlaces& at) const;
  void write_nodes(PlanWriter& writer, std::span<const SearchNode> nodes,
                   std::span<const uint8_t> allowed_rows, int64_t n_features, RoundSizes& sizes,
                   PlanPlaces& at) const;
  void start_builds(const Plan& plan, const PlanPlaces& at, const BlockPlan& blocks);
  void start_search(const Plan& plan, const PlanPlaces& at, const RoundSizes& sizes, int64_t first,
                    int64_t last) const;
  std::vector<SplitInfo> found_splits(int64_t n_nodes) const;

  std::vector<int> expected_, cleared_;  // slots: before a division, and by it
};

}  // namespace bitgrove
