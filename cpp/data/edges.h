// The edges of one feature and the search among them: bin = number of edges below the value.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "common/simd.h"
#include "tiles.h"

namespace bitgrove {

constexpr int EDGE_GROUPS = 16;
constexpr int MAX_EDGES =
    BINS_PER_FEATURE - 2;  // one more value bin than edges, and the missing bin

// Padded with +inf to 256, so that the search needs no bounds.
struct Edges {
  alignas(64) double values[BINS_PER_FEATURE];
  alignas(64) double last_of_group[EDGE_GROUPS];
  int n_edges;

  Edges(const double* increasing, int64_t n) : n_edges(static_cast<int>(n)) {
    std::fill_n(values, BINS_PER_FEATURE, std::numeric_limits<double>::infinity());
    std::copy_n(increasing, n, values);
    for (int g = 0; g < EDGE_GROUPS; ++g)
      last_of_group[g] = values[EDGE_GROUPS * g + EDGE_GROUPS - 1];
  }
  int missing_bin() const { return n_edges + 1; }
};

#if defined(BG_X86)
BG_TARGET_AVX512 inline uint32_t are_below(const double* edges, __m512d value) {
  const __mmask8 low = _mm512_cmp_pd_mask(_mm512_load_pd(edges), value, _CMP_LT_OQ),
                 high = _mm512_cmp_pd_mask(_mm512_load_pd(edges + 8), value, _CMP_LT_OQ);
  return low | static_cast<uint32_t>(high) << 8;
}

// Two counts of sixteen instead of eight dependent steps: which group of edges, where in it.
BG_TARGET_AVX512 inline int count_below_avx512(const Edges& edges, double x) {
  const __m512d value = _mm512_set1_pd(x);
  const int group = std::popcount(are_below(edges.last_of_group, value));
  // The last edge is +inf.
  return EDGE_GROUPS * group + std::popcount(are_below(edges.values + EDGE_GROUPS * group, value));
}

BG_TARGET_AVX512 inline bool find_bins_avx512(const double* values, int64_t n, const Edges& edges,
                                              uint8_t* bins) {
  bool any_missing = false;
  for (int64_t i = 0; i < n; ++i) {
    const bool is_missing = values[i] != values[i];
    any_missing |= is_missing;
    bins[i] = static_cast<uint8_t>(is_missing ? edges.missing_bin()
                                              : count_below_avx512(edges, values[i]));
  }
  return any_missing;
}
#endif

// Fills the bins of n values; says whether one of them is missing (NaN).
inline bool find_bins(const double* values, int64_t n, const Edges& edges, uint8_t* bins,
                      Simd simd) {
#if defined(BG_X86)
  if (simd == Simd::avx512) return find_bins_avx512(values, n, edges, bins);
#else
  (void)simd;
#endif
  bool any_missing = false;
  for (int64_t i = 0; i < n; ++i) {
    const bool is_missing = values[i] != values[i];
    any_missing |= is_missing;
    bins[i] = static_cast<uint8_t>(is_missing ? edges.missing_bin()
                                              : count_below(edges.values, values[i]));
  }
  return any_missing;
}

}  // namespace bitgrove
