// Estimates of gains in float32, with a proven error: they tell which cuts of a feature can be its
// best, so that few gains are computed in float64.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/simd.h"
#include "tree/scan.h"

namespace bitgrove {

// Twice the gain without the parent's part, in units of grad_scale^2 / hess_scale and in float32:
// positive terms only, so that sixteen roundings of 2^-24 bound the relative error.
constexpr double ESTIMATE_ERROR = 0x1p-18;
constexpr int ESTIMATE_LANES = 16;

struct Estimates {
  int first, last;  // estimated bins: whole groups of lanes that hold an allowed cut
  float top;
};

// Sums of a node fit; lanes after its last bin hold anything, and are not looked at.
BG_FN int32_t wrapped_sum(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}
BG_FN int32_t wrapped_difference(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) - static_cast<uint32_t>(b));
}

// By halves, whose lengths the compiler knows: they stay in registers.
template <int N>
BG_FN float largest_of(float* values) {
  if constexpr (N == 1) {
    return values[0];
  } else {
    for (int i = 0; i < N / 2; ++i)
      values[i] = values[i + N / 2] > values[i] ? values[i + N / 2] : values[i];
    return largest_of<N / 2>(values);
  }
}

template <class Sums>
BG_FN Estimates estimate_gains(Sums& prefix, int n_bins, int32_t add_grad, int32_t add_hess,
                               const SearchedNode& node) {
  const auto grad = static_cast<int32_t>(node.grad), hess = static_cast<int32_t>(node.hess);
  const int32_t least = node.least_hess - add_hess, most = hess - node.least_hess - add_hess;
  const float lambda = node.lambda;
  float top[ESTIMATE_LANES];
  for (int lane = 0; lane < ESTIMATE_LANES; ++lane) top[lane] = -1.0f;
  int b = 0;
  while (b < n_bins && prefix.hess_at(std::min(b + ESTIMATE_LANES, n_bins) - 1) < least)
    b += ESTIMATE_LANES;
  const int first = b;
  for (; b < n_bins && prefix.hess_at(b) <= most; b += ESTIMATE_LANES)
    for (int lane = 0; lane < ESTIMATE_LANES; ++lane) {
      const int32_t sum = prefix.hess_at(b + lane);
      const int32_t left_grad = wrapped_sum(prefix.grad_at(b + lane), add_grad),
                    left_hess = wrapped_sum(sum, add_hess);
      const float gl = static_cast<float>(left_grad), hl = static_cast<float>(left_hess) + lambda;
      const float gr = static_cast<float>(wrapped_difference(grad, left_grad)),
                  hr = static_cast<float>(wrapped_difference(hess, left_hess)) + lambda;
      const bool allowed = (sum >= least) & (sum <= most) & (b + lane < n_bins);
      const float estimate = ((gl * gl) * hr + (gr * gr) * hl) / (hl * hr);
      prefix.gain[b + lane] = allowed ? estimate : -1.0f;
      top[lane] = prefix.gain[b + lane] > top[lane] ? prefix.gain[b + lane] : top[lane];
    }
  return {first, b, largest_of<ESTIMATE_LANES>(top)};
}

#if defined(BG_X86)

// As above, sixteen cuts per instruction, among which the least hessian leaves out those of a
// feature's last bin and behind it.
BG_TARGET_AVX512 inline Estimates estimate_gains(WidePrefix& prefix, int n_bins, int32_t add_grad,
                                                 int32_t add_hess, const SearchedNode& node) {
  const auto node_hess = static_cast<int32_t>(node.hess);
  const __m512i add = _mm512_set1_epi32(Packed<16>::pack(add_grad, add_hess));
  const __m512i lower_half = _mm512_set1_epi32(0xFFFF);
  const __m512i least = _mm512_set1_epi32(node.least_hess),
                above_least = _mm512_set1_epi32(node_hess - 2 * node.least_hess);
  // Sums of 16 bits, and what is left of the node's, are exact in float32.
  const __m512 grad = _mm512_set1_ps(static_cast<float>(node.grad)),
               hess = _mm512_set1_ps(static_cast<float>(node_hess)),
               lambda = _mm512_set1_ps(node.lambda), none = _mm512_set1_ps(-1.0f);
  __m512 top = none;
  for (int b = 0; b < n_bins; b += ESTIMATE_LANES) {
    const __m512i left = _mm512_add_epi32(_mm512_load_si512(prefix.sums + b), add);
    const __m512i left_hess = _mm512_and_si512(left, lower_half);
    const __m512 gl = _mm512_cvtepi32_ps(_mm512_srai_epi32(left, 16)),
                 hess_left = _mm512_cvtepi32_ps(left_hess);
    const __m512 gr = _mm512_sub_ps(grad, gl), hl = _mm512_add_ps(hess_left, lambda),
                 hr = _mm512_add_ps(_mm512_sub_ps(hess, hess_left), lambda);
    const __m512 both = _mm512_add_ps(_mm512_mul_ps(_mm512_mul_ps(gl, gl), hr),
                                      _mm512_mul_ps(_mm512_mul_ps(gr, gr), hl));
    const __mmask16 allowed =
        _mm512_cmple_epu32_mask(_mm512_sub_epi32(left_hess, least), above_least);
    const __m512 gain = _mm512_mask_div_ps(none, allowed, both, _mm512_mul_ps(hl, hr));
    _mm512_store_ps(prefix.gain + b, gain);
    top = _mm512_max_ps(top, gain);
  }
  return {0, n_bins, _mm512_reduce_max_ps(top)};
}

#endif

}  // namespace bitgrove
