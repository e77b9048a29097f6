// Gradients to packed low-bit integers, and the sums the width planner and the grower need.
#include "blocks.h"
#include "layouts.h"
#include "rounding.h"

namespace bitgrove {

constexpr int THREADS = 256;

struct Scaling {
  double inverse_grad, inverse_hess, grad_limit, hess_limit;
};

// totals: sum of |grad|, of hess, rows that are zero, sum of grad.
template <int HalfBits>
__device__ void quantize(const float* grad, const float* hess, const Scaling& s, uint64_t key,
                         uint64_t first_row, bool stochastic, int64_t n_rows,
                         typename Packed<HalfBits>::Sum* out, int64_t* totals) {
  int64_t abs_grad = 0, hess_sum = 0, zeros = 0, grad_sum = 0;
  const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < n_rows;
       i += step) {
    const uint64_t hash =
        stochastic ? row_hash(key, first_row + static_cast<uint64_t>(i)) : NEAREST_NOISE;
    const double g =
        clamp(round_with_noise(static_cast<double>(grad[i]) * s.inverse_grad, grad_noise(hash)),
              s.grad_limit);
    const int32_t gi = static_cast<int32_t>(g);
    int32_t hi = 1;
    if (hess)
      hi = static_cast<int32_t>(
          clamp(round_with_noise(static_cast<double>(hess[i]) * s.inverse_hess, hess_noise(hash)),
                s.hess_limit));
    out[i] = Packed<HalfBits>::pack(gi, hi);
    abs_grad += gi < 0 ? -gi : gi;
    grad_sum += gi;
    hess_sum += hi;
    zeros += (gi | hi) == 0;
  }
  __shared__ int64_t partial[THREADS / WARP];
  const int64_t sums[4] = {block_sum(abs_grad, partial), block_sum(hess_sum, partial),
                           block_sum(zeros, partial), block_sum(grad_sum, partial)};
  if (threadIdx.x == 0)
    for (int k = 0; k < 4; ++k) atomic_add(totals + k, sums[k]);
}

template <class Row>
__device__ void sum_rows(const typename Row::Sum* packed, const int32_t* rows, int64_t n_listed,
                         int64_t* totals) {
  int64_t grad = 0, hess = 0;
  const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < n_listed;
       i += step) {
    const typename Row::Sum value = packed[rows[i]];
    grad += Row::grad(value);
    hess += Row::hess(value);
  }
  __shared__ int64_t partial[THREADS / WARP];
  const int64_t sums[2] = {block_sum(grad, partial), block_sum(hess, partial)};
  if (threadIdx.x == 0)
    for (int k = 0; k < 2; ++k) atomic_add(totals + k, sums[k]);
}

}  // namespace bitgrove

using namespace bitgrove;

#define QUANTIZE_KERNELS(HALF_BITS)                                                               \
  extern "C" __global__ void __launch_bounds__(THREADS) quantize_##HALF_BITS(                     \
      const float* grad, const float* hess, double inverse_grad, double inverse_hess,             \
      double grad_limit, double hess_limit, uint64_t key, uint64_t first_row, int64_t stochastic, \
      int64_t n_rows, Packed<HALF_BITS>::Sum* out, int64_t* totals) {                             \
    const Scaling scaling{inverse_grad, inverse_hess, grad_limit, hess_limit};                    \
    quantize<HALF_BITS>(grad, hess, scaling, key, first_row, stochastic != 0, n_rows, out,        \
                        totals);                                                                  \
  }                                                                                               \
  extern "C" __global__ void __launch_bounds__(THREADS)                                           \
      sum_rows_##HALF_BITS(const Packed<HALF_BITS>::Sum* packed, const int32_t* rows,             \
                           int64_t n_listed, int64_t* totals) {                                   \
    sum_rows<Packed<HALF_BITS>>(packed, rows, n_listed, totals);                                  \
  }

QUANTIZE_KERNELS(8)
QUANTIZE_KERNELS(16)
QUANTIZE_KERNELS(32)

// Which rows are in the sample: sampling without any stream of numbers.
extern "C" __global__ void __launch_bounds__(THREADS)
    sample_rows(uint64_t key, uint64_t first_row, uint64_t threshold, int64_t n_rows,
                uint8_t* selected) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i < n_rows) selected[i] = row_hash(key, first_row + static_cast<uint64_t>(i)) < threshold;
}

extern "C" __global__ void __launch_bounds__(THREADS) all_rows(int32_t* rows, int64_t n_rows) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < n_rows; i += step)
    rows[i] = static_cast<int32_t>(i);
}
