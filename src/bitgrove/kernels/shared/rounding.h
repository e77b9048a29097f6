// Rounding noise as a pure function of (key, global row id), and the rounding itself.
#pragma once

#include "plans.h"

namespace bitgrove {

// The finaliser of splitmix64: every input bit reaches every output bit.
BG_FN uint64_t mix64(uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9ull;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

BG_FN uint64_t row_hash(uint64_t key, uint64_t row) {
  return mix64(key + row * 0x9E3779B97F4A7C15ull);
}

// One hash serves both halves: 31 bits of noise each (signed integers convert to float64 in one
// instruction everywhere). Noise of one half is rounding to the nearest: floor(x + 1/2).
constexpr uint64_t NEAREST_NOISE = 0x8000000080000000ull;
BG_FN int32_t grad_noise(uint64_t hash) { return static_cast<int32_t>(hash >> 33); }
BG_FN int32_t hess_noise(uint64_t hash) {
  return static_cast<int32_t>(static_cast<uint32_t>(hash) >> 1);
}

// Rounds x down or up so that the mean over the noise is x; `noise` is a 31-bit fraction of one.
BG_FN double round_with_noise(double x, int32_t noise) {
  const double shifted = x + static_cast<double>(noise) * (1.0 / 2147483648.0);
  // floor by truncation: exact for |shifted| < 2^31, which quantize.py guarantees.
  const double truncated = static_cast<double>(static_cast<int32_t>(shifted));
  return truncated > shifted ? truncated - 1.0 : truncated;
}

// The square of what rounding changed, as an integer; at most one, also where a limit cut more off.
BG_FN int32_t squared_error(double rounded, double x) {
  const double error = rounded - x, square = error * error;
  return static_cast<int32_t>((square < 1.0 ? square : 1.0) * SQUARED_ERROR_UNITS);
}

BG_FN double clamp(double x, double limit) {
  x = x > limit ? limit : x;
  return x < -limit ? -limit : x;
}

}  // namespace bitgrove
