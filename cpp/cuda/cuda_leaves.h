// The leaves of a finished tree on a GPU: rows get the numbers of their leaves, then sums and
// values go by those.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/answer.h"
#include "cuda/plan_writer.h"

namespace bitgrove {

struct LeafKernels {
  Kernel mark, sums, add;
};

class CudaLeaves {
 public:
  Stream stream;
  LeafKernels kernels;  // for numbers of this size:
  int64_t number_bytes = 2;
  // The values may be written while the ranges are still on their way; the next tree's ranges are
  // not: the totals of its packed rows were waited for.
  PlanRoom ranges_room, values_room;
  Answer* answer = nullptr;
  DeviceAddress leaf_of = 0;  // the number of each row's leaf
  int64_t n_rows = 0, n_processors = 1;

  // Leaf i has the rows [begins[i], ends[i]) of the list.
  void mark(DeviceAddress rows, std::span<const int64_t> begins, std::span<const int64_t> ends);
  // Of each leaf the fixed-point sums of gradients and hessians (0: the count) times their units.
  void sum(DeviceAddress grad, DeviceAddress hess, double grad_unit, double hess_unit) const;
  void add(DeviceAddress scores, std::span<const double> values) const;
  // For kernels over lists of rows: every leaf is cut into as many parts.
  Grid parts() const { return parts_; }

 private:
  int64_t n_leaves_ = 0;
  Grid parts_{0, 1};
};

}  // namespace bitgrove
