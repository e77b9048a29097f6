// Stable partition of each node's rows by its split, for a batch of nodes at once.
//
// A node's rows are two runs in ascending order, active rows and then rows whose integers are zero;
// being stable, the partition keeps that. Phase 1 divides every block of a run on its own; phase 2,
// after the counts are known, copies each block's two halves to their places.
#include "partition.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "numpy_arrays.h"
#include "parallel.h"
#include "rooms.h"
#include "tiles.h"

namespace bitgrove {
namespace {

constexpr int64_t BLOCK = 4096;
constexpr int64_t BLOCKS_PER_THREAD = 4;
constexpr int64_t SLACK = 16;  // vector stores may write past the last kept row

struct Split {
  int64_t begin, middle, end;
  const uint8_t* column;
  uint8_t bin, missing_bin;
  bool default_left;
};

struct Block {
  int split, run;
  int64_t begin, end, n_left, left_to, right_to;
};

struct Halves {
  int32_t left[BLOCK + SLACK], right[BLOCK + SLACK];
};

int64_t divide_scalar(const Split& s, const int32_t* rows, int64_t from, int64_t n, int64_t n_left, Halves& out) {
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

#if defined(__x86_64__)

// Columns are padded by 3 bytes so that the 32-bit gathers stay inside.
BG_TARGET_AVX512 int64_t divide_avx512(const Split& s, const int32_t* rows, int64_t n, Halves& out) {
  const __m512i bin = _mm512_set1_epi32(s.bin), missing = _mm512_set1_epi32(s.missing_bin);
  const __mmask16 keep_missing = s.default_left ? 0xFFFF : 0;
  int64_t i = 0, n_left = 0;
  for (; i + 16 <= n; i += 16) {
    const __m512i row = _mm512_loadu_si512(rows + i);
    const __m512i value = _mm512_and_si512(
        _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), 0xFFFF, row, s.column, 1), _mm512_set1_epi32(0xFF));
    const __mmask16 left = _mm512_cmple_epi32_mask(value, bin) | (_mm512_cmpeq_epi32_mask(value, missing) & keep_missing);
    const __mmask16 right = static_cast<__mmask16>(~left);
    _mm512_storeu_si512(out.left + n_left, _mm512_maskz_compress_epi32(left, row));
    _mm512_storeu_si512(out.right + (i - n_left), _mm512_maskz_compress_epi32(right, row));
    n_left += __builtin_popcount(left);
  }
  return divide_scalar(s, rows, i, n, n_left, out);
}

// For each 8-bit mask, the lanes that are kept, in order, first.
constexpr auto COMPRESS = [] {
  std::array<std::array<int32_t, 8>, 256> table{};
  for (int mask = 0; mask < 256; ++mask)
    for (int lane = 0, kept = 0; lane < 8; ++lane)
      if (mask >> lane & 1) table[mask][kept++] = lane;
  return table;
}();

BG_TARGET_AVX2 inline __m256i lanes(int mask) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(COMPRESS[mask].data()));
}

BG_TARGET_AVX2 int64_t divide_avx2(const Split& s, const int32_t* rows, int64_t n, Halves& out) {
  const __m256i bin = _mm256_set1_epi32(s.bin);
  const __m256i missing = _mm256_set1_epi32(s.default_left ? s.missing_bin : -1);
  int64_t i = 0, n_left = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256i row = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows + i));
    const __m256i value = _mm256_and_si256(
        _mm256_i32gather_epi32(reinterpret_cast<const int*>(s.column), row, 1), _mm256_set1_epi32(0xFF));
    const __m256i above = _mm256_andnot_si256(_mm256_cmpeq_epi32(value, missing), _mm256_cmpgt_epi32(value, bin));
    const int right = _mm256_movemask_ps(_mm256_castsi256_ps(above)), left = ~right & 0xFF;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.left + n_left), _mm256_permutevar8x32_epi32(row, lanes(left)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.right + (i - n_left)), _mm256_permutevar8x32_epi32(row, lanes(right)));
    n_left += __builtin_popcount(left);
  }
  return divide_scalar(s, rows, i, n, n_left, out);
}

#endif

int64_t divide(const Split& s, const int32_t* rows, int64_t n, Simd simd, Halves& out) {
#if defined(__x86_64__)
  if (simd == Simd::avx512) return divide_avx512(s, rows, n, out);
  if (simd == Simd::avx2) return divide_avx2(s, rows, n, out);
#else
  (void)simd;
#endif
  return divide_scalar(s, rows, 0, n, 0, out);
}

std::vector<Block> plan_blocks(const std::vector<Split>& splits) {
  std::vector<Block> blocks;
  const auto add_run = [&](int split, int run, int64_t first, int64_t last) {
    for (int64_t begin = first; begin < last; begin += BLOCK)
      blocks.push_back({split, run, begin, std::min(begin + BLOCK, last), 0, 0, 0});
  };
  for (int s = 0; s < static_cast<int>(splits.size()); ++s) {
    add_run(s, 0, splits[s].begin, splits[s].middle);
    add_run(s, 1, splits[s].middle, splits[s].end);
  }
  return blocks;
}

// Where each block's halves go; returns the rows of both runs that go left per split.
std::vector<RowCounts> place_blocks(const std::vector<Split>& splits, std::vector<Block>& blocks) {
  std::vector<RowCounts> n_left(splits.size(), RowCounts{0, 0});
  for (const Block& block : blocks) (block.run == 0 ? n_left[block.split].active : n_left[block.split].zero) += block.n_left;
  std::vector<int64_t> lefts, rights;
  for (size_t s = 0; s < splits.size(); ++s) {
    lefts.push_back(splits[s].begin);
    rights.push_back(splits[s].begin + n_left[s].both());
  }
  for (Block& block : blocks) {
    block.left_to = lefts[block.split];
    block.right_to = rights[block.split];
    lefts[block.split] += block.n_left;
    rights[block.split] += block.end - block.begin - block.n_left;
  }
  return n_left;
}

std::vector<Split> splits_of(const PlanView& plan, const PartitionSource& source) {
  require(plan.n_columns == 7, "plan must have 7 columns");
  std::vector<Split> splits;
  for (int64_t i = 0; i < plan.n_steps; ++i) {
    const int64_t* step = plan.step(i);
    const int64_t begin = step[0], end = step[1], feature = step[2], middle = step[6];
    require(0 <= begin && begin <= middle && middle <= end && end <= source.n_listed, "bad node range");
    require(0 <= feature && feature < source.n_features, "feature out of range");
    splits.push_back({begin, middle, end, source.columns + feature * source.column_stride,
                      static_cast<uint8_t>(step[3]), static_cast<uint8_t>(step[4]), step[5] != 0});
  }
  return splits;
}

template <class Row>
int64_t separate(const Row* packed, int32_t* rows, int32_t* scratch, int64_t n_rows, int n_threads) {
  const int64_t n_blocks = blocks_of(n_rows, BLOCK);
  std::vector<int64_t> active_to(n_blocks + 1, 0);
  const auto end_of = [&](int64_t b) { return std::min((b + 1) * BLOCK, n_rows); };
  parallel_tasks(n_blocks, n_threads, [&](int64_t b) {
    Halves halves;
    int64_t n_active = 0, n_zero = 0;
    for (int64_t i = b * BLOCK; i < end_of(b); ++i) {
      const int32_t row = rows[i];
      const bool active = packed[row] != 0;
      halves.left[n_active] = halves.right[n_zero] = row;
      n_active += active;
      n_zero += !active;
    }
    std::copy_n(halves.left, n_active, scratch + b * BLOCK);
    std::copy_n(halves.right, n_zero, scratch + b * BLOCK + n_active);
    active_to[b + 1] = n_active;
  }, BLOCKS_PER_THREAD);
  for (int64_t b = 0; b < n_blocks; ++b) active_to[b + 1] += active_to[b];
  const int64_t n_active = active_to[n_blocks];
  parallel_tasks(n_blocks, n_threads, [&](int64_t b) {
    const int64_t n = active_to[b + 1] - active_to[b], begin = b * BLOCK;
    std::copy_n(scratch + begin, n, rows + active_to[b]);
    std::copy(scratch + begin + n, scratch + end_of(b), rows + n_active + begin - active_to[b]);
  }, BLOCKS_PER_THREAD);
  return n_active;
}

// Puts the rows whose integers are zero behind the others, both in order; returns how many are not.
int64_t separate_zero_rows(nb::ndarray<nb::ndim<1>, nb::c_contig, nb::device::cpu, nb::ro> packed, Vector<int32_t> rows,
                           Vector<int32_t> scratch, int n_threads) {
  require(scratch.shape(0) >= rows.shape(0), "scratch too small");
  const void* data = packed.data();
  const size_t bytes = packed.itemsize();
  const int64_t n_rows = rows.shape(0);
  int32_t *row_data = rows.data(), *scratch_data = scratch.data();
  nb::gil_scoped_release release;
  switch (bytes) {
    case 2: return separate(static_cast<const int16_t*>(data), row_data, scratch_data, n_rows, n_threads);
    case 4: return separate(static_cast<const int32_t*>(data), row_data, scratch_data, n_rows, n_threads);
    default: return separate(static_cast<const int64_t*>(data), row_data, scratch_data, n_rows, n_threads);
  }
}

// Returns the active and the zero rows of each node that went left.
auto partition(Vector<int32_t> rows, Vector<int32_t> scratch, Matrix<const uint8_t> columns, Matrix<const int64_t> plan,
               int n_threads, int simd) {
  require(scratch.shape(0) >= rows.shape(0), "scratch too small");
  const PartitionSource source{rows.data(), static_cast<int64_t>(rows.shape(0)), scratch.data(), columns.data(),
                               static_cast<int64_t>(columns.shape(0)), static_cast<int64_t>(columns.shape(1))};
  const PlanView steps{plan.data(), static_cast<int64_t>(plan.shape(0)), static_cast<int64_t>(plan.shape(1))};
  std::vector<int64_t> n_left;
  {
    nb::gil_scoped_release release;
    for (const RowCounts& left : partition_rows(steps, source, n_threads, static_cast<Simd>(simd)))
      n_left.insert(n_left.end(), {left.active, left.zero});
  }
  return to_numpy(std::move(n_left), {plan.shape(0), 2});
}

}  // namespace

std::vector<RowCounts> partition_rows(const PlanView& plan, const PartitionSource& source, int n_threads, Simd simd) {
  const std::vector<Split> splits = splits_of(plan, source);
  int32_t *rows = source.rows, *scratch = source.scratch;
  std::vector<Block> blocks = plan_blocks(splits);
  const int64_t n_blocks = static_cast<int64_t>(blocks.size());
  int64_t n_rows = 0;
  for (const Split& split : splits) n_rows += split.end - split.begin;
  n_threads = threads_for_rows(n_rows, n_threads);
  parallel_tasks(n_blocks, n_threads, [&](int64_t b) {
    Block& block = blocks[b];
    const int64_t n = block.end - block.begin;
    Halves halves;
    block.n_left = divide(splits[block.split], rows + block.begin, n, simd, halves);
    std::memcpy(scratch + block.begin, halves.left, block.n_left * sizeof(int32_t));
    std::memcpy(scratch + block.begin + block.n_left, halves.right, (n - block.n_left) * sizeof(int32_t));
  });
  std::vector<RowCounts> n_left = place_blocks(splits, blocks);
  parallel_tasks(n_blocks, n_threads, [&](int64_t b) {
    const Block& block = blocks[b];
    const int32_t* from = scratch + block.begin;
    std::memcpy(rows + block.left_to, from, block.n_left * sizeof(int32_t));
    std::memcpy(rows + block.right_to, from + block.n_left, (block.end - block.begin - block.n_left) * sizeof(int32_t));
  });
  return n_left;
}

void init_partition(nb::module_& m) {
  m.def("partition_rows", &partition);
  m.def("separate_zero_rows", &separate_zero_rows);
}

}  // namespace bitgrove
