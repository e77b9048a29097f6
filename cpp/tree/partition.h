// Dividing the rows of a batch of nodes, for the bindings of partition.cpp and search.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "common/simd.h"
#include "tree/frontier.h"
#include "tree/histogram.h"

namespace bitgrove {

// Columns of bins are column_stride bytes apart.
struct PartitionSource {
  int32_t* rows;
  int64_t n_listed;
  int32_t* scratch;  // as long as rows
  const uint8_t* columns;
  int64_t n_features, column_stride;
};

// plan: begin, end, feature, bin, missing bin, default left, first zero row.
std::vector<RowCounts> partition_rows(const PlanView& plan, const PartitionSource& source,
                                      int n_threads, Simd simd);

}  // namespace bitgrove
