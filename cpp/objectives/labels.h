// Labels of rows in the narrowest type that holds them: one byte, float or double.
#pragma once

#include <cstdint>

#include "bindings/rooms.h"

namespace bitgrove {

using LabelArray = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

class Labels {
 public:
  explicit Labels(const LabelArray& array) : n_rows_(static_cast<int64_t>(array.shape(0))) {
    if (array.dtype() == nb::dtype<uint8_t>())
      bytes_ = static_cast<const uint8_t*>(array.data());
    else if (array.dtype() == nb::dtype<float>())
      floats_ = static_cast<const float*>(array.data());
    else if (array.dtype() == nb::dtype<double>())
      doubles_ = static_cast<const double*>(array.data());
    else
      throw std::invalid_argument("bitgrove core: labels of an unknown type");
  }

  int64_t n_rows() const { return n_rows_; }

  // Those of n rows: where they lie, or written to `room`.
  const double* read(int64_t first, int64_t n, double* room, Simd simd) const {
    if (doubles_) return doubles_ + first;
    if (bytes_)
      widen(bytes_ + first, n, room, simd);
    else
      widen(floats_ + first, n, room, simd);
    return room;
  }

 private:
  template <class Narrow>
  static void widen(const Narrow* from, int64_t n, double* to, Simd simd) {
    with_simd(simd, [=] {
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<double>(from[i]);
    });
  }

  int64_t n_rows_;
  const uint8_t* bytes_ = nullptr;
  const float* floats_ = nullptr;
  const double* doubles_ = nullptr;
};

}  // namespace bitgrove
