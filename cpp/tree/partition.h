// Dividing the rows of a batch of nodes, as a verb of a tree (cpu_tree.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/simd.h"
#include "plans.h"

namespace bitgrove {

// Columns of bins are column_stride bytes apart.
struct PartitionSource {
  int32_t* rows;
  int64_t n_listed;
  int32_t* scratch;  // as long as rows
  const uint8_t* columns;
  int64_t n_features, column_stride;
};

// Returns the rows gone left of each node.
std::vector<RowCounts> divide_rows(std::span<const Division> plan, const PartitionSource& source,
                                   int n_threads, Simd simd);

}  // namespace bitgrove
