// From a half-width known at run time to the layout type known at compile time.
#pragma once

#include <stdexcept>

#include "layouts.h"

namespace bitgrove {

template <class Visit>
void visit_width(int half_bits, bool packed, Visit&& visit) {
  switch (half_bits) {
    case 8: return packed ? visit(Packed<8>{}) : visit(Unpacked<8>{});
    case 16: return packed ? visit(Packed<16>{}) : visit(Unpacked<16>{});
    case 32: return packed ? visit(Packed<32>{}) : visit(Unpacked<32>{});
    case 64: return visit(Packed<64>{});
    default: throw std::invalid_argument("bitgrove core: width must be 8, 16, 32 or 64");
  }
}

}  // namespace bitgrove
