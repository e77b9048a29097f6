// The leaves of 256 rows at once, in trees whose splits compare one-byte codes.
//
// Every split is compared for all rows, also for those that never reach it: 64 rows take one
// instruction, and nothing waits for a branch or for the step before. Then each split hands its set
// of rows (one bit per row) on to its two children; what arrives in a leaf are the leaf's rows.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "common/compiler.h"
#include "predict/forest.h"
#include "sparse/sparse_table.h"

namespace bitgrove {

constexpr int CODED_ROWS = 256;

// One bit per row, as a vector for the compiler: set operations are a few instructions.
struct alignas(CODED_ROWS / 8) RowSet {
  FourWords words;
};

struct alignas(64) CodeColumn {
  uint8_t codes[CODED_ROWS];
};

class CodedRows {
 public:
  CodedRows(const CodedForest& forest, Simd simd);

  // Codes the next n <= 256 rows.
  template <class Real>
  void read(const Real* rows, int64_t n, int64_t stride) {
    any_missing_ = false;
    for (size_t column = 0; column < columns_.size(); ++column) {
      std::array<double, CODED_ROWS> values{};
      const Real* value = rows + forest_.features[column];
      for (int64_t i = 0; i < n; ++i) values[i] = static_cast<double>(value[i * stride]);
      code(column, values);
    }
  }

  // Codes the rows [first, first + n) of a table that is stored by rows; column_of: of each of its
  // columns the column of codes, or -1.
  void read(const SparseTable& table, const std::vector<int32_t>& column_of, int64_t first,
            int64_t n);

  // The leaf of each row in a tree.
  const std::array<uint16_t, CODED_ROWS>& leaves_of(std::span<const CodedSplit> splits,
                                                    std::span<const CodedSubset> subsets);

 private:
  void code(size_t column, const std::array<double, CODED_ROWS>& values);
  void mark_missing(size_t column, int64_t row);

  const CodedForest& forest_;
  Simd simd_;
  bool any_missing_ = false;
  std::vector<CodeColumn> columns_;
  std::vector<RowSet> missing_;       // of column c at 2c + 1; at 2c the empty set
  std::vector<RowSet> above_, sets_;  // the rows that each split sends right; the rows of each node
  std::array<uint16_t, CODED_ROWS> leaf_{};
};

}  // namespace bitgrove
