// The leaf of each row of a finished tree, in numbers as narrow as they can be.
#pragma once

#include <stdexcept>

#include "bindings/numpy_arrays.h"

namespace bitgrove {

// leaf_of: per row the number of its leaf in one, two or four bytes; n_leaves for a row in none.
using LeafNumbers = nb::ndarray<nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class Visit>
void visit_leaves(const LeafNumbers& leaf_of, Visit&& visit) {
  void* data = leaf_of.data();
  switch (leaf_of.itemsize()) {
    case 1:
      return visit(static_cast<uint8_t*>(data));
    case 2:
      return visit(static_cast<uint16_t*>(data));
    case 4:
      return visit(static_cast<uint32_t*>(data));
    default:
      throw std::invalid_argument("bitgrove core: leaf numbers of unknown width");
  }
}

}  // namespace bitgrove
