// Scores to float32 gradients and hessians, elementwise; and their order-free bounds.
//
// Every kernel also takes the largest magnitude of each output: top[2 k] of its gradients,
// top[2 k + 1] of its hessians, as bit patterns (infinities and NaN are above all numbers).
#include "blocks.h"
#include "losses.h"

namespace bitgrove {

constexpr int THREADS = 256;
constexpr int BUCKETS = 2048;  // exponent and three mantissa bits

BG_FN uint32_t magnitude_bits(float x) {
  return static_cast<uint32_t>(__float_as_int(x)) & 0x7FFFFFFFu;
}

BG_FN void take_maximum(uint32_t mine, uint32_t* top) {
  for (int step = WARP / 2; step > 0; step /= 2) {
    const uint32_t other = __shfl_xor_sync(ALL_LANES, mine, step);
    mine = other > mine ? other : mine;
  }
  if (threadIdx.x % WARP == 0 && mine > 0) atomicMax(top, mine);
}

// hess may be null: it is not wanted where it is constant one.
template <class Loss>
__device__ void elementwise(const double* score, const double* label, const float* weight,
                            float* grad, float* hess, double sigmoid, int64_t n_rows,
                            uint32_t* top) {
  uint32_t grad_top = 0, hess_top = 0;
  const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < n_rows;
       i += step) {
    const GradientPair pair = Loss::gradient(score[i], label[i], sigmoid);
    const double w = weight ? static_cast<double>(weight[i]) : 1.0;
    const float g = to_gradient(pair.grad * w);
    grad[i] = g;
    grad_top = max(grad_top, magnitude_bits(g));
    if (hess) {
      const float h = to_gradient(pair.hess * w);
      hess[i] = h;
      hess_top = max(hess_top, magnitude_bits(h));
    }
  }
  take_maximum(grad_top, top);
  take_maximum(hess_top, top + 1);
}

}  // namespace bitgrove

using namespace bitgrove;

#define ELEMENTWISE_KERNEL(NAME, LOSS)                                                 \
  extern "C" __global__ void __launch_bounds__(THREADS)                                \
      NAME(const double* score, const double* label, const float* weight, float* grad, \
           float* hess, double sigmoid, int64_t n_rows, uint32_t* top) {               \
    elementwise<LOSS>(score, label, weight, grad, hess, sigmoid, n_rows, top);         \
  }

ELEMENTWISE_KERNEL(binary_gradients, LogisticLoss)
ELEMENTWISE_KERNEL(squared_gradients, SquaredLoss)

// scores, grad and hess are (n_classes, n_rows). One row per thread: the powers are added in the
// order of classes, and computed again where they are used.
extern "C" __global__ void __launch_bounds__(THREADS)
    softmax_gradients(const double* scores, const double* label, const float* weight, float* grad,
                      float* hess, int64_t n_classes, int64_t n_rows, uint32_t* top) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
  const bool inside = i < n_rows;
  const int64_t row = inside ? i : 0;
  double largest = scores[row], total = 0.0;
  for (int64_t k = 1; k < n_classes; ++k) {
    const double s = scores[k * n_rows + row];
    largest = largest < s ? s : largest;
  }
  for (int64_t k = 0; k < n_classes; ++k)
    total = total + exact_exp(scores[k * n_rows + row] - largest);
  const double w = weight ? static_cast<double>(weight[row]) : 1.0;
  const double factor = static_cast<double>(n_classes) / static_cast<double>(n_classes - 1);
  for (int64_t k = 0; k < n_classes; ++k) {
    const double p = exact_exp(scores[k * n_rows + row] - largest) / total;
    const GradientPair pair = softmax_pair(p, label[row] == static_cast<double>(k), factor);
    const float g = to_gradient(pair.grad * w), h = to_gradient(pair.hess * w);
    if (inside) {
      grad[k * n_rows + i] = g;
      hess[k * n_rows + i] = h;
    }
    take_maximum(inside ? magnitude_bits(g) : 0u, top + 2 * k);
    take_maximum(inside ? magnitude_bits(h) : 0u, top + 2 * k + 1);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    max_magnitude(const float* values, int64_t n, uint32_t* top) {
  uint32_t mine = 0;
  const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < n; i += step)
    mine = max(mine, magnitude_bits(values[i]));
  take_maximum(mine, top);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    count_magnitudes(const float* values, int64_t n, int64_t* counts) {
  __shared__ uint32_t local[BUCKETS];  // a block sees fewer than 2^32 rows
  for (int b = threadIdx.x; b < BUCKETS; b += THREADS) local[b] = 0;
  __syncthreads();
  const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < n; i += step)
    atomicAdd(local + (magnitude_bits(values[i]) >> 20), 1u);
  __syncthreads();
  for (int b = threadIdx.x; b < BUCKETS; b += THREADS)
    if (local[b] != 0) atomic_add(counts + b, local[b]);
}
