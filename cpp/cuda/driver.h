// The few functions of the CUDA driver that training calls many times per tree.
//
// They are found in libcuda.so.1 at run time, so building needs no CUDA. Streams, kernels and
// memory belong to CuPy, which hands over their handles and addresses as integers; its device must
// be the current one of the calling thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace bitgrove {

using DeviceAddress = uint64_t;

struct Kernel {
  uint64_t handle = 0;
  unsigned threads = 0, shared_bytes = 0;
};

struct Grid {
  int64_t x, y = 1;
};

class Stream {
 public:
  explicit Stream(uint64_t handle = 0) : handle_(handle) {}

  // Arguments must have exactly the kernel's types: addresses, int64_t, uint64_t, double, records.
  template <class... Args>
  void launch(const Kernel& kernel, Grid grid, const Args&... args) const {
    std::array<void*, sizeof...(Args)> addresses{
        const_cast<void*>(static_cast<const void*>(&args))...};
    launch_raw(kernel, grid, addresses.data());
  }
  void launch_raw(const Kernel& kernel, Grid grid, void** arguments) const;
  void upload(DeviceAddress to, const void* from, size_t n_bytes) const;
  void download(void* to, DeviceAddress from, size_t n_bytes) const;
  void wait() const;
  // True while work is under way; throws if it failed.
  bool is_busy() const;

 private:
  uint64_t handle_;
};

}  // namespace bitgrove
