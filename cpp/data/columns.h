// The columns of a table as Python hands them over: values (float32 or float64) or bins (uint8), at
// any stride.
#pragma once

#include <vector>

#include "bindings/rooms.h"

namespace bitgrove {

enum class ColumnType { FLOAT32, FLOAT64, BINS };

struct Column {
  const void* data;
  int64_t stride;  // in elements
  ColumnType type;

  template <class Real>
  const Real* at(int64_t row) const {
    return static_cast<const Real*>(data) + row * stride;
  }
};

inline std::vector<Column> columns_of(const nb::list& columns, int64_t n_rows) {
  std::vector<Column> result;
  for (nb::handle item : columns) {
    auto array = nb::cast<nb::ndarray<nb::ndim<1>, nb::device::cpu, nb::ro>>(item);
    require(static_cast<int64_t>(array.shape(0)) == n_rows, "columns differ in length");
    ColumnType type = ColumnType::FLOAT64;
    if (array.dtype() == nb::dtype<float>()) {
      type = ColumnType::FLOAT32;
    } else if (array.dtype() == nb::dtype<uint8_t>()) {
      type = ColumnType::BINS;
    } else {
      require(array.dtype() == nb::dtype<double>(), "a column is not float32, float64 or uint8");
    }
    result.push_back({array.data(), array.stride(0), type});
  }
  return result;
}

}  // namespace bitgrove
