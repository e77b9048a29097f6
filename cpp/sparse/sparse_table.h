// A sparse table as Python hands it over: its stored values row by row (CSR) or column by column
// (CSC). What is not stored is zero.
#pragma once

#include <cstdint>

#include "bindings/rooms.h"

namespace bitgrove {

class SparseTable {
 public:
  using Array = GivenArray<nb::ndim<1>, nb::ro>;

  // List i, a row or a column, has the values [pointers[i], pointers[i + 1]); indices says in which
  // column or row each of them is.
  SparseTable(Array pointers, Array indices, Array values, int64_t n_rows, int64_t n_columns,
              bool by_rows);

  // The arrays are the user's: they are looked at again before every pass over them, or only the
  // pointers, where indices are compared with what is looked for.
  void check(int n_threads) const;
  void check_pointers() const;

  int64_t n_rows() const { return n_rows_; }
  int64_t n_columns() const { return n_columns_; }
  bool by_rows() const { return by_rows_; }
  int64_t n_lists() const { return by_rows_ ? n_rows_ : n_columns_; }
  int64_t n_values() const { return static_cast<int64_t>(values_.shape(0)); }
  int64_t begin(int64_t list) const { return integer(pointers_, wide_pointers_, list); }
  int64_t end(int64_t list) const { return begin(list + 1); }
  int64_t index(int64_t k) const { return integer(indices_, wide_indices_, k); }
  // The first value of a list whose index is not below the given one.
  int64_t first_from(int64_t list, int64_t least) const {
    int64_t low = begin(list), high = end(list);
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (index(middle) < least)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
  double value(int64_t k) const {
    return doubles_ ? static_cast<const double*>(values_.data())[k]
                    : static_cast<double>(static_cast<const float*>(values_.data())[k]);
  }

 private:
  static int64_t integer(const Array& array, bool wide, int64_t i) {
    return wide ? static_cast<const int64_t*>(array.data())[i]
                : static_cast<const int32_t*>(array.data())[i];
  }

  Array pointers_, indices_, values_;
  int64_t n_rows_, n_columns_;
  bool by_rows_, wide_pointers_, wide_indices_, doubles_;
};

}  // namespace bitgrove
