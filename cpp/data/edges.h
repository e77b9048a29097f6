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

// The bins of n values, by a way to count the edges below one; says whether one is missing (NaN).
template <class Count>
BG_FN bool bins_by(const Count& count, const double* values, int64_t n, const Edges& edges,
                   uint8_t* bins) {
  bool any_missing = false;
  for (int64_t i = 0; i < n; ++i) {
    const bool is_missing = values[i] != values[i];
    any_missing |= is_missing;
    bins[i] = static_cast<uint8_t>(is_missing ? edges.missing_bin() : count(values[i]));
  }
  return any_missing;
}

#if defined(BG_X86)
// Two counts of sixteen instead of eight dependent steps: which group of edges, where in it. The
// last edge is +inf.
struct CountAvx2 {
  const Edges& edges;

  static BG_TARGET_AVX2 __m256i are_below(const double* four, __m256d value) {
    return _mm256_castpd_si256(_mm256_cmp_pd(_mm256_load_pd(four), value, _CMP_LT_OQ));
  }
  // Packed, comparisons have two bits for each edge.
  static BG_TARGET_AVX2 int of_group(const double* group, __m256d value) {
    const __m256i low = _mm256_packs_epi32(are_below(group, value), are_below(group + 4, value)),
                  high =
                      _mm256_packs_epi32(are_below(group + 8, value), are_below(group + 12, value));
    const int bits = _mm256_movemask_epi8(_mm256_packs_epi16(low, high));
    return std::popcount(static_cast<uint32_t>(bits)) / 2;
  }
  BG_TARGET_AVX2 int operator()(double x) const {
    const __m256d value = _mm256_set1_pd(x);
    const int group = of_group(edges.last_of_group, value);
    return EDGE_GROUPS * group + of_group(edges.values + EDGE_GROUPS * group, value);
  }
};

struct CountAvx512 {
  const Edges& edges;

  static BG_TARGET_AVX512 int of_group(const double* group, __m512d value) {
    const __mmask8 low = _mm512_cmp_pd_mask(_mm512_load_pd(group), value, _CMP_LT_OQ),
                   high = _mm512_cmp_pd_mask(_mm512_load_pd(group + 8), value, _CMP_LT_OQ);
    return std::popcount(low | static_cast<uint32_t>(high) << 8);
  }
  BG_TARGET_AVX512 int operator()(double x) const {
    const __m512d value = _mm512_set1_pd(x);
    const int group = of_group(edges.last_of_group, value);
    return EDGE_GROUPS * group + of_group(edges.values + EDGE_GROUPS * group, value);
  }
};

BG_TARGET_AVX2 inline bool find_bins_avx2(const double* values, int64_t n, const Edges& edges,
                                          uint8_t* bins) {
  return bins_by(CountAvx2{edges}, values, n, edges, bins);
}
BG_TARGET_AVX512 inline bool find_bins_avx512(const double* values, int64_t n, const Edges& edges,
                                              uint8_t* bins) {
  return bins_by(CountAvx512{edges}, values, n, edges, bins);
}
#endif

// Fills the bins of n values; says whether one of them is missing (NaN).
inline bool find_bins(const double* values, int64_t n, const Edges& edges, uint8_t* bins,
                      Simd simd) {
#if defined(BG_X86)
  if (simd == Simd::avx512) return find_bins_avx512(values, n, edges, bins);
  if (simd == Simd::avx2) return find_bins_avx2(values, n, edges, bins);
#else
  (void)simd;
#endif
  const auto count = [&edges](double x) { return count_below(edges.values, x); };
  return bins_by(count, values, n, edges, bins);
}

}  // namespace bitgrove
