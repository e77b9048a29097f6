// Which rows a tree is grown on: row lists, and gradients of which only some rows are kept.
#include "answers.h"
#include "blocks.h"
#include "magnitudes.h"
#include "sampling.h"

namespace bitgrove {

BG_FN double hess_at(const float* hess, int64_t i) {
  return hess ? static_cast<double>(hess[i]) : 1.0;
}

}  // namespace bitgrove

using namespace bitgrove;

extern "C" __global__ void __launch_bounds__(THREADS) all_rows(int32_t* rows, int64_t n_rows) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < n_rows; i += step)
    rows[i] = static_cast<int32_t>(i);
}

// Which rows are drawn: sampling without any stream of numbers.
extern "C" __global__ void __launch_bounds__(THREADS)
    sample_rows(uint64_t key, uint64_t first_row, uint64_t limit, const uint64_t* ids,
                const uint64_t* limits, int64_t n_rows, uint8_t* selected) {
  const Draw draw{key, first_row, limit, ids, limits};
  const int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i < n_rows) selected[i] = is_drawn(draw, i);
}

// How many sizes fall into each bucket of magnitudes.
extern "C" __global__ void __launch_bounds__(THREADS)
    count_importance(const float* grad, const float* hess, double hess_share, int64_t n_rows,
                     const __grid_constant__ AnswerPlace answer) {
  __shared__ BlockCounts local;
  local.clear();
  const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < n_rows; i += step)
    local.add(to_gradient(importance(static_cast<double>(grad[i]), hess_at(hess, i), hess_share)));
  local.add_to(sums_of<int64_t>(answer));
  tell_host(answer);
}

// Gradients of the kept rows over their chance to be kept, zero of the others; their magnitudes are
// added up.
extern "C" __global__ void __launch_bounds__(THREADS)
    keep_rows(const float* grad, const float* hess, double hess_share, double whole, double base,
              double slope, uint64_t key, uint64_t first_row, int64_t n_rows, float* out_grad,
              float* out_hess, const __grid_constant__ AnswerPlace answer) {
  const KeepRule rule{hess_share, whole, base, slope, key, first_row};
  Magnitudes mine{};
  const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < n_rows;
       i += step) {
    const double g = static_cast<double>(grad[i]), h = hess_at(hess, i);
    const double weight = kept_weight(rule, g, h, i);
    const float kept_grad = to_gradient(g * weight), kept_hess = to_gradient(h * weight);
    out_grad[i] = kept_grad;
    out_hess[i] = kept_hess;
    take_magnitudes(kept_grad, kept_hess, mine);
  }
  add_magnitudes(sums_of<Magnitudes>(answer), mine);
  tell_host(answer);
}
