// All rounds of a tree on one device: the loop of backends/base.py where no other rank is asked.
#pragma once

#include <cstdint>
#include <vector>

#include "growth/frontier.h"

namespace bitgrove {

// Device: search(SearchPlan) returns a SplitInfo per searched node, divide(divisions) the RowCounts
// gone left; expect_builds(slots) is told before it which slots the search after it will probably
// build in.
template <class Device>
void grow_rounds(Device& device, Frontier& frontier, double alpha, const int64_t* missing_bin) {
  const auto search_all = [&] {
    SearchPlan plan;
    while (frontier.next_search(plan)) {
      frontier.record(device.search(plan).data());
      plan = {};
    }
  };
  search_all();
  while (!frontier.next_batch(alpha).empty()) {
    device.expect_builds(frontier.next_slots());
    const std::vector<RowCounts> left = device.divide(frontier.divisions(missing_bin));
    frontier.divide(left.data(), left.data());
    search_all();
  }
}

}  // namespace bitgrove
