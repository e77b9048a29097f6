// Writes a Plan (kernels/shared/plans.h). A short one is part of the launch, a long one is sent to
// the device in one copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

#include "cuda/driver.h"
#include "plans.h"

namespace bitgrove {

// Memory for one plan at a time: on the device, and pinned on the host.
struct PlanRoom {
  DeviceAddress device = 0;
  uint64_t host = 0;
  int64_t n_bytes = 0;
};

class PlanWriter {
 public:
  PlanWriter(const Stream& stream, const PlanRoom& room) : stream_(stream), room_(room) {}

  // Where the records are in the plan.
  template <class Record>
  int64_t add(std::span<const Record> records) {
    const size_t n_bytes = records.size_bytes(), at = end_;
    end_ += (n_bytes + 15) / 16 * 16;
    if (static_cast<int64_t>(end_) > room_.n_bytes)
      throw std::length_error("a plan is larger than its buffer");
    std::memcpy(written() + at, records.data(), n_bytes);
    return static_cast<int64_t>(at);
  }
  template <class Record>
  int64_t add(const std::vector<Record>& records) {
    return add(std::span<const Record>(records));
  }
  const Plan& finish() {
    const bool is_short = end_ <= sizeof plan_.here;
    plan_.address = is_short ? 0 : room_.device;
    if (is_short)
      std::memcpy(plan_.here, written(), end_);
    else
      stream_.upload(room_.device, written(), end_);
    return plan_;
  }

 private:
  uint8_t* written() const { return reinterpret_cast<uint8_t*>(room_.host); }

  const Stream& stream_;
  const PlanRoom& room_;
  size_t end_ = 0;
  Plan plan_;
};

}  // namespace bitgrove
