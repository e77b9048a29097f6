// Powers of e of many numbers.
#pragma once

#include <cstdint>

#include "common/simd.h"

namespace bitgrove {

// x = exact_exp(x).
void exact_exps(double* x, int64_t n, Simd simd);

}  // namespace bitgrove
