// The bins of a sparse table: only those of values that are stored.
//
// Of each feature the implied bin is that of zero. What is stored of a row is a list of positions:
// where a histogram has the bins of its values. For training there are also postings, the rows of
// a feature with their bins, as gaps of one byte or more: dividing a node by it looks at them
// alone. Features with many values may be kept elsewhere, as dense columns.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sparse/row_lists.h"
#include "sparse/sparse_table.h"

namespace bitgrove {

// Where the columns of a table go: feature_of is -1 for those that are left out; column_of, of each
// feature, is its row in `dense`, or -1 if its values are kept in lists.
struct BinTargets {
  const int32_t *feature_of, *column_of;
  const double* edge_values;
  const int64_t* edge_offset;
  const uint8_t* has_missing;  // of each feature
  int64_t n_features;
  uint8_t* dense;
  int64_t dense_stride;
};

class SparseBins {
 public:
  SparseBins(const SparseTable& table, const BinTargets& targets, int n_threads);

  // Makes the postings; bin_offset: where all ranks have each feature's bins in a histogram.
  void prepare(std::span<const int64_t> bin_offset, int n_threads);

  int64_t n_rows() const { return rows_.n_rows(); }
  int64_t n_features() const { return static_cast<int64_t>(offset_.size()) - 1; }
  int64_t n_bins() const { return offset_.back(); }
  int64_t n_values() const { return n_values_; }
  int64_t n_bytes() const;
  // About so many, and at least one.
  int64_t values_per_row() const { return n_rows() ? n_values() / n_rows() + 1 : 1; }
  bool is_prepared() const { return !posting_begin_.empty(); }
  // The features whose values are in the lists, in order.
  const std::vector<int32_t>& features() const { return features_; }
  bool has(int64_t feature) const { return implied_[feature] >= 0; }
  // The first position of a feature, and that of its implied bin.
  int64_t offset(int64_t feature) const { return offset_[feature]; }
  int64_t implied(int64_t feature) const { return implied_[feature]; }
  const int64_t* all_offsets() const { return offset_.data(); }
  const int64_t* all_implied() const { return implied_.data(); }
  // Once prepared: the bytes of a feature's postings, which are about as many; none, if it has too
  // few values to have postings.
  int64_t posting_bytes(int64_t feature) const {
    return posting_begin_[feature + 1] - posting_begin_[feature];
  }
  bool has_postings(int64_t feature) const { return posting_bytes(feature) > 0; }
  // Whether histograms would be as large as the table: then every feature has postings, and splits
  // are found from these alone.
  bool by_postings() const { return n_values_ < VALUES_PER_BIN * n_bins(); }
  // Where part p of n parts of the positions begins, each with about as many values.
  int64_t position_border(int64_t p, int64_t n) const;
  int64_t feature_at(uint32_t position) const {
    int64_t f = first_feature_[position >> shift_];
    while (offset_[f + 1] <= position) ++f;
    return f;
  }

  // The positions of each row.
  const RowLists& rows() const { return rows_; }

  // Calls visit(row, bin) for the values of a feature that are not in its implied bin, if it has
  // postings.
  template <class Visit>
  void for_each_row(int64_t feature, Visit&& visit) const {
    const uint8_t *at = postings_.get() + posting_begin_[feature],
                  *end = postings_.get() + posting_begin_[feature + 1];
    int64_t row = -1;
    if (by_postings()) {
      for (; at < end; at += WIDE_POSTING) {
        const int gap = at[0] | at[1] << 8;
        row += gap;
        if (gap != MORE) visit(row, at[2]);
      }
      return;
    }
    const int other = other_bin(feature);
    while (at < end) {
      int64_t gap = 0;
      for (int shift = 0;; shift += 7) {
        gap |= static_cast<int64_t>(*at & 127) << shift;
        if (*at++ < 128) break;
      }
      row += gap;
      visit(row, other >= 0 ? other : *at++);
    }
  }

 private:
  static constexpr int64_t VALUES_PER_BIN = 2;
  // Where splits are found from postings, a gap has two bytes and a bin follows: nothing to
  // foresee. This gap is added, and what follows, too: no row is there.
  static constexpr int MORE = 0xFFFF, WIDE_POSTING = 3;

  class Layer;  // lays the values of a table

  void index_features();
  void renumber(std::span<const int64_t> bin_offset, int n_threads);
  std::vector<int64_t> posting_borders(int64_t n_parts) const;
  template <class Visit>
  void for_each_posting(const std::vector<int64_t>& borders, int n_threads, Visit&& visit) const;
  void count_postings(const std::vector<int64_t>& borders, int n_threads);
  void write_postings(const std::vector<int64_t>& borders, int n_threads);
  void make_postings(int n_threads);
  int64_t bytes_of(int64_t feature, int64_t gap) const;
  uint8_t* write_posting(int64_t feature, int64_t gap, int bin, uint8_t* to) const;
  // The only bin beside the implied one, or -1 if there are more: then postings hold bins.
  int other_bin(int64_t feature) const;

  std::vector<int64_t> offset_, implied_, posting_begin_;
  std::vector<int32_t> features_;
  RowLists rows_;
  int64_t n_values_ = 0;
  // Of every 2^shift_ positions the feature that the first is of.
  std::vector<int32_t> first_feature_;
  int shift_ = 0;
  std::unique_ptr<uint8_t[]> postings_;
};

}  // namespace bitgrove
