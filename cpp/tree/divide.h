// A run of ascending rows, divided by a split into those that go left and those that go right.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "common/compiler.h"
#include "common/simd.h"
#include "plans.h"
#include "tiles.h"

namespace bitgrove {

// Bytes of a column that are looked at together.
constexpr int64_t WINDOW = 128;

struct Split {
  const uint8_t* column;
  uint8_t bin, missing_bin;
  bool default_left;
  const BinSet* left_bins;  // null: by the bin
  int64_t last_window;      // the last row of which WINDOW bytes from its bin on are in the column
};

// Where divided rows go. `left` may be the place they are read from, or before it.
struct Halves {
  int32_t *left, *right;
};

// Vector stores may write past the kept rows, but never past the rows already read.
inline int64_t divide_scalar(const Split& s, const int32_t* rows, int64_t from, int64_t n,
                             int64_t n_left, Halves out) {
  int64_t n_right = from - n_left;
  for (int64_t i = from; i < n; ++i) {
    const int32_t row = rows[i];
    const bool left = goes_left(s.column[row], s.bin, s.missing_bin, s.default_left);
    out.left[n_left] = row;
    out.right[n_right] = row;
    n_left += left;
    n_right += !left;
  }
  return n_left;
}

inline int64_t divide_by_set(const Split& s, const int32_t* rows, int64_t n, Halves out) {
  const BinSet set = *s.left_bins;
  int64_t n_left = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int32_t row = rows[i];
    const bool left = set.holds(s.column[row]);
    out.left[n_left] = row;
    out.right[i - n_left] = row;
    n_left += left;
  }
  return n_left;
}

#if defined(BG_X86)

// For each 8-bit mask, the lanes that are kept, in order, first: a byte for each.
inline constexpr auto COMPRESS = [] {
  std::array<uint64_t, 256> table{};
  for (uint64_t mask = 0; mask < 256; ++mask)
    for (uint64_t lane = 0, kept = 0; lane < 8; ++lane)
      if (mask >> lane & 1) table[mask] |= lane << 8 * kept++;
  return table;
}();

BG_TARGET_AVX2 inline __m256i lanes(int mask) {
  return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(COMPRESS[mask])));
}

BG_TARGET_AVX2 inline bool are_side_by_side(const int32_t* rows) {
  const auto* given = reinterpret_cast<const __m256i*>(rows);
  const __m256i first = _mm256_add_epi32(_mm256_set1_epi32(rows[0]), lanes(0xFF));
  const __m256i second = _mm256_add_epi32(first, _mm256_set1_epi32(8));
  const __m256i equal = _mm256_and_si256(_mm256_cmpeq_epi32(_mm256_loadu_si256(given), first),
                                         _mm256_cmpeq_epi32(_mm256_loadu_si256(given + 1), second));
  return _mm256_movemask_epi8(equal) == -1;
}

// How a node's rows lie, which decides how their bins are loaded: maybe side by side; or 16 of them
// mostly within a window; or near each other; or so far apart that each is a cache line of its own,
// which is asked for early.
enum class Spread { dense, close, near, far };
constexpr int64_t CLOSE = 8, FAR_APART = 32, PREFETCH_ROWS = 128;

inline Spread spread_of(const int32_t* rows, int64_t n) {
  const int64_t span = n > 0 ? rows[n - 1] - rows[0] : 0;
  return span == n - 1           ? Spread::dense
         : span <= CLOSE * n     ? Spread::close
         : span <= FAR_APART * n ? Spread::near
                                 : Spread::far;
}

// The bins of 16 rows. One by one: gathers take longer than their loads.
BG_TARGET_AVX2 inline __m128i bins_of(const uint8_t* column, const int32_t* r, Spread spread) {
  if (spread == Spread::dense && are_side_by_side(r))
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(column + r[0]));
  const auto bin = [=](int i) { return static_cast<char>(column[r[i]]); };
  return _mm_setr_epi8(bin(0), bin(1), bin(2), bin(3), bin(4), bin(5), bin(6), bin(7), bin(8),
                       bin(9), bin(10), bin(11), bin(12), bin(13), bin(14), bin(15));
}

inline void prefetch_bins(const uint8_t* column, const int32_t* rows, int64_t i, int64_t n) {
  if (i + PREFETCH_ROWS + 16 <= n)
    for (int k = 0; k < 16; ++k) prefetch(column + rows[i + PREFETCH_ROWS + k]);
}

// Whether the rows are within a window from the first one on; also of rows that do not ascend.
BG_TARGET_AVX512 inline bool are_in_window(__m512i row, int32_t first, int64_t last_window) {
  const __m512i after = _mm512_sub_epi32(row, _mm512_set1_epi32(first));
  return first <= last_window &&
         _mm512_cmplt_epu32_mask(after, _mm512_set1_epi32(WINDOW)) == 0xFFFF;
}

// The bins of 16 rows within a window of the column that two vectors hold.
BG_TARGET_AVX512 inline __m128i bins_in_window(const uint8_t* window, __m512i row, int32_t first) {
  const auto at = reinterpret_cast<SixteenWords>(row) - static_cast<uint32_t>(first);
  const auto words = reinterpret_cast<SixteenWords>(
      _mm512_permutex2var_epi32(_mm512_loadu_si512(window), reinterpret_cast<__m512i>(at >> 2),
                                _mm512_loadu_si512(window + WINDOW / 2)));
  const auto bins = reinterpret_cast<__m512i>(words >> ((at & 3) << 3));
  return _mm512_maskz_cvtepi32_epi8(0xFFFF, bins);
}

BG_TARGET_AVX512 inline int64_t divide_avx512(const Split& s, const int32_t* rows, int64_t n,
                                              Halves out) {
  const Spread spread = spread_of(rows, n);
  const uint8_t* const column = s.column;
  const __m128i bin = _mm_set1_epi8(static_cast<char>(s.bin));
  const __m128i missing = _mm_set1_epi8(static_cast<char>(s.missing_bin));
  const __mmask16 keep_missing = s.default_left ? 0xFFFF : 0;
  int64_t i = 0, n_left = 0;
  for (; i + 16 <= n; i += 16) {
    if (spread == Spread::far) prefetch_bins(column, rows, i, n);
    const __m512i row = _mm512_loadu_si512(rows + i);
    const __m128i value = spread == Spread::close && are_in_window(row, rows[i], s.last_window)
                              ? bins_in_window(column + rows[i], row, rows[i])
                              : bins_of(column, rows + i, spread);
    const __mmask16 left =
        _mm_cmple_epu8_mask(value, bin) | (_mm_cmpeq_epi8_mask(value, missing) & keep_missing);
    const __mmask16 right = static_cast<__mmask16>(~left);
    _mm512_storeu_si512(out.left + n_left, _mm512_maskz_compress_epi32(left, row));
    _mm512_storeu_si512(out.right + (i - n_left), _mm512_maskz_compress_epi32(right, row));
    n_left += std::popcount(static_cast<uint32_t>(left));
  }
  return divide_scalar(s, rows, i, n, n_left, out);
}

BG_TARGET_AVX2 inline int64_t divide_avx2(const Split& s, const int32_t* rows, int64_t n,
                                          Halves out) {
  const Spread spread = spread_of(rows, n);
  const uint8_t* const column = s.column;
  const __m128i bin = _mm_set1_epi8(static_cast<char>(s.bin));
  const __m128i missing = _mm_set1_epi8(static_cast<char>(s.missing_bin));
  const __m128i keep_missing = _mm_set1_epi8(s.default_left ? -1 : 0);
  int64_t i = 0, n_left = 0;
  for (; i + 16 <= n; i += 16) {
    if (spread == Spread::far) prefetch_bins(column, rows, i, n);
    const __m128i value = bins_of(column, rows + i, spread);
    const __m128i below = _mm_cmpeq_epi8(_mm_min_epu8(value, bin), value);
    const __m128i kept = _mm_and_si128(_mm_cmpeq_epi8(value, missing), keep_missing);
    const int both = _mm_movemask_epi8(_mm_or_si128(below, kept));
    for (int half = 0; half < 16; half += 8) {
      const int left = both >> half & 0xFF, right = left ^ 0xFF;
      const __m256i row = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows + i + half));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.left + n_left),
                          _mm256_permutevar8x32_epi32(row, lanes(left)));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.right + (i + half - n_left)),
                          _mm256_permutevar8x32_epi32(row, lanes(right)));
      n_left += std::popcount(static_cast<uint32_t>(left));
    }
  }
  return divide_scalar(s, rows, i, n, n_left, out);
}

#endif

inline int64_t divide(const Split& s, const int32_t* rows, int64_t n, Simd simd, Halves out) {
  if (s.left_bins) return divide_by_set(s, rows, n, out);
#if defined(BG_X86)
  if (simd == Simd::avx512) return divide_avx512(s, rows, n, out);
  if (simd == Simd::avx2) return divide_avx2(s, rows, n, out);
#else
  (void)simd;
#endif
  return divide_scalar(s, rows, 0, n, 0, out);
}

}  // namespace bitgrove
