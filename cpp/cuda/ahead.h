// Trees that a GPU grows ahead of the host, which follows and has the last word.
//
// The device keeps books of its own (kernels/shared/ahead_books.h): between two rounds it waits for
// nobody. The frontier is told every node that was found; where the device stopped too early, for
// want of slots or at a tie, it goes on by rounds that the host plans.
#pragma once

#include <cstdint>

#include "ahead_books.h"
#include "cuda/cuda_tree.h"
#include "cuda/graph.h"
#include "growth/frontier.h"

namespace bitgrove {

struct AheadKernels {
  Kernel start, choose, place;
};

// Memory for trees of so many leaves, on the device and pinned on the host, in bytes.
struct AheadRoom {
  int64_t device_bytes, host_bytes;
};
AheadRoom ahead_room(int64_t num_leaves);

class AheadGrowth {
 public:
  // missing_bin: of every feature, on the device; overlaps: see Graph.
  AheadGrowth(const AheadKernels& kernels, int64_t num_leaves, DeviceAddress device, uint64_t host,
              DeviceAddress missing_bin, bool overlaps);

  // Whether the tree can be grown here.
  bool takes(const CudaTree& tree, const Frontier& frontier) const;
  // Begins a tree whose root's sums the frontier knows; it is told the nodes by follow().
  void begin(const CudaTree& tree, const Frontier& frontier, double alpha);
  void follow(const CudaTree& tree, Frontier& frontier) const;

 private:
  AheadRules rules_for(const CudaTree& tree, const Frontier& frontier, double alpha) const;
  void prepare_round(const CudaTree& tree, const AheadRules& rules);

  AheadKernels kernels_;
  int64_t num_leaves_;
  DeviceAddress device_;
  AheadBooks books_{};
  PlanPlaces places_;
  Graph round_;
};

}  // namespace bitgrove
