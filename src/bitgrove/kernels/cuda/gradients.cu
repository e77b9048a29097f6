// Scores to float32 gradients and hessians, row by row; one kernel for each loss of losses.h.
//
// Every kernel also adds up the magnitudes of each output, from first_output on. The loss's
// parameters come last, one by one.
#include "answers.h"
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
  Magnitudes* magnitudes;
};

template <class Loss>
__device__ void elementwise(const GradientArrays& a, const LossParameters& parameters) {
  Magnitudes mine{};
  const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < a.n_rows;
       i += step) {
    const GradientPair pair = Loss::gradient(a.scores[i], a.label[i], parameters);
    const double w = a.weight ? static_cast<double>(a.weight[i]) : 1.0;
    const float g = to_gradient(pair.grad * w);
    a.grad[i] = g;
    float h = 0.0f;
    if (a.hess) a.hess[i] = h = to_gradient(pair.hess * w);
    take_magnitudes(g, h, mine);
  }
  add_magnitudes(a.magnitudes, mine);
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
    Magnitudes mine{};
    if (inside) {
      a.grad[k * a.n_rows + i] = g;
      a.hess[k * a.n_rows + i] = h;
      take_magnitudes(g, h, mine);
    }
    add_magnitudes(a.magnitudes + k, mine);
  }
}

}  // namespace bitgrove

using namespace bitgrove;

#define GRADIENT_KERNEL(NAME, BODY)                                                                \
  extern "C" __global__ void __launch_bounds__(THREADS) NAME##_gradients(                          \
      const double* scores, const double* label, const float* weight, float* grad, float* hess,    \
      int64_t n_outputs, int64_t n_rows, const __grid_constant__ AnswerPlace answer,               \
      int64_t first_output, BG_PARAMETER_ARGUMENTS) {                                              \
    Magnitudes* magnitudes = sums_of<Magnitudes>(answer) + first_output;                           \
    const GradientArrays arrays{scores, label, weight, grad, hess, n_outputs, n_rows, magnitudes}; \
    BODY(arrays, LossParameters{{BG_PARAMETERS}});                                                 \
    tell_host(answer);                                                                             \
  }
#define ELEMENTWISE_KERNEL(NAME, LOSS) GRADIENT_KERNEL(NAME, elementwise<LOSS>)
#define SOFTMAX_KERNEL(NAME, LOSS) GRADIENT_KERNEL(NAME, softmax<LOSS>)

BG_ELEMENTWISE_LOSSES(ELEMENTWISE_KERNEL)
BG_SOFTMAX_LOSSES(SOFTMAX_KERNEL)

// Gradients that a function of the user's has made, one output.
extern "C" __global__ void __launch_bounds__(THREADS)
    given_gradients(const double* given_grad, const double* given_hess, float* grad, float* hess,
                    int64_t n_rows, const __grid_constant__ AnswerPlace answer, int64_t output) {
  Magnitudes mine{};
  const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < n_rows;
       i += step) {
    grad[i] = to_gradient(given_grad[i]);
    hess[i] = to_gradient(given_hess[i]);
    take_magnitudes(grad[i], hess[i], mine);
  }
  add_magnitudes(sums_of<Magnitudes>(answer) + output, mine);
  tell_host(answer);
}
