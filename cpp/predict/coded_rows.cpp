// See coded_rows.h. Only for processors with AVX2 or AVX-512: on others, trees are walked.
#include "predict/coded_rows.h"

#include <algorithm>
#include <bit>

namespace bitgrove {
namespace {

#if defined(BG_X86)

BG_TARGET_AVX512 void compare_avx512(const CodedSplit* splits, int n_splits,
                                     const CodeColumn* columns, RowSet* above) {
  for (int s = 0; s < n_splits; ++s) {
    const __m512i code = _mm512_set1_epi32(static_cast<int>(splits[s].code));
    const uint8_t* codes = columns[splits[s].column].codes;
    for (int w = 0; w < CODED_ROWS / 64; ++w)
      above[s].words[w] =
          _cvtmask64_u64(_mm512_cmpgt_epu8_mask(_mm512_load_si512(codes + 64 * w), code));
  }
}

// Above is "at least the next code": bytes have no unsigned greater-than here.
BG_TARGET_AVX2 void compare_avx2(const CodedSplit* splits, int n_splits, const CodeColumn* columns,
                                 RowSet* above) {
  for (int s = 0; s < n_splits; ++s) {
    const __m256i next = _mm256_set1_epi32(static_cast<int>(splits[s].code + 0x01010101u));
    const auto* codes = reinterpret_cast<const __m256i*>(columns[splits[s].column].codes);
    for (int w = 0; w < CODED_ROWS / 64; ++w) {
      const __m256i low = _mm256_load_si256(codes + 2 * w),
                    high = _mm256_load_si256(codes + 2 * w + 1);
      const int low_bits = _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_max_epu8(low, next), low));
      const int high_bits =
          _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_max_epu8(high, next), high));
      above[s].words[w] = static_cast<uint32_t>(low_bits) |
                          static_cast<uint64_t>(static_cast<uint32_t>(high_bits)) << 32;
    }
  }
}

// Of each split by a subset the rows whose code is not in its set: 32 codes find their byte of the
// set's 32, in two halves, and in it their bit.
BG_TARGET_AVX2 void compare_subsets(std::span<const CodedSubset> subsets, const CodeColumn* columns,
                                    RowSet* above) {
  const __m256i bit_of = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201u));
  for (const CodedSubset& subset : subsets) {
    const auto* halves = reinterpret_cast<const __m128i*>(subset.set.words);
    const __m256i low = _mm256_broadcastsi128_si256(_mm_loadu_si128(halves)),
                  high = _mm256_broadcastsi128_si256(_mm_loadu_si128(halves + 1));
    const auto* codes = reinterpret_cast<const __m256i*>(columns[subset.column].codes);
    for (int part = 0; part < CODED_ROWS / 32; ++part) {
      const __m256i code = _mm256_load_si256(codes + part);
      const __m256i at = _mm256_and_si256(_mm256_srli_epi16(code, 3), _mm256_set1_epi8(31));
      const __m256i byte =
          _mm256_blendv_epi8(_mm256_shuffle_epi8(low, at), _mm256_shuffle_epi8(high, at),
                             _mm256_cmpgt_epi8(at, _mm256_set1_epi8(15)));
      const __m256i bit = _mm256_shuffle_epi8(bit_of, _mm256_and_si256(code, _mm256_set1_epi8(7)));
      const __m256i outside =
          _mm256_cmpeq_epi8(_mm256_and_si256(byte, bit), _mm256_setzero_si256());
      const auto rows = static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_epi8(outside)));
      uint64_t word = above[subset.split].words[part / 2];
      word = part % 2 ? (word & 0xFFFFFFFFu) | rows << 32 : rows;
      above[subset.split].words[part / 2] = word;
    }
  }
}

template <bool AnyMissing>
BG_TARGET_AVX2 void hand_down(const CodedSplit* splits, int n_splits, const RowSet* above,
                              const RowSet* missing, RowSet* sets) {
  sets[0].words = ~RowSet{}.words;
  for (int s = 0; s < n_splits; ++s) {
    const CodedSplit& split = splits[s];
    RowSet right = above[s];
    if constexpr (AnyMissing) right.words &= ~missing[2 * split.column + split.default_left].words;
    sets[split.left].words = sets[s].words & ~right.words;
    sets[split.right].words = sets[s].words & right.words;
  }
}

// 256 leaves at a time: their numbers within the 256 fit into a byte for each row.
BG_TARGET_AVX512 void number_avx512(const RowSet* leaves, int n_leaves, uint16_t* out) {
  constexpr int WORDS = CODED_ROWS / 64;
  const __m512i one = _mm512_set1_epi8(1);
  for (int first = 0; first < n_leaves; first += 256) {
    const int last = first + 256 < n_leaves ? first + 256 : n_leaves;
    __m512i number = _mm512_setzero_si512(), found[WORDS];
    RowSet reached{};
    for (__m512i& numbers : found) numbers = _mm512_setzero_si512();
    for (int leaf = first; leaf < last; ++leaf) {
      for (int w = 0; w < WORDS; ++w)
        found[w] = _mm512_mask_mov_epi8(found[w], _cvtu64_mask64(leaves[leaf].words[w]), number);
      reached.words |= leaves[leaf].words;
      number = _mm512_add_epi8(number, one);
    }
    const __m512i base = _mm512_set1_epi16(static_cast<short>(first));
    alignas(64) uint8_t bytes[CODED_ROWS];
    for (int w = 0; w < WORDS; ++w) _mm512_store_si512(bytes + 64 * w, found[w]);
    for (int half = 0; half < 2 * WORDS; ++half) {
      const auto rows = static_cast<__mmask32>(reached.words[half / 2] >> 32 * (half % 2));
      const auto* half_bytes = reinterpret_cast<const __m256i*>(bytes) + half;
      const __m512i numbers = _mm512_maskz_cvtepu8_epi16(rows, _mm256_load_si256(half_bytes));
      _mm512_mask_storeu_epi16(out + 32 * half, rows, _mm512_add_epi16(numbers, base));
    }
  }
}

void number_rows(const RowSet* leaves, int n_leaves, uint16_t* out) {
  for (int leaf = 0; leaf < n_leaves; ++leaf)
    for (int w = 0; w < CODED_ROWS / 64; ++w)
      for (uint64_t rows = leaves[leaf].words[w]; rows; rows &= rows - 1)
        out[64 * w + std::countr_zero(rows)] = static_cast<uint16_t>(leaf);
}

#endif

}  // namespace

CodedRows::CodedRows(const CodedForest& forest, Simd simd)
    : forest_(forest),
      simd_(simd),
      columns_(forest.features.size()),
      missing_(2 * forest.features.size()),
      above_(forest.most_leaves),
      sets_(2 * forest.most_leaves) {}

void CodedRows::code(size_t column, const std::array<double, CODED_ROWS>& values) {
  missing_[2 * column + 1] = RowSet{};
  if (!find_bins(values.data(), CODED_ROWS, forest_.edges[column], columns_[column].codes, simd_))
    return;
  for (int i = 0; i < CODED_ROWS; ++i)
    if (values[i] != values[i]) mark_missing(column, i);
}

void CodedRows::mark_missing(size_t column, int64_t row) {
  any_missing_ = true;
  missing_[2 * column + 1].words[row / 64] |= uint64_t{1} << row % 64;
}

void CodedRows::read(const SparseTable& table, const std::vector<int32_t>& column_of, int64_t first,
                     int64_t n) {
  any_missing_ = false;
  for (size_t column = 0; column < columns_.size(); ++column) {
    const int zero = count_below(forest_.edges[column].values, 0.0);
    std::fill_n(columns_[column].codes, CODED_ROWS, static_cast<uint8_t>(zero));
    missing_[2 * column + 1] = RowSet{};
  }
  for (int64_t row = 0; row < n; ++row)
    for (int64_t k = table.begin(first + row), end = table.end(first + row); k < end; ++k) {
      const int32_t column = column_of[table.index(k)];
      if (column < 0) continue;
      const Edges& edges = forest_.edges[column];
      const double x = table.value(k);
      if (x != x) mark_missing(column, row);
      columns_[column].codes[row] =
          static_cast<uint8_t>(x != x ? edges.missing_bin() : count_below(edges.values, x));
    }
}

const std::array<uint16_t, CODED_ROWS>& CodedRows::leaves_of(std::span<const CodedSplit> tree,
                                                             std::span<const CodedSubset> subsets) {
#if defined(BG_X86)
  const CodedSplit* splits = tree.data();
  const int n_splits = static_cast<int>(tree.size());
  const bool wide = simd_ == Simd::avx512;
  (wide ? compare_avx512 : compare_avx2)(splits, n_splits, columns_.data(), above_.data());
  compare_subsets(subsets, columns_.data(), above_.data());
  (any_missing_ ? hand_down<true> : hand_down<false>)(splits, n_splits, above_.data(),
                                                      missing_.data(), sets_.data());
  (wide ? number_avx512 : number_rows)(sets_.data() + n_splits, n_splits + 1, leaf_.data());
#else
  (void)tree, (void)subsets;
#endif
  return leaf_;
}

}  // namespace bitgrove
