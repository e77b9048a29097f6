// Stable partition of each node's rows by its split, for a batch of nodes at once.
//
// `divide` splits every block of rows on its own, left rows first; `place`, after the counts are
// known, copies each block's two halves to their places. Rows of a node stay in ascending order.
// The host reads a node's count while `place` is still at work: the last block of the node to
// divide its rows writes the count into the host's memory. `place` also clears slots that the next
// builds will probably add to.
#include "blocking.h"
#include "blocks.h"
#include "placed_bins.h"
#include "placing.h"
#include "plans.h"
#include "tiles.h"

namespace bitgrove {

constexpr int ROWS_PER_LANE = 8;
constexpr int WARP_ROWS = WARP * ROWS_PER_LANE;
static_assert(PARTITION_ROWS == PARTITION_THREADS * ROWS_PER_LANE, "a lane owns eight rows");

// Adds a block's count to its node's progress (blocks in the upper half, rows in the lower); the
// last block tells the host the sum, and leaves zero for the next launch.
BG_FN void report(Word64* progress, int64_t n_blocks, int left, volatile int64_t* node_left) {
  const Word64 before = atomicAdd(progress, (Word64{1} << 32) + static_cast<Word64>(left));
  if (static_cast<int64_t>(before >> 32) + 1 < n_blocks) return;
  *progress = 0;
  *node_left = static_cast<int64_t>(before & 0xFFFFFFFFu) + left;
}

}  // namespace bitgrove

using namespace bitgrove;

// A warp owns 256 consecutive rows and takes 32 of them at a time.
extern "C" __global__ void __launch_bounds__(PARTITION_THREADS)
    divide(const int32_t* __restrict__ rows, int32_t* __restrict__ scratch,
           const __grid_constant__ PlacedBins bins_of_rows, int64_t n_features,
           const __grid_constant__ Plan plan, int64_t sizes_at, int64_t divisions_at,
           int64_t first_block_at, int64_t* n_left, Word64* progress, int64_t* node_left) {
  wait_for_last_kernel();
  const RoundSizes& sizes = *plan.at<RoundSizes>(sizes_at);
  if (blockIdx.x >= sizes.division_blocks) return;
  const int64_t* first_block = plan.at<int64_t>(first_block_at);
  const NodeBlock block = node_block(first_block, sizes.n_divided, blockIdx.x);
  const Division* planned = plan.at<Division>(divisions_at) + block.node;
  const Division split = *planned;
  const BinColumn column(bins_of_rows, split.feature, static_cast<int>(n_features));
  const int64_t begin = split.begin + block.index * PARTITION_ROWS;
  const int64_t n_block = split.end - begin < PARTITION_ROWS ? split.end - begin : PARTITION_ROWS;
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  int32_t mine[ROWS_PER_LANE];
  int bins[ROWS_PER_LANE];
  unsigned lefts[ROWS_PER_LANE];
  int left_here = 0;
  // All loads are on their way before the first is waited for.
#pragma unroll
  for (int k = 0; k < ROWS_PER_LANE; ++k) {
    const int at = warp * WARP_ROWS + k * WARP + lane;
    mine[k] = at < n_block ? rows[begin + at] : -1;
  }
#pragma unroll
  for (int k = 0; k < ROWS_PER_LANE; ++k) bins[k] = mine[k] >= 0 ? column.bin(mine[k]) : 0;
#pragma unroll
  for (int k = 0; k < ROWS_PER_LANE; ++k) {
    const bool left =
        mine[k] >= 0 &&
        (split.bin == SUBSET
             ? planned->left_bins.holds(bins[k])  // where it lies: words of a copy have no index
             : goes_left(bins[k], split.bin, split.missing_bin, split.default_left != 0));
    lefts[k] = __ballot_sync(ALL_LANES, left);
    left_here += __popc(lefts[k]);
  }
  __shared__ int left_of_warp[PARTITION_WARPS];
  if (lane == 0) left_of_warp[warp] = left_here;
  __syncthreads();
  int left_before = 0, left_total = 0;
  for (int w = 0; w < PARTITION_WARPS; ++w) {
    left_before += w < warp ? left_of_warp[w] : 0;
    left_total += left_of_warp[w];
  }
  const unsigned lower_lanes = (1u << lane) - 1u;
#pragma unroll
  for (int k = 0; k < ROWS_PER_LANE; ++k) {
    const int at = warp * WARP_ROWS + k * WARP + lane;
    const int rank = left_before + __popc(lefts[k] & lower_lanes);  // left rows before this one
    if (at < n_block)
      scratch[begin + ((lefts[k] >> lane) & 1u ? rank : left_total + at - rank)] = mine[k];
    left_before += __popc(lefts[k]);
  }
  if (threadIdx.x > 0) return;
  n_left[blockIdx.x] = left_total;
  report(progress + block.node, block.n_blocks, left_total, node_left + block.node);
}

extern "C" __global__ void __launch_bounds__(PARTITION_THREADS) place(PLACE_ARGUMENTS) {
  wait_for_last_kernel();
  place_rows(PLACE_NAMES, blockIdx.x, gridDim.x);
}
