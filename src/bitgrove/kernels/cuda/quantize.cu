// Gradients to packed low-bit integers, and the sums the width planner and the grower need.
#include "answers.h"
#include "blocks.h"
#include "plans.h"
#include "rounding.h"

namespace bitgrove {

template <int HalfBits>
__device__ void quantize(const float* grad, const float* hess, const Rounding& r, int64_t n_rows,
                         typename Packed<HalfBits>::Sum* out, const AnswerPlace& answer) {
  RowTotals mine{};
  const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < n_rows;
       i += step) {
    const uint64_t hash =
        r.stochastic ? row_hash(r.key, r.first_row + static_cast<uint64_t>(i)) : NEAREST_NOISE;
    const double x = static_cast<double>(grad[i]) * r.inverse_grad;
    const double g = clamp(round_with_noise(x, grad_noise(hash)), r.grad_limit);
    const int32_t gi = static_cast<int32_t>(g);
    int32_t hi = 1;
    if (hess)
      hi = static_cast<int32_t>(
          clamp(round_with_noise(static_cast<double>(hess[i]) * r.inverse_hess, hess_noise(hash)),
                r.hess_limit));
    out[i] = Packed<HalfBits>::pack(gi, hi);
    mine.abs_grad += gi < 0 ? -gi : gi;
    mine.grad += gi;
    mine.hess += hi;
    mine.zero_rows += (gi | hi) == 0;
    if (HalfBits < 32) {
      mine.squared_grad += gi * gi;
      mine.squared_error += squared_error(g, x);
    }
  }
  __shared__ int64_t partial[THREADS / WARP];
  mine = {block_sum(mine.abs_grad, partial),     block_sum(mine.grad, partial),
          block_sum(mine.hess, partial),         block_sum(mine.zero_rows, partial),
          block_sum(mine.squared_grad, partial), block_sum(mine.squared_error, partial)};
  if (threadIdx.x == 0) {
    RowTotals* totals = sums_of<RowTotals>(answer);
    atomic_add(&totals->abs_grad, mine.abs_grad);
    atomic_add(&totals->grad, mine.grad);
    atomic_add(&totals->hess, mine.hess);
    atomic_add(&totals->zero_rows, mine.zero_rows);
    atomic_add(&totals->squared_grad, mine.squared_grad);
    atomic_add(&totals->squared_error, mine.squared_error);
  }
  tell_host(answer);
}

template <class Row>
__device__ void sum_rows(const typename Row::Sum* packed, const int32_t* rows, int64_t n_listed,
                         const AnswerPlace& answer) {
  int64_t grad = 0, hess = 0;
  const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < n_listed;
       i += step) {
    const typename Row::Sum value = packed[rows[i]];
    grad += Row::grad(value);
    hess += Row::hess(value);
  }
  __shared__ int64_t partial[THREADS / WARP];
  grad = block_sum(grad, partial);
  hess = block_sum(hess, partial);
  if (threadIdx.x == 0) {
    GradientSums* sums = sums_of<GradientSums>(answer);
    atomic_add(&sums->grad, grad);
    atomic_add(&sums->hess, hess);
  }
  tell_host(answer);
}

}  // namespace bitgrove

using namespace bitgrove;

#define QUANTIZE_KERNELS(HALF_BITS)                                                               \
  extern "C" __global__ void __launch_bounds__(THREADS) quantize_##HALF_BITS(                     \
      const float* grad, const float* hess, double inverse_grad, double inverse_hess,             \
      double grad_limit, double hess_limit, uint64_t key, uint64_t first_row, int64_t stochastic, \
      int64_t n_rows, Packed<HALF_BITS>::Sum* out, const __grid_constant__ AnswerPlace answer) {  \
    const Rounding rounding{inverse_grad, inverse_hess, grad_limit, hess_limit,                   \
                            key,          first_row,    stochastic};                              \
    quantize<HALF_BITS>(grad, hess, rounding, n_rows, out, answer);                               \
  }                                                                                               \
  extern "C" __global__ void __launch_bounds__(THREADS)                                           \
      sum_rows_##HALF_BITS(const Packed<HALF_BITS>::Sum* packed, const int32_t* rows,             \
                           int64_t n_listed, const __grid_constant__ AnswerPlace answer) {        \
    sum_rows<Packed<HALF_BITS>>(packed, rows, n_listed, answer);                                  \
  }

QUANTIZE_KERNELS(8)
QUANTIZE_KERNELS(16)
QUANTIZE_KERNELS(32)
