// Values to bins: row-major tiles, which histograms and walks read; columns of them for partitions.
#include "blocks.h"
#include "layouts.h"
#include "plans.h"
#include "tiles.h"
#include "values.h"

namespace bitgrove {

constexpr int ROWS_PER_THREAD = BIN_ROWS / THREADS;

struct Binned {
  uint8_t* tiles;
  int64_t n_rows, n_features;
};

template <class Real>
__device__ int bin_of(Real value, const double* edges, int n_edges) {
  const double x = widen(value);
  return x != x ? n_edges + 1 : static_cast<int>(count_below(edges, x));
}

// Bins that are bins already.
__device__ int bin_of(uint8_t bin, const double*, int) { return bin; }

// The n values of each column are those of the rows [first_row, first_row + n).
template <class Real>
__device__ void bin_values(const DeviceColumn* columns, int64_t n, int64_t first_row,
                           const double* edge_values, const int64_t* edge_offset, const Binned& out,
                           int32_t* any_missing) {
  __shared__ double edges[BINS_PER_FEATURE];
  const DeviceColumn source = columns[blockIdx.y];
  const int64_t feature = source.feature;
  const int64_t first_edge = edge_offset[feature];
  const int n_edges = static_cast<int>(edge_offset[feature + 1] - first_edge);
  for (int e = threadIdx.x; e < BINS_PER_FEATURE; e += THREADS)
    edges[e] =
        e < n_edges ? edge_values[first_edge + e] : __longlong_as_double(0x7FF0000000000000ll);
  __syncthreads();
  const int tile = static_cast<int>(feature / TILE_FEATURES),
            n_features = static_cast<int>(out.n_features);
  const int64_t stride = TileView::stride_of(tile, n_features);
  uint8_t* tile_rows = out.tiles + TileView::offset_of(tile, out.n_rows) + feature % TILE_FEATURES;
  const Real* values = reinterpret_cast<const Real*>(source.address);
  for (int k = 0; k < ROWS_PER_THREAD; ++k) {
    const int64_t i =
        (static_cast<int64_t>(blockIdx.x) * ROWS_PER_THREAD + k) * THREADS + threadIdx.x;
    if (i >= n) return;
    const int found = bin_of(values[i * source.stride], edges, n_edges);
    if (found == n_edges + 1) any_missing[feature] = 1;
    tile_rows[(first_row + i) * stride] = static_cast<uint8_t>(found);
  }
}

}  // namespace bitgrove

using namespace bitgrove;

#define BIN_KERNEL(NAME, REAL)                                                                   \
  extern "C" __global__ void __launch_bounds__(THREADS)                                          \
      NAME(const DeviceColumn* sources, int64_t n, int64_t first_row, const double* edge_values, \
           const int64_t* edge_offset, uint8_t* tiles, int64_t n_rows, int64_t n_features,       \
           int32_t* any_missing) {                                                               \
    const Binned out{tiles, n_rows, n_features};                                                 \
    bin_values<REAL>(sources, n, first_row, edge_values, edge_offset, out, any_missing);         \
  }

BIN_KERNEL(bin_float32, float)
BIN_KERNEL(bin_float64, double)
BIN_KERNEL(bin_uint8, uint8_t)

// Columns of the rows [first_row, first_row + n) of tiles that have n_rows; a tile per blockIdx.y.
extern "C" __global__ void __launch_bounds__(THREADS)
    columns_of_tiles(const uint8_t* tiles, int64_t n_rows, int64_t n_features, int64_t first_row,
                     int64_t n, uint8_t* columns) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i >= n) return;
  const int tile = blockIdx.y, all = static_cast<int>(n_features);
  const int stride = TileView::stride_of(tile, all), n_here = TileView::features_of(tile, all);
  const auto* row = reinterpret_cast<const uint32_t*>(tiles + TileView::offset_of(tile, n_rows) +
                                                      (first_row + i) * stride);
  uint8_t* column = columns + static_cast<int64_t>(tile) * TILE_FEATURES * n + i;
  for (int first = 0; first < n_here; first += 4) {
    const uint32_t bins = row[first / 4];
    for (int f = first; f < first + 4 && f < n_here; ++f)
      column[f * n] = static_cast<uint8_t>(bins >> (8 * (f - first)));
  }
}
