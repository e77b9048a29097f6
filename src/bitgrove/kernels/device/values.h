// Feature values as the kernels compare them: in double, without any loss.
#pragma once

#include "layouts.h"

namespace bitgrove {

// Exactly x: a plain conversion would flush float32 denormals (CuPy compiles with -ftz=true).
BG_FN double widen(float x) {
  const int32_t bits = __float_as_int(x);
  if ((bits & 0x7F800000) != 0) return static_cast<double>(x);
  const double magnitude =
      static_cast<double>(bits & 0x007FFFFF) * 1.401298464324817e-45;  // 2^-149
  return bits < 0 ? -magnitude : magnitude;
}
BG_FN double widen(double x) { return x; }

}  // namespace bitgrove
