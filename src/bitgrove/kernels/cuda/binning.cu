// Values to bins: writes the row-major tiles (histograms) and the columns (partition, validation).
#include "blocks.h"
#include "layouts.h"
#include "plans.h"
#include "tiles.h"
#include "values.h"

namespace bitgrove {

constexpr int ROWS_PER_THREAD = BIN_ROWS / THREADS;

struct Binned {
  uint8_t *tiles, *columns;
  int64_t n_rows, n_features, column_stride;
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
  uint8_t* column = out.columns + feature * out.column_stride;
  const Real* values = reinterpret_cast<const Real*>(source.address);
  for (int k = 0; k < ROWS_PER_THREAD; ++k) {
    const int64_t i =
        (static_cast<int64_t>(blockIdx.x) * ROWS_PER_THREAD + k) * THREADS + threadIdx.x;
    if (i >= n) return;
    const int found = bin_of(values[i * source.stride], edges, n_edges);
    if (found == n_edges + 1) any_missing[feature] = 1;
    const uint8_t bin = static_cast<uint8_t>(found);
    column[first_row + i] = bin;
    tile_rows[(first_row + i) * stride] = bin;
  }
}

}  // namespace bitgrove

using namespace bitgrove;

#define BIN_KERNEL(NAME, REAL)                                                                   \
  extern "C" __global__ void __launch_bounds__(THREADS)                                          \
      NAME(const DeviceColumn* sources, int64_t n, int64_t first_row, const double* edge_values, \
           const int64_t* edge_offset, uint8_t* tiles, uint8_t* columns, int64_t n_rows,         \
           int64_t n_features, int64_t column_stride, int32_t* any_missing) {                    \
    const Binned out{tiles, columns, n_rows, n_features, column_stride};                         \
    bin_values<REAL>(sources, n, first_row, edge_values, edge_offset, out, any_missing);         \
  }

BIN_KERNEL(bin_float32, float)
BIN_KERNEL(bin_float64, double)
BIN_KERNEL(bin_uint8, uint8_t)
