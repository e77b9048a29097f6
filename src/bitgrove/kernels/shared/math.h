// exp, log and sigmoid from additions and multiplications alone, each rounded on its own.
//
// No libm and no fma: the same bits from g++, from NVRTC and from the NumPy reference
// (exact_math.py), which has no fma. Errors are within about 1 ulp.
#pragma once

#include "layouts.h"

#if !defined(__CUDACC_RTC__)
#include <cmath>
#include <cstring>
#endif

namespace bitgrove {

BG_FN double double_of_bits(int64_t bits) {
#if defined(__CUDACC_RTC__)
  return __longlong_as_double(bits);
#else
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
#endif
}

BG_FN int64_t bits_of_double(double value) {
#if defined(__CUDACC_RTC__)
  return __double_as_longlong(value);
#else
  int64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
#endif
}

// Adding and subtracting 1.5 * 2^52 rounds to the nearest integer, ties to even.
constexpr double ROUNDING_SHIFT = 6755399441055744.0;
constexpr double LOG2_E = 1.4426950408889634;
constexpr double LN2_HIGH = 6.93147180369123816490e-01;
constexpr double LN2_LOW = 1.90821492927058770002e-10;
constexpr double SQRT_2 = 1.4142135623730951;

// exp in steps, which loops over many numbers take one by one: x is k times log(2) and a rest; the
// polynomial of the rest, in two halves; times 2^k. The low mantissa bits of `shifted` are k
// itself.
BG_FN double exp_rest(double x, double& shifted) {
  x = x < -708.0 ? -708.0 : x;
  x = x > 709.0 ? 709.0 : x;
  shifted = x * LOG2_E + ROUNDING_SHIFT;
  const double k = shifted - ROUNDING_SHIFT;
  return (x - k * LN2_HIGH) - k * LN2_LOW;
}

BG_FN double exp_high_terms(double r) {
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  return p * r + 1.0 / 5040.0;
}

BG_FN double exp_low_terms(double p, double r) {
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  return p * r + 1.0;
}

BG_FN double exp_scaled(double p, double shifted) {
  const int64_t exponent = bits_of_double(shifted) - bits_of_double(ROUNDING_SHIFT) + 1023;
  return p * double_of_bits(static_cast<int64_t>(static_cast<uint64_t>(exponent) << 52));
}

BG_FN double exact_exp(double x) {
  double shifted = 0.0;
  const double r = exp_rest(x, shifted);
  return exp_scaled(exp_low_terms(exp_high_terms(r), r), shifted);
}

// Natural logarithm of a positive, normal number.
BG_FN double exact_log(double x) {
  const int64_t bits = bits_of_double(x);
  double exponent = static_cast<double>((bits >> 52) - 1023);
  double m = double_of_bits((bits & 0x000FFFFFFFFFFFFFll) | 0x3FF0000000000000ll);
  const bool large = m > SQRT_2;
  m = large ? m * 0.5 : m;
  exponent = large ? exponent + 1.0 : exponent;
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 1.0 / 23.0;
  p = p * z + 1.0 / 21.0;
  p = p * z + 1.0 / 19.0;
  p = p * z + 1.0 / 17.0;
  p = p * z + 1.0 / 15.0;
  p = p * z + 1.0 / 13.0;
  p = p * z + 1.0 / 11.0;
  p = p * z + 1.0 / 9.0;
  p = p * z + 1.0 / 7.0;
  p = p * z + 1.0 / 5.0;
  p = p * z + 1.0 / 3.0;
  p = p * z + 1.0;
  return exponent * LN2_HIGH + ((2.0 * s) * p + exponent * LN2_LOW);
}

// Square roots are rounded correctly everywhere.
BG_FN double square_root(double x) {
#if defined(__CUDACC_RTC__)
  return __dsqrt_rn(x);
#else
  return std::sqrt(x);
#endif
}

BG_FN double exact_sigmoid(double x) { return 1.0 / (1.0 + exact_exp(-x)); }

// Gradients are float32; denormals become zero because GPUs flush them.
BG_FN float to_gradient(double x) {
  const float value = static_cast<float>(x);
  return ((value < 1.17549435e-38f) & (value > -1.17549435e-38f)) ? 0.0f : value;
}

// A residual as float32, in bits whose unsigned order is its own; -0 is 0.
BG_FN uint32_t ordered_key(double residual) {
  const float value = to_gradient(residual) + 0.0f;
#if defined(__CUDACC_RTC__)
  const uint32_t bits = __float_as_uint(value);
#else
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
#endif
  return bits ^ (bits >> 31 ? 0xFFFFFFFFu : 0x80000000u);
}

}  // namespace bitgrove
