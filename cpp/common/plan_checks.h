// What a plan must hold before it is worked on, the same for the CPU and a GPU: a wrong one is an
// exception, never a bad read.
#pragma once

#include <cstdint>
#include <span>

#include "bindings/rooms.h"
#include "plans.h"

namespace bitgrove {

inline void check_slot(int64_t slot, int64_t n_slots) {
  require(0 <= slot && slot < n_slots, "slot out of range");
}

// n_listed: rows of the list that the plan's ranges are of.
inline void check_build(const Build& step, int64_t n_listed) {
  require(0 <= step.begin && step.begin <= step.end && step.end <= n_listed && step.block_rows > 0,
          "bad node range");
}

inline void check_division(const Division& step, int64_t n_listed, int64_t n_features) {
  require(0 <= step.begin && step.begin <= step.first_zero && step.first_zero <= step.end &&
              step.end <= n_listed,
          "bad node range");
  require(0 <= step.feature && step.feature < n_features, "feature out of range");
}

inline void check_bins(int64_t first, int64_t last, int64_t n_bins) {
  require(0 <= first && first <= last && last <= n_bins, "bad range of bins");
}

inline void check_features(int64_t first, int64_t last, int64_t n_features) {
  require(0 <= first && first <= last && last <= n_features, "bad feature range");
}

// A row of flags for each node.
inline void check_allowed(std::span<const uint8_t> allowed, size_t n_nodes, int64_t n_features) {
  require(allowed.size() == n_nodes * static_cast<size_t>(n_features),
          "allowed features: one row for each node is needed");
}

}  // namespace bitgrove
