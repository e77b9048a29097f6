// A ring of pinned memory with its twin on the device: small arrays go there, and may come back
// changed.
//
// Python owns the memory and asks for room first; when a ring is full it waits for the stream and
// starts the ring again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>

#include "cuda/driver.h"

namespace bitgrove {

class Ring {
 public:
  static constexpr int64_t ALIGNMENT = 16;

  Stream stream;
  DeviceAddress device = 0;
  uint64_t host = 0;
  int64_t n_bytes = 0;

  int64_t room() const { return n_bytes - used_; }
  void restart() { used_ = 0; }

  // A copy; flush(first) sends everything from there on.
  DeviceAddress write(std::span<const std::byte> bytes) {
    const int64_t at = used_, size = static_cast<int64_t>(bytes.size()),
                  end = at + (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (end > n_bytes) throw std::length_error("a ring is full");
    used_ = end;
    const DeviceAddress place = device + static_cast<uint64_t>(at);
    std::memcpy(host_of(place), bytes.data(), bytes.size());
    return place;
  }
  void flush(DeviceAddress first) const {
    const DeviceAddress end = device + static_cast<uint64_t>(used_);
    if (end > first) stream.upload(first, host_of(first), end - first);
  }
  // Starts to bring back what the device wrote; it is there after the stream was waited for.
  const std::byte* begin_fetch(DeviceAddress from, size_t size) const {
    const bool is_here = from - device < static_cast<uint64_t>(n_bytes);
    if (!is_here || size > device + static_cast<uint64_t>(n_bytes) - from)
      throw std::out_of_range("an address that is not of this ring");
    if (size > 0) stream.download(host_of(from), from, size);
    return host_of(from);
  }

 private:
  std::byte* host_of(DeviceAddress address) const {
    return reinterpret_cast<std::byte*>(host + (address - device));
  }

  int64_t used_ = 0;
};

}  // namespace bitgrove
