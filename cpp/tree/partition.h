// Dividing the rows of a batch of nodes, as a verb of a tree (cpu_tree.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/simd.h"
#include "plans.h"
#include "sparse/sparse_bins.h"

namespace bitgrove {

// Nodes that are divided by features in lists at a time, each with a column of marks.
constexpr int64_t MARK_COLUMNS = 4;
// What a mark says of a row that is in the implied bin, or on its side of the split.
constexpr uint8_t NO_MARK = 1;

// Columns of bins are column_stride bytes apart. column_of: the column of each feature, -1 if it is
// in the lists of `sparse`. marks: MARK_COLUMNS columns of NO_MARK, where there are lists.
struct PartitionSource {
  int32_t* rows;
  int64_t n_listed;
  int32_t* scratch;  // as long as rows
  const uint8_t* columns;
  int64_t n_features, column_stride;
  const int32_t* column_of;
  const SparseBins* sparse;
  uint8_t* marks;
};

// Returns the rows gone left of each node.
std::vector<RowCounts> divide_rows(std::span<const Division> plan, const PartitionSource& source,
                                   int n_threads, Simd simd);

}  // namespace bitgrove
