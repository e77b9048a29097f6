// The few functions of the CUDA driver that training calls many times per tree.
//
// They are found in libcuda.so.1 at run time, so building needs no CUDA. Streams, kernels and
// memory belong to CuPy, which hands over their handles and addresses as integers; its device must
// be the current one of the calling thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace bitgrove {

using DeviceAddress = uint64_t;

struct Kernel {
  uint64_t handle = 0;
  unsigned threads = 0, shared_bytes = 0;

  bool operator==(const Kernel&) const = default;
};

struct Grid {
  int64_t x, y = 1;

  bool operator==(const Grid&) const = default;
};

// A kernel with its arguments, to be run now or kept. Arguments must have exactly the kernel's
// types: addresses, int64_t, uint64_t, double, records.
struct Launch {
  static constexpr size_t MOST_BYTES = 4096, MOST_ARGUMENTS = 40;  // the driver takes no more bytes

  Kernel kernel;
  Grid grid{0};
  alignas(16) std::array<std::byte, MOST_BYTES> bytes{};
  std::array<uint16_t, MOST_ARGUMENTS> starts;
  size_t n_bytes = 0, n_arguments = 0;

  template <class... Args>
  Launch(const Kernel& kernel, Grid grid, const Args&... args) : kernel(kernel), grid(grid) {
    (add(args), ...);
  }
  template <class T>
  void add(const T& argument) {
    static_assert(alignof(T) <= 16 && sizeof(T) % 8 == 0, "every argument has whole words");
    append(&argument, sizeof argument, alignof(T));
  }
  // Where the arguments are, as the driver wants to be told.
  std::array<void*, MOST_ARGUMENTS> addresses() const;
  bool operator==(const Launch& other) const;

 private:
  void append(const void* argument, size_t n, size_t alignment);
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
  void launch(const Launch& launch) const;
  void launch_raw(const Kernel& kernel, Grid grid, void** arguments) const;
  void upload(DeviceAddress to, const void* from, size_t n_bytes) const;
  void download(void* to, DeviceAddress from, size_t n_bytes) const;
  void run(uint64_t graph) const;  // an instance of one
  void fill(DeviceAddress to, uint8_t byte, size_t n_bytes) const;
  void wait() const;
  // True while work is under way; throws if it failed.
  bool is_busy() const;
  // Waits until the device has written what is asked for; the stream is only asked now and then.
  template <class Ready>
  void watch(const Ready& ready) const {
    for (int64_t spins = 1; !ready(); ++spins)
      if (spins % SPINS_BETWEEN_CHECKS == 0 && !is_busy() && !ready())
        throw std::runtime_error("the GPU finished its work without a result");
  }

 private:
  static constexpr int64_t SPINS_BETWEEN_CHECKS = 4096;

  uint64_t handle_;
};

}  // namespace bitgrove
