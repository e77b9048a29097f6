// Kernels that follow each other, launched together: one call instead of one for each.
//
// They are given anew for every use, from begin() to finish(), as to a stream; what differs from
// the last use is told to the driver, the rest is known to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/driver.h"

namespace bitgrove {

class Graph {
 public:
  // overlaps: a kernel may be launched while the one before it still runs, and waits by itself.
  explicit Graph(bool overlaps) : overlaps_(overlaps) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() { drop(); }

  // Whether the driver is new enough.
  static bool is_there();

  void begin() { at_ = 0; }
  void add(const Launch& launch);
  void finish();
  void run(const Stream& stream) const { stream.run(instance_); }

 private:
  void drop();

  std::vector<Launch> launches_;
  std::vector<uint64_t> nodes_;
  size_t at_ = 0;
  uint64_t graph_ = 0, instance_ = 0;
  bool overlaps_, is_same_ = false;
};

}  // namespace bitgrove
