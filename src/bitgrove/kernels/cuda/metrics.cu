// Sums that metrics are made of, over the predictions of a validation set (metrics.h), and the
// order of all rows for the areas under curves: an exact radix sort, then sums of whole weights.
//
// The sort takes a digit of 8 bits at a time. A block takes a tile of rows, in the order in which
// blocks start, and learns from the tiles before it where its rows of each digit go: every tile
// leaves a word that says how many it has, and later how many it and all before it have.
#include "blocks.h"
#include "metrics.h"
#include "plans.h"

namespace bitgrove {

constexpr int SORT_WARPS = THREADS / WARP, SORT_ITEMS = SORT_ROWS / THREADS;
constexpr int WARP_ROWS = WARP * SORT_ITEMS;
// The two upper bits of a tile's word: the rest counts the tile's rows, or those before it, too.
constexpr uint64_t OF_TILE = 1ull << 62, OF_ALL = 2ull << 62, COUNT_BITS = OF_TILE - 1;

static_assert(THREADS == 256, "a thread for each digit");

BG_FN int64_t first_item() { return static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; }
BG_FN int64_t item_step() { return static_cast<int64_t>(gridDim.x) * THREADS; }

// Whole warps call this.
BG_FN void raise_top(uint64_t mine, uint64_t* top) {
  for (int step = WARP / 2; step > 0; step /= 2) {
    const uint64_t other = __shfl_xor_sync(ALL_LANES, mine, step);
    mine = other > mine ? other : mine;
  }
  if (threadIdx.x % WARP == 0 && mine > 0) atomicMax(reinterpret_cast<Word64*>(top), mine);
}

template <class Term>
__device__ void terms(const JudgedRows& rows, const double* weight, int64_t n_rows, double* out,
                      uint64_t* top) {
  uint64_t mine = 0;
  for (int64_t i = first_item(); i < n_rows; i += item_step()) {
    const double term = Term::term(rows[i]) * (weight ? weight[i] : 1.0);
    const uint64_t size = magnitude_of_bits(term);
    out[i] = term;
    mine = size > mine ? size : mine;
  }
  raise_top(mine, top);
}

// As math.frexp: the number is below two to this power, and not below half of that.
BG_FN int64_t power_above(uint64_t bits) {
  const int64_t biased = static_cast<int64_t>(bits >> 52);
  return biased > 0 ? biased - 1022 : -1010 - __clzll(static_cast<int64_t>(bits));
}

// A row after `last` in the order of a query: lower scores come later, then higher rows.
struct Place {
  double score;
  int64_t row;
  BG_FN bool comes_before(const Place& other) const {
    return score > other.score || (score == other.score && row < other.row);
  }
};

// A warp has a query and finds its ranks one after the other.
template <class Value>
__device__ void of_queries(const double* prediction, const double* relevance, const int64_t* offset,
                           const double* discount, const double* best, int64_t n_queries, int64_t k,
                           double* out, uint64_t* top) {
  const int lane = threadIdx.x % WARP;
  const int64_t query = first_item() / WARP;
  if (query >= n_queries) return;
  const int64_t begin = offset[query], n_rows = offset[query + 1] - begin;
  Value value;
  Place last{0.0, -1};
  for (int64_t rank = 0; rank < n_rows && rank < k; ++rank) {
    Place found{0.0, n_rows};  // none yet
    for (int64_t i = lane; i < n_rows; i += WARP) {
      const Place place{prediction[begin + i], i};
      const bool is_left = rank == 0 || last.comes_before(place);
      if (is_left && (found.row == n_rows || place.comes_before(found))) found = place;
    }
    for (int step = WARP / 2; step > 0; step /= 2) {
      const Place other{__shfl_xor_sync(ALL_LANES, found.score, step),
                        __shfl_xor_sync(ALL_LANES, found.row, step)};
      if (other.row < n_rows && (found.row == n_rows || other.comes_before(found))) found = other;
    }
    last = found;
    value.add(rank, relevance[begin + found.row], discount);
  }
  if (lane > 0) return;
  const double of_query = value.value(best[query], k);
  out[query] = of_query;
  atomicMax(reinterpret_cast<Word64*>(top), magnitude_of_bits(of_query));
}

// The sum of the values of the threads before this one; `total` is that of the block.
BG_FN int64_t sum_before(int64_t value, int64_t* partial, int64_t& total) {
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  int64_t sum = value;
  for (int step = 1; step < WARP; step *= 2) {
    const int64_t other = __shfl_up_sync(ALL_LANES, sum, step);
    if (lane >= step) sum += other;
  }
  __syncthreads();
  if (lane == WARP - 1) partial[warp] = sum;
  __syncthreads();
  int64_t before = 0;
  total = 0;
  for (int w = 0; w < SORT_WARPS; ++w) {
    if (w < warp) before += partial[w];
    total += partial[w];
  }
  return before + sum - value;
}

// Leaves a tile's word and returns what all tiles before it have. Words of a tile are `stride`
// apart; tiles are taken in order, so those before are at work.
BG_FN int64_t sum_of_tiles_before(uint64_t* words, int64_t tile, int64_t stride, int64_t mine) {
  volatile uint64_t* shared = words;
  if (tile == 0) {
    shared[0] = OF_ALL | static_cast<uint64_t>(mine);
    return 0;
  }
  shared[tile * stride] = OF_TILE | static_cast<uint64_t>(mine);
  uint64_t before = 0;
  for (int64_t other = tile - 1; other >= 0;) {
    const uint64_t word = shared[other * stride];
    if (word == 0) continue;  // not there yet
    before += word & COUNT_BITS;
    if (word & OF_ALL) break;
    --other;
  }
  shared[tile * stride] = OF_ALL | (before + static_cast<uint64_t>(mine));
  return static_cast<int64_t>(before);
}

BG_FN int64_t take_tile(uint32_t* n_taken, int64_t* shared) {
  if (threadIdx.x == 0) *shared = atomicAdd(n_taken, 1u);
  __syncthreads();
  return *shared;
}

}  // namespace bitgrove

using namespace bitgrove;

// (n_outputs, n_rows) to (n_rows, n_outputs).
extern "C" __global__ void __launch_bounds__(THREADS)
    scores_by_row(const double* scores, int64_t n_rows, int64_t n_outputs, double* out) {
  for (int64_t i = first_item(); i < n_rows; i += item_step())
    for (int64_t k = 0; k < n_outputs; ++k) out[i * n_outputs + k] = scores[k * n_rows + i];
}

#define TERM_KERNEL(NAME, ...)                                                                 \
  extern "C" __global__ void __launch_bounds__(THREADS)                                        \
      NAME##_terms(const double* prediction, const double* label, const double* setting,       \
                   const double* weight, int64_t n_outputs, int64_t n_labels, int64_t first,   \
                   int64_t last, int64_t n_rows, double* out, uint64_t* top) {                 \
    terms<__VA_ARGS__>({prediction, label, setting, n_outputs, n_labels, first, last}, weight, \
                       n_rows, out, top);                                                      \
  }
#define OUTPUT_TERM_KERNEL(NAME, TERM) TERM_KERNEL(NAME, MeanOfOutputs<TERM>)

BG_OUTPUT_TERMS(OUTPUT_TERM_KERNEL)
BG_ROW_TERMS(TERM_KERNEL)

extern "C" __global__ void __launch_bounds__(THREADS)
    largest_term(const double* values, int64_t n, uint64_t* top) {
  uint64_t mine = 0;
  for (int64_t i = first_item(); i < n; i += item_step()) {
    const uint64_t size = magnitude_of_bits(values[i]);
    mine = size > mine ? size : mine;
  }
  raise_top(mine, top);
}

// In the unit that the largest magnitude allows: each value has at most value_bits.
extern "C" __global__ void __launch_bounds__(THREADS)
    sum_in_units(const double* values, int64_t n, int64_t value_bits, const uint64_t* top,
                 int64_t* sum) {
  const uint64_t largest = *top;
  if (largest == 0 || largest >= 0x7FF0000000000000ull) return;
  const Unit unit(value_bits - power_above(largest));
  int64_t mine = 0;
  for (int64_t i = first_item(); i < n; i += item_step()) mine += unit.of(values[i]);
  __shared__ int64_t partial[THREADS / WARP];
  mine = block_sum(mine, partial);
  if (threadIdx.x == 0) atomic_add(sum, mine);
}

// Few cells are first added up by each block.
extern "C" __global__ void __launch_bounds__(THREADS)
    cell_sums(const double* prediction, const double* label, const int64_t* whole,
              int64_t n_outputs, int64_t n_labels, int64_t first, int64_t last, int64_t n_rows,
              int64_t n_cells, int64_t* sums) {
  constexpr int FEW_CELLS = 1024;
  __shared__ int64_t local[FEW_CELLS];
  const bool few = n_cells <= FEW_CELLS;
  for (int64_t c = threadIdx.x; few && c < n_cells; c += THREADS) local[c] = 0;
  __syncthreads();
  const JudgedRows rows{prediction, label, nullptr, n_outputs, n_labels, first, last};
  int64_t* to = few ? local : sums;
  for (int64_t i = first_item(); i < n_rows; i += item_step()) {
    const int64_t cell = cell_of(rows[i]);
    if (cell >= 0 && cell < n_cells) atomic_add(to + cell, whole[i]);
  }
  __syncthreads();
  for (int64_t c = threadIdx.x; few && c < n_cells; c += THREADS)
    if (local[c] != 0) atomic_add(sums + c, local[c]);
}

#define QUERY_KERNEL(NAME, VALUE)                                                                 \
  extern "C" __global__ void __launch_bounds__(THREADS)                                           \
      NAME##_of_queries(const double* prediction, const double* relevance, const int64_t* offset, \
                        const double* discount, const double* best, int64_t n_queries, int64_t k, \
                        double* out, uint64_t* top) {                                             \
    of_queries<VALUE>(prediction, relevance, offset, discount, best, n_queries, k, out, top);     \
  }

BG_QUERY_VALUES(QUERY_KERNEL)

// Keys of one output's predictions, and how many have each value of each of their eight digits.
extern "C" __global__ void __launch_bounds__(THREADS)
    order_keys(const double* prediction, int64_t n_outputs, int64_t n_rows, uint64_t* keys,
               uint32_t* rows, uint32_t* counts) {
  __shared__ uint32_t local[8][256];
  for (int d = 0; d < 8; ++d) local[d][threadIdx.x] = 0;
  __syncthreads();
  for (int64_t i = first_item(); i < n_rows; i += item_step()) {
    const uint64_t key = ordered_key64(prediction[i * n_outputs]);
    keys[i] = key;
    rows[i] = static_cast<uint32_t>(i);
    for (int d = 0; d < 8; ++d) atomicAdd(&local[d][key >> (8 * d) & 255], 1u);
  }
  __syncthreads();
  for (int d = 0; d < 8; ++d)
    if (local[d][threadIdx.x] != 0)
      atomicAdd(counts + 256 * d + threadIdx.x, local[d][threadIdx.x]);
}

// One digit of the sort; stable. counts: of the values of this digit; words: 256 of each tile.
extern "C" __global__ void __launch_bounds__(THREADS)
    sort_digit(const uint64_t* keys, const uint32_t* rows, int64_t n_rows, int64_t shift,
               const uint32_t* counts, uint64_t* words, uint32_t* n_taken, uint64_t* keys_out,
               uint32_t* rows_out) {
  __shared__ uint32_t of_warp[SORT_WARPS][256];
  __shared__ int64_t first[256], partial[SORT_WARPS], taken;
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, digit_of_thread = threadIdx.x;
  for (int w = 0; w < SORT_WARPS; ++w) of_warp[w][digit_of_thread] = 0;
  const int64_t tile = take_tile(n_taken, &taken);
  const int64_t begin = tile * SORT_ROWS + warp * WARP_ROWS + lane;
  uint64_t key[SORT_ITEMS];
  uint32_t rank[SORT_ITEMS];  // among the warp's rows of the same digit
#pragma unroll
  for (int j = 0; j < SORT_ITEMS; ++j) {
    const int64_t i = begin + j * WARP;
    const bool inside = i < n_rows;
    key[j] = inside ? keys[i] : 0;
    const uint32_t digit = inside ? static_cast<uint32_t>(key[j] >> shift & 255) : 256u;
    const unsigned same = __match_any_sync(ALL_LANES, digit);
    const int n_before = __popc(same & ((1u << lane) - 1)), leader = __ffs(same) - 1;
    uint32_t start = 0;
    if (inside && lane == leader) {
      start = of_warp[warp][digit];
      of_warp[warp][digit] = start + __popc(same);
    }
    rank[j] = __shfl_sync(ALL_LANES, start, leader) + n_before;
    __syncwarp();
  }
  __syncthreads();
  uint32_t n_mine = 0;  // rows of the tile with the thread's digit
  for (int w = 0; w < SORT_WARPS; ++w) {
    const uint32_t here = of_warp[w][digit_of_thread];
    of_warp[w][digit_of_thread] = n_mine;
    n_mine += here;
  }
  int64_t n_all;
  const int64_t n_smaller = sum_before(counts[digit_of_thread], partial, n_all);
  const int64_t n_earlier = sum_of_tiles_before(words + digit_of_thread, tile, 256, n_mine);
  first[digit_of_thread] = n_smaller + n_earlier;
  __syncthreads();
#pragma unroll
  for (int j = 0; j < SORT_ITEMS; ++j) {
    const int64_t i = begin + j * WARP;
    if (i >= n_rows) continue;
    const uint32_t digit = static_cast<uint32_t>(key[j] >> shift & 255);
    const int64_t to = first[digit] + of_warp[warp][digit] + rank[j];
    keys_out[to] = key[j];
    rows_out[to] = rows[i];
  }
}

// Whole weights of each class up to each sorted row; words: two of each tile.
extern "C" __global__ void __launch_bounds__(THREADS)
    order_prefixes(const uint32_t* rows, const int64_t* positive, const int64_t* negative,
                   int64_t n_rows, uint64_t* words, uint32_t* n_taken, int64_t* positive_until,
                   int64_t* negative_until) {
  __shared__ int64_t partial[SORT_WARPS], taken, before[2];
  const int64_t tile = take_tile(n_taken, &taken);
  const int64_t begin = tile * SORT_ROWS + static_cast<int64_t>(threadIdx.x) * SORT_ITEMS;
  int64_t of_positive[SORT_ITEMS], of_negative[SORT_ITEMS], p = 0, n = 0;
#pragma unroll
  for (int j = 0; j < SORT_ITEMS; ++j) {
    const bool inside = begin + j < n_rows;
    const uint32_t row = inside ? rows[begin + j] : 0;
    p += inside ? positive[row] : 0;
    n += inside ? negative[row] : 0;
    of_positive[j] = p;
    of_negative[j] = n;
  }
  int64_t all_positive, all_negative;
  p = sum_before(p, partial, all_positive);
  n = sum_before(n, partial, all_negative);
  if (threadIdx.x < 2) {
    const int64_t mine = threadIdx.x == 0 ? all_positive : all_negative;
    before[threadIdx.x] = sum_of_tiles_before(words + threadIdx.x, tile, 2, mine);
  }
  __syncthreads();
  for (int j = 0; j < SORT_ITEMS && begin + j < n_rows; ++j) {
    positive_until[begin + j] = before[0] + p + of_positive[j];
    negative_until[begin + j] = before[1] + n + of_negative[j];
  }
}

// The first of the rows up to `last` that have its key.
BG_FN int64_t first_of_step(const uint64_t* keys, int64_t last) {
  const uint64_t key = keys[last];
  if (last == 0 || keys[last - 1] != key) return last;
  int64_t low = 0, high = last;  // the first is one of [low, high]
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (keys[middle] < key)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// N_ORDER_SUMS numbers: whoever has the last row of a step adds it.
extern "C" __global__ void __launch_bounds__(THREADS)
    order_sums(const uint64_t* keys, const int64_t* positive_until, const int64_t* negative_until,
               int64_t n_rows, int64_t* sums) {
  const int64_t all_positive = positive_until[n_rows - 1];
  const int64_t all_negative = negative_until[n_rows - 1];
  int64_t mine[N_ORDER_SUMS] = {};
  for (int64_t i = first_item(); i < n_rows; i += item_step()) {
    if (i == n_rows - 1) mine[0] = all_positive, mine[1] = all_negative;
    if (i < n_rows - 1 && keys[i + 1] == keys[i]) continue;
    const int64_t begin = first_of_step(keys, i);
    const int64_t positive_before = begin > 0 ? positive_until[begin - 1] : 0;
    const int64_t negative_before = begin > 0 ? negative_until[begin - 1] : 0;
    const int64_t positive = positive_until[i] - positive_before;
    const uint64_t a = positive, b = negative_before + negative_until[i];
    const uint64_t low = a * b, high = __umul64hi(a, b);
    mine[2] += low & 0xFFFFFFFFu;
    mine[3] += low >> 32;
    mine[4] += high & 0xFFFFFFFFu;
    mine[5] += high >> 32;
    const int64_t found = all_positive - positive_before;
    const int64_t seen = found + (all_negative - negative_before);
    const double precision = static_cast<double>(found) / static_cast<double>(seen > 1 ? seen : 1);
    mine[6] += __double2ll_rn(static_cast<double>(positive) * precision);
  }
  __shared__ int64_t partial[THREADS / WARP];
  for (int s = 0; s < N_ORDER_SUMS; ++s) {
    const int64_t sum = block_sum(mine[s], partial);
    if (threadIdx.x == 0 && sum != 0) atomic_add(sums + s, sum);
  }
}
