// A vector handed to Python as a NumPy array, without copying.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bindings/rooms.h"

namespace bitgrove {

template <class T>
nb::ndarray<nb::numpy, T> to_numpy(std::vector<T>&& values, std::initializer_list<size_t> shape) {
  auto* kept = new std::vector<T>(std::move(values));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::ndarray<nb::numpy, T>(kept->data(), shape, owner);
}

// Flags of some nodes' features, row after row; none: not given.
inline std::span<const uint8_t> flags_of(const std::optional<Matrix<const uint8_t>>& rows) {
  return rows ? std::span(rows->data(), rows->size()) : std::span<const uint8_t>();
}

}  // namespace bitgrove
