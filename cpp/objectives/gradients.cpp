// Scores to float32 gradients and hessians, row by row; and their order-free bounds.
#include "objectives/gradients.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <optional>

#include "common/parallel.h"
#include "plans.h"

namespace bitgrove {
namespace {

// The weight multiplies both derivatives; `weight_of` is a constant one where there is none.
template <class LossOf, class WeightOf>
BG_FN void elementwise_block(const GradientCall& call, int64_t begin, int64_t end,
                             WeightOf weight_of) {
  const LossParameters parameters = call.parameters;
  const double *score = call.scores, *label = call.label;
  float *grad = call.grad, *hess = call.hess;
  for (int64_t i = begin; i < end; ++i) {
    const GradientPair pair = LossOf::gradient(score[i], label[i], parameters);
    grad[i] = to_gradient(pair.grad * weight_of(i));
    hess[i] = to_gradient(pair.hess * weight_of(i));
  }
}

template <class LossOf>
void elementwise(const GradientCall& call) {
  require(call.n_outputs == 1, "an elementwise loss has one output");
  nb::gil_scoped_release release;
  parallel_rows(call.n_rows, call.n_threads, [&](int64_t begin, int64_t end) {
    uint32_t grad_top = 0, hess_top = 0;
    with_simd(call.simd, [&] {
      const float* weight = call.weight;
      if (weight)
        elementwise_block<LossOf>(call, begin, end,
                                  [weight](int64_t i) { return static_cast<double>(weight[i]); });
      else
        elementwise_block<LossOf>(call, begin, end, [](int64_t) { return 1.0; });
      grad_top = largest_magnitude(call.grad + begin, end - begin);
      hess_top = largest_magnitude(call.hess + begin, end - begin);
    });
    raise_top(call.tops[0], grad_top);
    raise_top(call.tops[1], hess_top);
  });
}

// Rows of a softmax that are worked on together: class by class, so that rows share instructions.
constexpr int64_t SOFTMAX_ROWS = 256;

// `p` has room for a block's probabilities of all classes, `tops` for two maxima of each.
template <class LossOf>
BG_FN void softmax_block(const GradientCall& call, int64_t begin, int64_t n, double* p,
                         uint32_t* tops) {
  double top[SOFTMAX_ROWS], total[SOFTMAX_ROWS] = {}, weight[SOFTMAX_ROWS];
  const LossParameters parameters = call.parameters;
  const double* scores = call.scores + begin;
  const double* label = call.label + begin;
  std::copy_n(scores, n, top);
  for (int64_t k = 1; k < call.n_outputs; ++k)
    for (int64_t i = 0; i < n; ++i) top[i] = std::max(top[i], scores[k * call.n_rows + i]);
  for (int64_t k = 0; k < call.n_outputs; ++k)
    for (int64_t i = 0; i < n; ++i) {
      p[k * SOFTMAX_ROWS + i] = exact_exp(scores[k * call.n_rows + i] - top[i]);
      total[i] = total[i] + p[k * SOFTMAX_ROWS + i];
    }
  if (call.weight)
    std::copy_n(call.weight + begin, n, weight);
  else
    std::fill_n(weight, n, 1.0);
  for (int64_t k = 0; k < call.n_outputs; ++k) {
    float *grad = call.grad + k * call.n_rows + begin, *hess = call.hess + k * call.n_rows + begin;
    for (int64_t i = 0; i < n; ++i) {
      const double pk = p[k * SOFTMAX_ROWS + i] / total[i];
      const GradientPair pair =
          LossOf::gradient(pk, label[i] == static_cast<double>(k), parameters);
      grad[i] = to_gradient(pair.grad * weight[i]);
      hess[i] = to_gradient(pair.hess * weight[i]);
    }
    tops[2 * k] = std::max(tops[2 * k], largest_magnitude(grad, n));
    tops[2 * k + 1] = std::max(tops[2 * k + 1], largest_magnitude(hess, n));
  }
}

template <class LossOf>
void softmax(const GradientCall& call) {
  nb::gil_scoped_release release;
  parallel_rows(call.n_rows, call.n_threads, [&](int64_t begin, int64_t end) {
    std::vector<double> p(call.n_outputs * SOFTMAX_ROWS);
    std::vector<uint32_t> tops(2 * call.n_outputs);
    for (int64_t first = begin; first < end; first += SOFTMAX_ROWS)
      with_simd(call.simd, [&] {
        const int64_t n = std::min(SOFTMAX_ROWS, end - first);
        softmax_block<LossOf>(call, first, n, p.data(), tops.data());
      });
    for (int64_t k = 0; k < 2 * call.n_outputs; ++k) raise_top(call.tops[k], tops[k]);
  });
}

#define ELEMENTWISE_LOSS(NAME, LOSS) {#NAME, "elementwise", &elementwise<LOSS>},
#define SOFTMAX_LOSS(NAME, LOSS) {#NAME, "softmax", &softmax<LOSS>},

const std::vector<Loss>& losses() {
  static const std::vector<Loss> all = [] {
    std::vector<Loss> found{BG_ELEMENTWISE_LOSSES(ELEMENTWISE_LOSS)
                                BG_SOFTMAX_LOSSES(SOFTMAX_LOSS)};
    for (const Loss& loss : query_losses()) found.push_back(loss);
    return found;
  }();
  return all;
}

nb::dict loss_families() {
  nb::dict families;
  for (const Loss& loss : losses()) families[loss.name] = loss.family;
  return families;
}

void gradients(const std::string& loss, Matrix<const double> scores, Vector<const double> label,
               Optional<const float> weight, nb::sequence tables,
               std::array<double, N_LOSS_PARAMETERS> parameters, Matrix<float> grad,
               Matrix<float> hess, Matrix<uint32_t> tops, int n_threads, int simd) {
  const size_t n_outputs = scores.shape(0), n_rows = scores.shape(1);
  require(label.shape(0) == n_rows && (!weight || weight->shape(0) == n_rows),
          "label or weight differs in length");
  for (const auto& out : {grad, hess})
    require(out.shape(0) == n_outputs && out.shape(1) == n_rows, "arrays differ in shape");
  require(tops.shape(0) == n_outputs && tops.shape(1) == 2, "tops must be (n_outputs, 2)");
  const auto found = std::find_if(losses().begin(), losses().end(),
                                  [&](const Loss& other) { return loss == other.name; });
  require(found != losses().end(), "kernels/shared lists no such loss");
  GradientCall call{scores.data(),
                    label.data(),
                    weight ? weight->data() : nullptr,
                    grad.data(),
                    hess.data(),
                    tops.data(),
                    static_cast<int64_t>(n_outputs),
                    static_cast<int64_t>(n_rows),
                    {},
                    tables,
                    n_threads,
                    static_cast<Simd>(simd)};
  std::copy(parameters.begin(), parameters.end(), call.parameters.values);
  std::fill_n(call.tops, 2 * n_outputs, 0u);
  found->gradients(call);
}

// How many |x| fall into each of 2,048 buckets of exponent and three mantissa bits.
void count_magnitudes(Vector<const float> values, Vector<int64_t> counts, int n_threads) {
  require(counts.shape(0) == MAGNITUDE_BUCKETS, "counts must have an entry for each bucket");
  const float* data = values.data();
  int64_t* total = counts.data();
  std::fill_n(total, MAGNITUDE_BUCKETS, 0);
  nb::gil_scoped_release release;
  parallel_rows(values.shape(0), n_threads, [&](int64_t begin, int64_t end) {
    std::vector<int64_t> local(MAGNITUDE_BUCKETS);
    for (int64_t i = begin; i < end; ++i) ++local[magnitude_bits(data[i]) >> MAGNITUDE_SHIFT];
    for (int b = 0; b < MAGNITUDE_BUCKETS; ++b)
      if (local[b])
        std::atomic_ref<int64_t>(total[b]).fetch_add(local[b], std::memory_order_relaxed);
  });
}

}  // namespace

void init_gradients(nb::module_& m) {
  m.attr("N_LOSS_PARAMETERS") = N_LOSS_PARAMETERS;
  m.def("loss_families", &loss_families,
        "The losses that kernels/shared lists, by name, and the family of each.");
  m.def("gradients", &gradients, nb::arg("loss"), nb::arg("scores"), nb::arg("label"),
        nb::arg("weight").none(), nb::arg("tables"), nb::arg("parameters"), nb::arg("grad"),
        nb::arg("hess"), nb::arg("tops"), nb::arg("n_threads"), nb::arg("simd"),
        "Derivatives of a loss, times the weight (None: one). scores, grad and hess are "
        "(n_outputs, n_rows); tops is (n_outputs, 2): bit patterns of the largest |grad| and "
        "hess. tables and parameters are the objective's.");
  m.def("count_magnitudes", &count_magnitudes, nb::arg("values"), nb::arg("counts"),
        nb::arg("n_threads"),
        "How many |values| fall into each of 2048 buckets: the upper 11 bits of their pattern.");
}

}  // namespace bitgrove
