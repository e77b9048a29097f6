// Scores to float32 gradients and hessians, row by row; one kernel for each loss of losses.h.
//
// Every kernel also takes the largest magnitude of each output: tops[2 k] of its gradients,
// tops[2 k + 1] of its hessians. The loss's parameters come last, one by one.
#include "blocks.h"
#include "losses.h"
#include "magnitudes.h"
#include "plans.h"

namespace bitgrove {

struct GradientArrays {  // (n_outputs, n_rows), and one entry per row
  const double *scores, *label;
  const float* weight;  // null: one everywhere
  float *grad, *hess;   // hess may be null: it is not wanted where it is constant one
  int64_t n_outputs, n_rows;
  uint32_t* tops;
};

template <class Loss>
__device__ void elementwise(const GradientArrays& a, const LossParameters& parameters) {
  uint32_t grad_top = 0, hess_top = 0;
  const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < a.n_rows;
       i += step) {
    const GradientPair pair = Loss::gradient(a.scores[i], a.label[i], parameters);
    const double w = a.weight ? static_cast<double>(a.weight[i]) : 1.0;
    const float g = to_gradient(pair.grad * w);
    a.grad[i] = g;
    grad_top = max(grad_top, magnitude_bits(g));
    if (a.hess) {
      const float h = to_gradient(pair.hess * w);
      a.hess[i] = h;
      hess_top = max(hess_top, magnitude_bits(h));
    }
  }
  take_maximum(grad_top, a.tops);
  take_maximum(hess_top, a.tops + 1);
}

// One row per thread: the powers are added in the order of classes, and computed again where they
// are used.
template <class Loss>
__device__ void softmax(const GradientArrays& a, const LossParameters& parameters) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
  const bool inside = i < a.n_rows;
  const int64_t row = inside ? i : 0;
  double largest = a.scores[row], total = 0.0;
  for (int64_t k = 1; k < a.n_outputs; ++k) {
    const double s = a.scores[k * a.n_rows + row];
    largest = largest < s ? s : largest;
  }
  for (int64_t k = 0; k < a.n_outputs; ++k)
    total = total + exact_exp(a.scores[k * a.n_rows + row] - largest);
  const double w = a.weight ? static_cast<double>(a.weight[row]) : 1.0;
  for (int64_t k = 0; k < a.n_outputs; ++k) {
    const double p = exact_exp(a.scores[k * a.n_rows + row] - largest) / total;
    const GradientPair pair = Loss::gradient(p, a.label[row] == static_cast<double>(k), parameters);
    const float g = to_gradient(pair.grad * w), h = to_gradient(pair.hess * w);
    if (inside) {
      a.grad[k * a.n_rows + i] = g;
      a.hess[k * a.n_rows + i] = h;
    }
    take_maximum(inside ? magnitude_bits(g) : 0u, a.tops + 2 * k);
    take_maximum(inside ? magnitude_bits(h) : 0u, a.tops + 2 * k + 1);
  }
}

}  // namespace bitgrove

using namespace bitgrove;

#define GRADIENT_KERNEL(NAME, BODY)                                                             \
  extern "C" __global__ void __launch_bounds__(THREADS) NAME##_gradients(                       \
      const double* scores, const double* label, const float* weight, float* grad, float* hess, \
      int64_t n_outputs, int64_t n_rows, uint32_t* tops, BG_PARAMETER_ARGUMENTS) {              \
    const GradientArrays arrays{scores, label, weight, grad, hess, n_outputs, n_rows, tops};    \
    BODY(arrays, LossParameters{{BG_PARAMETERS}});                                              \
  }
#define ELEMENTWISE_KERNEL(NAME, LOSS) GRADIENT_KERNEL(NAME, elementwise<LOSS>)
#define SOFTMAX_KERNEL(NAME, LOSS) GRADIENT_KERNEL(NAME, softmax<LOSS>)

BG_ELEMENTWISE_LOSSES(ELEMENTWISE_KERNEL)
BG_SOFTMAX_LOSSES(SOFTMAX_KERNEL)

// Gradients that a function of the user's has made, one output.
extern "C" __global__ void __launch_bounds__(THREADS)
    given_gradients(const double* given_grad, const double* given_hess, float* grad, float* hess,
                    int64_t n_rows, uint32_t* tops) {
  uint32_t grad_top = 0, hess_top = 0;
  const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < n_rows;
       i += step) {
    grad[i] = to_gradient(given_grad[i]);
    hess[i] = to_gradient(given_hess[i]);
    grad_top = max(grad_top, magnitude_bits(grad[i]));
    hess_top = max(hess_top, magnitude_bits(hess[i]));
  }
  take_maximum(grad_top, tops);
  take_maximum(hess_top, tops + 1);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    count_magnitudes(const float* values, int64_t n, int64_t* counts) {
  __shared__ BlockCounts local;
  local.clear();
  const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < n; i += step)
    local.add(values[i]);
  local.add_to(counts);
}
