// Kernels that follow each other, launched together: one call instead of one for each.
//
// They are given anew for every use, from begin() to finish(), as to a stream; what differs from
// the last use is told to the driver, the rest is known to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cuda/driver.h"

namespace bitgrove {

class Graph {
 public:
  struct Step {
    Kernel kernel;
    Grid grid;
    std::vector<std::byte> bytes;  // of all arguments, and where each starts
    std::vector<size_t> starts;

    bool operator==(const Step&) const = default;
  };

  // overlaps: a kernel may be launched while the one before it still runs, and waits by itself.
  explicit Graph(bool overlaps) : overlaps_(overlaps) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() { drop(); }

  void begin() { at_ = 0; }
  template <class... Args>
  void launch(const Kernel& kernel, Grid grid, const Args&... args) {
    Step step{kernel, grid, {}, {}};
    (add_argument(step, &args, sizeof args), ...);
    add(std::move(step));
  }
  void finish();
  void run(const Stream& stream) const { stream.run(instance_); }

 private:
  static void add_argument(Step& step, const void* argument, size_t n_bytes) {
    constexpr size_t ALIGNMENT = 16;
    const size_t start = (step.bytes.size() + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    step.bytes.resize(start + n_bytes);
    std::memcpy(step.bytes.data() + start, argument, n_bytes);
    step.starts.push_back(start);
  }
  void add(Step step);
  void set_step(size_t at) const;
  void drop();

  std::vector<Step> steps_;
  std::vector<uint64_t> nodes_;
  size_t at_ = 0;
  uint64_t graph_ = 0, instance_ = 0;
  bool overlaps_, is_same_ = false;
};

}  // namespace bitgrove
