// The edges of features from a sample: keys of its values, sorted and cut by a block per feature.
#include "blocks.h"
#include "cuts.h"
#include "layouts.h"
#include "plans.h"

namespace bitgrove {

constexpr int EDGE_WARPS = EDGE_THREADS / WARP;
constexpr int DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS;
// Keys that a block moves in one turn; a warp's are neighbours.
constexpr int KEYS_PER_THREAD = 8, KEYS_PER_WARP = KEYS_PER_THREAD * WARP;
constexpr int KEYS_PER_TURN = KEYS_PER_WARP * EDGE_WARPS;

// The keys of each column's listed rows (of all rows, without a list), one column after the other.
template <class Key>
__device__ void take_keys(const DeviceColumn* columns, const int32_t* rows, int64_t n, Key* keys) {
  const DeviceColumn column = columns[blockIdx.y];
  const Key* bits = reinterpret_cast<const Key*>(column.address);
  Key* mine = keys + blockIdx.y * n;
  const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < n; i += step)
    mine[i] = key_of_bits(bits[(rows ? rows[i] : i) * column.stride]);
}

// What a block shares while it sorts.
struct SortRoom {
  uint32_t counts[sizeof(uint64_t)][DIGITS];  // keys of each value of each digit
  uint32_t next[DIGITS];                      // where the next key of a digit goes
  uint32_t turn[DIGITS];                      // where this turn's first one goes
  uint16_t before[EDGE_WARPS][DIGITS];        // keys of this turn in the warps before
};

template <class Key>
BG_FN int digit_of(Key key, int pass) {
  return static_cast<int>(key >> (pass * DIGIT_BITS)) & (DIGITS - 1);
}

// Lanes before this one among those of the mask.
BG_FN int lanes_before(unsigned mask) { return __popc(mask & ((1u << (threadIdx.x % WARP)) - 1)); }

template <class Key>
__device__ void count_digits(const Key* keys, int64_t n, SortRoom& room) {
  constexpr int n_passes = sizeof(Key);
  for (int p = 0; p < n_passes; ++p)
    for (int d = threadIdx.x; d < DIGITS; d += EDGE_THREADS) room.counts[p][d] = 0;
  __syncthreads();
  for (int64_t first = 0; first < n; first += EDGE_THREADS) {  // whole warps, to the end
    const int64_t i = first + threadIdx.x;
    const Key key = i < n ? keys[i] : 0;
    for (int p = 0; p < n_passes; ++p) {
      const int digit = i < n ? digit_of(key, p) : DIGITS;
      const unsigned same = __match_any_sync(ALL_LANES, digit);
      if (i < n && lanes_before(same) == 0) atomicAdd(&room.counts[p][digit], __popc(same));
    }
  }
  __syncthreads();
}

// One stable pass: keys in the order of a digit.
template <class Key>
__device__ void sort_by_digit(const Key* from, Key* to, int64_t n, int pass, SortRoom& room) {
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  if (threadIdx.x == 0)
    for (uint32_t d = 0, before = 0; d < DIGITS; before += room.counts[pass][d++])
      room.next[d] = before;
  for (int64_t first = 0; first < n; first += KEYS_PER_TURN) {
    for (int d = lane; d < DIGITS; d += WARP) room.before[warp][d] = 0;
    __syncwarp();
    Key keys[KEYS_PER_THREAD];
    uint16_t rank[KEYS_PER_THREAD];  // among the warp's keys of the same digit
    const int64_t mine = first + warp * KEYS_PER_WARP + lane;
#pragma unroll
    for (int k = 0; k < KEYS_PER_THREAD; ++k) {
      const bool is_key = mine + k * WARP < n;
      keys[k] = is_key ? from[mine + k * WARP] : 0;
      const int digit = is_key ? digit_of(keys[k], pass) : DIGITS;
      const unsigned same = __match_any_sync(ALL_LANES, digit);
      const uint16_t seen = is_key ? room.before[warp][digit] : 0;
      rank[k] = static_cast<uint16_t>(seen + lanes_before(same));
      __syncwarp();
      if (is_key && lanes_before(same) == 0)
        room.before[warp][digit] = static_cast<uint16_t>(seen + __popc(same));
      __syncwarp();
    }
    __syncthreads();
    if (threadIdx.x < DIGITS) {
      const int d = threadIdx.x;
      uint32_t n_before = 0;
      for (int w = 0; w < EDGE_WARPS; ++w) {
        const uint32_t n_here = room.before[w][d];
        room.before[w][d] = static_cast<uint16_t>(n_before);
        n_before += n_here;
      }
      room.turn[d] = room.next[d];
      room.next[d] += n_before;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < KEYS_PER_THREAD; ++k) {
      const int digit = digit_of(keys[k], pass);
      if (mine + k * WARP < n) to[room.turn[digit] + room.before[warp][digit] + rank[k]] = keys[k];
    }
    __syncthreads();
  }
}

struct Block {
  int lane, size;
  BG_FN void sync() const { __syncthreads(); }
};

// A block owns a feature: n keys, and room for as many others. Digits that all keys share take no
// pass. edges: (features, max_bin - 1).
template <class Key>
__device__ void find_edges(Key* keys, Key* other, int64_t n, int64_t max_bin, double* edges,
                           int64_t* n_edges) {
  __shared__ SortRoom room;
  __shared__ CutWork work;
  Key *from = keys + blockIdx.x * n, *to = other + blockIdx.x * n;
  count_digits(from, n, room);
  for (int pass = 0; pass < static_cast<int>(sizeof(Key)); ++pass) {
    const bool is_all = threadIdx.x < DIGITS && room.counts[pass][threadIdx.x] == n;
    if (__syncthreads_or(is_all)) continue;
    sort_by_digit(from, to, n, pass, room);
    Key* sorted = to;
    to = from;
    from = sorted;
  }
  Cutter<Key, Block> cutter{from,
                            static_cast<int32_t>(n),
                            static_cast<int32_t>(max_bin),
                            work,
                            {static_cast<int>(threadIdx.x), EDGE_THREADS}};
  const int32_t n_found = cutter.cut(edges + blockIdx.x * (max_bin - 1));
  if (threadIdx.x == 0) n_edges[blockIdx.x] = n_found;
}

}  // namespace bitgrove

using namespace bitgrove;

#define EDGE_KERNELS(BITS, KEY)                                                                  \
  extern "C" __global__ void __launch_bounds__(THREADS)                                          \
      take_keys_##BITS(const DeviceColumn* columns, const int32_t* rows, int64_t n, KEY* keys) { \
    take_keys(columns, rows, n, keys);                                                           \
  }                                                                                              \
  extern "C" __global__ void __launch_bounds__(EDGE_THREADS) find_edges_##BITS(                  \
      KEY* keys, KEY* other, int64_t n, int64_t max_bin, double* edges, int64_t* n_edges) {      \
    find_edges(keys, other, n, max_bin, edges, n_edges);                                         \
  }

EDGE_KERNELS(32, uint32_t)
EDGE_KERNELS(64, uint64_t)
