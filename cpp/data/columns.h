// The columns of a table as Python hands them over: each float32 or float64, at any stride.
#pragma once

#include <vector>

#include "bindings/rooms.h"

namespace bitgrove {

struct Column {
  const void* data;
  int64_t stride;  // in elements
  bool is_double;

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
    const bool is_double = array.dtype() == nb::dtype<double>();
    require(is_double || array.dtype() == nb::dtype<float>(),
            "a column is neither float32 nor float64");
    result.push_back({array.data(), array.stride(0), is_double});
  }
  return result;
}

}  // namespace bitgrove
