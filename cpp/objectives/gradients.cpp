// Scores to float32 gradients and hessians, elementwise; and their order-free bounds.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "bindings/rooms.h"
#include "common/parallel.h"
#include "losses.h"

namespace bitgrove {
namespace {

// Every loss writes grad and hess of one row; the weight multiplies both.
template <class Loss>
void elementwise(Vector<const double> score, Vector<const double> label,
                 Optional<const float> weight, Vector<float> grad, Vector<float> hess,
                 double sigmoid, int n_threads, int simd) {
  const int64_t n = score.shape(0);
  require(static_cast<int64_t>(label.shape(0)) == n && static_cast<int64_t>(grad.shape(0)) == n &&
              static_cast<int64_t>(hess.shape(0)) == n,
          "arrays differ in length");
  require(!weight || static_cast<int64_t>(weight->shape(0)) == n, "weight differs in length");
  const double *s = score.data(), *y = label.data();
  const float* w = weight ? weight->data() : nullptr;
  float *g = grad.data(), *h = hess.data();
  nb::gil_scoped_release release;
  parallel_rows(n, n_threads, [&](int64_t begin, int64_t end) {
    with_simd(static_cast<Simd>(simd), [=] {
      if (w)
        for (int64_t i = begin; i < end; ++i) {
          const GradientPair pair = Loss::gradient(s[i], y[i], sigmoid);
          g[i] = to_gradient(pair.grad * static_cast<double>(w[i]));
          h[i] = to_gradient(pair.hess * static_cast<double>(w[i]));
        }
      else
        for (int64_t i = begin; i < end; ++i) {
          const GradientPair pair = Loss::gradient(s[i], y[i], sigmoid);
          g[i] = to_gradient(pair.grad);
          h[i] = to_gradient(pair.hess);
        }
    });
  });
}

// Rows of a softmax that are worked on together: class by class, so that rows share instructions.
constexpr int64_t SOFTMAX_ROWS = 256;

struct SoftmaxArrays {  // (n_classes, n_rows), and one entry per row
  const double* scores;
  const double* label;
  const float* weight;  // null: one everywhere
  float *grad, *hess;
  int64_t n_classes, n_rows;
};

// `p` has room for a block's probabilities of all classes.
BG_FN void softmax_block(const SoftmaxArrays& arrays, int64_t begin, int64_t n, double* p) {
  double top[SOFTMAX_ROWS], total[SOFTMAX_ROWS] = {}, weight[SOFTMAX_ROWS];
  const double* scores = arrays.scores + begin;
  const double* label = arrays.label + begin;
  std::copy_n(scores, n, top);
  for (int64_t k = 1; k < arrays.n_classes; ++k)
    for (int64_t i = 0; i < n; ++i) top[i] = std::max(top[i], scores[k * arrays.n_rows + i]);
  for (int64_t k = 0; k < arrays.n_classes; ++k)
    for (int64_t i = 0; i < n; ++i) {
      p[k * SOFTMAX_ROWS + i] = exact_exp(scores[k * arrays.n_rows + i] - top[i]);
      total[i] = total[i] + p[k * SOFTMAX_ROWS + i];
    }
  if (arrays.weight)
    std::copy_n(arrays.weight + begin, n, weight);
  else
    std::fill_n(weight, n, 1.0);
  const double factor =
      static_cast<double>(arrays.n_classes) / static_cast<double>(arrays.n_classes - 1);
  for (int64_t k = 0; k < arrays.n_classes; ++k) {
    float *grad = arrays.grad + k * arrays.n_rows + begin,
          *hess = arrays.hess + k * arrays.n_rows + begin;
    for (int64_t i = 0; i < n; ++i) {
      const double pk = p[k * SOFTMAX_ROWS + i] / total[i];
      const GradientPair pair = softmax_pair(pk, label[i] == static_cast<double>(k), factor);
      grad[i] = to_gradient(pair.grad * weight[i]);
      hess[i] = to_gradient(pair.hess * weight[i]);
    }
  }
}

void softmax(Matrix<const double> scores, Vector<const double> label, Optional<const float> weight,
             Matrix<float> grad, Matrix<float> hess, int n_threads, int simd) {
  const int64_t n_classes = scores.shape(0), n = scores.shape(1);
  require(static_cast<int64_t>(label.shape(0)) == n && static_cast<int64_t>(grad.shape(1)) == n &&
              static_cast<int64_t>(hess.shape(1)) == n &&
              static_cast<int64_t>(grad.shape(0)) == n_classes &&
              static_cast<int64_t>(hess.shape(0)) == n_classes,
          "arrays differ in shape");
  require(!weight || static_cast<int64_t>(weight->shape(0)) == n, "weight differs in length");
  const SoftmaxArrays arrays{scores.data(),
                             label.data(),
                             weight ? weight->data() : nullptr,
                             grad.data(),
                             hess.data(),
                             n_classes,
                             n};
  nb::gil_scoped_release release;
  parallel_rows(n, n_threads, [&](int64_t begin, int64_t end) {
    std::vector<double> p(n_classes * SOFTMAX_ROWS);
    for (int64_t first = begin; first < end; first += SOFTMAX_ROWS)
      with_simd(static_cast<Simd>(simd), [&] {
        softmax_block(arrays, first, std::min(SOFTMAX_ROWS, end - first), p.data());
      });
  });
}

uint32_t magnitude_bits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits & 0x7FFFFFFFu;
}

// The largest |x| as its bit pattern; infinities and NaN are above all numbers.
uint32_t max_magnitude(Vector<const float> x, int n_threads, int simd) {
  const float* data = x.data();
  std::atomic<uint32_t> result{0};
  nb::gil_scoped_release release;
  parallel_rows(x.shape(0), n_threads, [&](int64_t begin, int64_t end) {
    uint32_t top = 0;
    with_simd(static_cast<Simd>(simd), [&, data] {
      uint32_t local = 0;
      for (int64_t i = begin; i < end; ++i) local = std::max(local, magnitude_bits(data[i]));
      top = local;
    });
    uint32_t seen = result.load();
    while (seen < top && !result.compare_exchange_weak(seen, top)) {
    }
  });
  return result;
}

// How many |x| fall into each of 2,048 buckets of exponent and three mantissa bits.
void count_magnitudes(Vector<const float> x, Vector<int64_t> counts, int n_threads) {
  require(counts.shape(0) == 2048, "counts must have 2048 entries");
  const float* data = x.data();
  int64_t* total = counts.data();
  std::fill_n(total, 2048, 0);
  nb::gil_scoped_release release;
  parallel_rows(x.shape(0), n_threads, [&](int64_t begin, int64_t end) {
    std::vector<int64_t> local(2048);
    for (int64_t i = begin; i < end; ++i) ++local[magnitude_bits(data[i]) >> 20];
    for (int b = 0; b < 2048; ++b)
      if (local[b])
        std::atomic_ref<int64_t>(total[b]).fetch_add(local[b], std::memory_order_relaxed);
  });
}

}  // namespace

void init_gradients(nb::module_& m) {
  m.def("binary_gradients", &elementwise<LogisticLoss>, nb::arg(), nb::arg(), nb::arg().none(),
        nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg());
  m.def("squared_gradients", &elementwise<SquaredLoss>, nb::arg(), nb::arg(), nb::arg().none(),
        nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg());
  m.def("softmax_gradients", &softmax, nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg(),
        nb::arg(), nb::arg());
  m.def("max_magnitude", &max_magnitude);
  m.def("count_magnitudes", &count_magnitudes);
}

}  // namespace bitgrove
