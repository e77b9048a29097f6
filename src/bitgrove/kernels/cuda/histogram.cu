// Histograms of a batch of nodes: one block per (node, block of rows, tile of 32 features).
//
// A block adds its rows into shared memory, with native 32-bit atomics only:
//   1 word   16 + 16 bits packed, where the plan proved that the block's rows cannot overflow;
//   2 words  gradient and hessian, 32 bits each: enough for 2^15 rows of 16 + 16 bits;
//   3 words  their low 20 bits apart, their high bits packed 16 + 16: enough for 2^12 rows of
//            |grad| < 2^23 and hess < 2^24, the integers of full precision.
// It then adds them to the node's slot, which holds 32 + 32 or 64 + 64 bits (one width per pool).
//
// A bin has 32 columns, one per shared-memory bank. A lane reads four features of a row; lanes of
// neighbouring rows start at different ones, so a warp's 32 additions hit 32 banks. In narrower
// tiles, groups of rows have columns of their own, which are added up at the end.
#include "blocking.h"
#include "blocks.h"
#include "placed_bins.h"
#include "plans.h"
#include "tiles.h"

namespace bitgrove {

constexpr int COLUMNS = TILE_FEATURES;
constexpr int WORD_STRIDE = WORD_BYTES / 4;
constexpr int SPLIT_BITS = 20;
constexpr int64_t LOW_PART = (1 << SPLIT_BITS) - 1;

struct Source {
  const PlacedBins& bins;
  int64_t n_features;
  const int64_t* bin_offset;
  const int32_t* rows;
};

struct Pool {
  int64_t* data;
  int64_t n_bins;
  bool wide;  // 64 + 64 bits
};

// How the sums of one bin lie in shared memory.
template <int Words>
struct Local;

template <>
struct Local<1> {
  static BG_FN void add(uint32_t* at, int64_t grad, int64_t hess) {
    atomicAdd(at, static_cast<uint32_t>(Packed<16>::pack(grad, hess)));
  }
  static BG_FN void read(const uint32_t* at, int64_t& grad, int64_t& hess) {
    const int32_t sum = static_cast<int32_t>(*at);
    grad += Packed<16>::grad(sum);
    hess += Packed<16>::hess(sum);
  }
};

template <>
struct Local<2> {
  static BG_FN void add(uint32_t* at, int64_t grad, int64_t hess) {
    atomicAdd(at, static_cast<uint32_t>(grad));
    atomicAdd(at + WORD_STRIDE, static_cast<uint32_t>(hess));
  }
  static BG_FN void read(const uint32_t* at, int64_t& grad, int64_t& hess) {
    grad += static_cast<int32_t>(at[0]);
    hess += at[WORD_STRIDE];
  }
};

template <>
struct Local<3> {
  static BG_FN void add(uint32_t* at, int64_t grad, int64_t hess) {
    atomicAdd(at, static_cast<uint32_t>(grad & LOW_PART));
    atomicAdd(at + WORD_STRIDE, static_cast<uint32_t>(hess & LOW_PART));
    const int32_t high = Packed<16>::pack(grad >> SPLIT_BITS, hess >> SPLIT_BITS);
    atomicAdd(at + 2 * WORD_STRIDE, static_cast<uint32_t>(high));
  }
  static BG_FN void read(const uint32_t* at, int64_t& grad, int64_t& hess) {
    const int32_t high = static_cast<int32_t>(at[2 * WORD_STRIDE]);
    grad += Packed<16>::grad(high) * (LOW_PART + 1) + at[0];
    hess += Packed<16>::hess(high) * (LOW_PART + 1) + at[WORD_STRIDE];
  }
};

// Lanes per row: 8, 4, 2 or 1 for tiles of 32, 16, 8 or 4 bytes per row.
template <class Row, int Words, int Lanes>
__device__ void accumulate(const Source& source, const typename Row::Sum* packed,
                           const uint8_t* tile, int64_t begin, int64_t end, uint32_t* local) {
  const int lane = threadIdx.x % WARP, group = lane % Lanes, turn = lane / Lanes;
  const uint32_t* bins = reinterpret_cast<const uint32_t*>(tile) + group;
  uint32_t* column[4];
  for (int s = 0; s < 4; ++s)
    column[s] = local + (turn / 4) * (4 * Lanes) + 4 * group + (s + turn) % 4;
  for (int64_t first = begin + (threadIdx.x / WARP) * WARP; first < end; first += blockDim.x) {
    // Lanes past the end add zeros of the first row: nothing.
    const bool inside = first + lane < end;
    const int32_t row = source.rows[inside ? first + lane : begin];
    const typename Row::Sum value = inside ? packed[row] : typename Row::Sum{};
    uint32_t four_bins[Lanes];
    typename Row::Sum values[Lanes];
#pragma unroll
    for (int step = 0; step < Lanes; ++step) {
      const int from = step * (WARP / Lanes) + turn;
      const int64_t other = __shfl_sync(ALL_LANES, row, from);
      values[step] = static_cast<typename Row::Sum>(__shfl_sync(ALL_LANES, value, from));
      const uint32_t word = bins[other * Lanes];
      four_bins[step] = __funnelshift_r(word, word, 8 * (turn % 4));
    }
#pragma unroll
    for (int step = 0; step < Lanes; ++step)
#pragma unroll
      for (int s = 0; s < 4; ++s)
        Local<Words>::add(column[s] + ((four_bins[step] >> (8 * s)) & 0xFFu) * COLUMNS,
                          Row::grad(values[step]), Row::hess(values[step]));
  }
}

// Moves column c of bin b to (c + b) % 32: afterwards a warp can read 32 bins of one column from
// 32 banks. Each bin's columns move among themselves, four bins at a time.
template <int Words>
__device__ void rotate_columns(uint32_t* local) {
  constexpr int AT_ONCE = 4;
  const int lane = threadIdx.x % WARP, n_warps = blockDim.x / WARP;
  for (int first = (threadIdx.x / WARP) * AT_ONCE; first < Words * BINS_PER_FEATURE;
       first += n_warps * AT_ONCE) {
    uint32_t held[AT_ONCE];
#pragma unroll
    for (int b = 0; b < AT_ONCE; ++b) held[b] = local[(first + b) * COLUMNS + lane];
    __syncwarp();
#pragma unroll
    for (int b = 0; b < AT_ONCE; ++b)
      local[(first + b) * COLUMNS + (lane + first + b) % COLUMNS] = held[b];
  }
}

// Adds to the slot, or just writes where the node has no other block.
BG_FN void flush_bin(const Pool& pool, int64_t bin, int64_t grad, int64_t hess, bool alone) {
  if (pool.wide) {
    int64_t* at = pool.data + 2 * bin;
    if (alone) {
      at[0] = grad;
      at[1] = hess;
    } else {
      if (grad != 0) atomic_add(at, grad);
      if (hess != 0) atomic_add(at + 1, hess);
    }
    return;
  }
  const int64_t sum = Packed<32>::pack(grad, hess);
  if (alone)
    pool.data[bin] = sum;
  else if (sum != 0)
    atomic_add(pool.data + bin, sum);
}

// offset: where the tile's features start in a slot.
template <int Words>
__device__ void flush(const Source& source, int tile, const uint32_t* local, const int64_t* offset,
                      Pool pool, int64_t slot, bool alone) {
  const int n_features = static_cast<int>(source.n_features);
  const int n_here = TileView::features_of(tile, n_features),
            stride = TileView::stride_of(tile, n_features);
  const int lane = threadIdx.x % WARP, n_warps = blockDim.x / WARP;
  constexpr int GROUPS = BINS_PER_FEATURE / WARP;
  for (int task = threadIdx.x / WARP; task < n_here * GROUPS; task += n_warps) {
    const int feature = task / GROUPS, bin = (task % GROUPS) * WARP + lane;
    if (bin >= offset[feature + 1] - offset[feature]) continue;
    int64_t grad = 0, hess = 0;
    for (int column = feature; column < COLUMNS; column += stride)
      Local<Words>::read(local + bin * COLUMNS + (column + bin) % COLUMNS, grad, hess);
    flush_bin(pool, slot * pool.n_bins + offset[feature] + bin, grad, hess, alone);
  }
}

// Where in [begin, end) of the row list, which ascends, the rows of the second place begin.
BG_FN int64_t first_there(const Source& source, int64_t begin, int64_t end) {
  const int64_t n_here = source.bins.here.n_rows;
  if (source.bins.there.n_rows == 0 || source.rows[end - 1] < n_here) return end;
  int64_t low = begin, high = end - 1;  // row `high` is there
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (source.rows[middle] < n_here)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

template <class Row, int Words>
__device__ void build(const Source& source, const void* packed_rows, const Pool& pool,
                      const Build* builds, const NodeBlock& block, uint32_t* local) {
  const Build node = builds[block.node];
  const int64_t begin = node.begin + block.index * node.block_rows;
  const int64_t end = begin + node.block_rows < node.end ? begin + node.block_rows : node.end;
  const int tile = blockIdx.y;
  __shared__ int64_t offset[TILE_FEATURES + 1];
  const int n_here = TileView::features_of(tile, static_cast<int>(source.n_features));
  if (threadIdx.x <= n_here)
    offset[threadIdx.x] = source.bin_offset[tile * TILE_FEATURES + threadIdx.x];
  auto* words = reinterpret_cast<uint4*>(local);
  for (int i = threadIdx.x; i < Words * WORD_STRIDE / 4; i += blockDim.x)
    words[i] = make_uint4(0, 0, 0, 0);
  __syncthreads();
  const auto* packed = static_cast<const typename Row::Sum*>(packed_rows);
  const int n_features = static_cast<int>(source.n_features);
  const int64_t n_first = source.bins.here.n_rows, middle = first_there(source, begin, end);
  for (int64_t from = begin, to = middle; from < end; from = to, to = end) {
    const bool is_here = from < middle;
    const uint8_t* bins = is_here ? tile_rows(source.bins.here, 0, tile, n_features)
                                  : tile_rows(source.bins.there, n_first, tile, n_features);
    switch (TileView::stride_of(tile, n_features)) {
      case 4:
        accumulate<Row, Words, 1>(source, packed, bins, from, to, local);
        break;
      case 8:
        accumulate<Row, Words, 2>(source, packed, bins, from, to, local);
        break;
      case 16:
        accumulate<Row, Words, 4>(source, packed, bins, from, to, local);
        break;
      default:
        accumulate<Row, Words, 8>(source, packed, bins, from, to, local);
        break;
    }
  }
  __syncthreads();
  rotate_columns<Words>(local);
  __syncthreads();
  flush<Words>(source, tile, local, offset, pool, node.slot, block.n_blocks == 1);
}

}  // namespace bitgrove

using namespace bitgrove;

#define BUILD_KERNEL(WORDS, HALF_BITS, N_THREADS, BLOCKS)                                      \
  extern "C" __global__ void __launch_bounds__(N_THREADS, BLOCKS) build_##WORDS##_##HALF_BITS( \
      int64_t* pool, int64_t n_bins, int64_t wide, const __grid_constant__ PlacedBins bins,    \
      int64_t n_features, const int64_t* bin_offset, const int32_t* rows, const void* packed,  \
      const __grid_constant__ Plan plan, int64_t sizes_at, int64_t builds_at,                  \
      int64_t first_block_at) {                                                                \
    wait_for_last_kernel();                                                                    \
    extern __shared__ __align__(16) uint32_t local[];                                          \
    const RoundSizes& sizes = *plan.at<RoundSizes>(sizes_at);                                  \
    if (blockIdx.x >= sizes.build_blocks) return;                                              \
    const int64_t* first_block = plan.at<int64_t>(first_block_at);                             \
    const NodeBlock block = node_block(first_block, sizes.n_built, blockIdx.x);                \
    const Source source{bins, n_features, bin_offset, rows};                                   \
    build<Packed<HALF_BITS>, WORDS>(source, packed, Pool{pool, n_bins, wide != 0},             \
                                    plan.at<Build>(builds_at), block, local);                  \
  }

BUILD_KERNEL(1, 8, BUILD_THREADS, 3)
BUILD_KERNEL(1, 16, BUILD_THREADS, 3)
BUILD_KERNEL(2, 8, BUILD_THREADS, 3)
BUILD_KERNEL(2, 16, BUILD_THREADS, 3)
BUILD_KERNEL(3, 32, WIDE_BUILD_THREADS, 1)

// Zeroes the slots of nodes that several blocks, or none, will add to.
extern "C" __global__ void clear_slots(int64_t* pool, int64_t slot_size,
                                       const __grid_constant__ Plan plan, int64_t sizes_at,
                                       int64_t builds_at, int64_t first_block_at) {
  wait_for_last_kernel();
  const RoundSizes& sizes = *plan.at<RoundSizes>(sizes_at);
  const int64_t* first_block = plan.at<int64_t>(first_block_at);
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t node = 0; node < sizes.n_built; ++node) {
    if (first_block[node + 1] - first_block[node] == 1) continue;
    int64_t* slot = pool + plan.at<Build>(builds_at)[node].slot * slot_size;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < slot_size;
         i += step)
      slot[i] = 0;
  }
}

// out slot = parent slot - built slot; one subtraction serves both halves, packed or apart.
extern "C" __global__ void subtract_slots(int64_t* pool, int64_t slot_size,
                                          const __grid_constant__ Plan plan,
                                          int64_t subtractions_at, int64_t begin, int64_t end,
                                          int64_t blocks_per_slot) {
  const int64_t pair = blockIdx.x / blocks_per_slot, part = blockIdx.x % blocks_per_slot;
  const Subtraction* step = plan.at<Subtraction>(subtractions_at) + pair;
  const int64_t* parent = pool + step->parent_slot * slot_size;
  const int64_t* built = pool + step->built_slot * slot_size;
  int64_t* out = pool + step->out_slot * slot_size;
  for (int64_t i = begin + part * blockDim.x + threadIdx.x; i < end;
       i += blocks_per_slot * blockDim.x)
    out[i] = Packed<32>::subtract(parent[i], built[i]);
}
