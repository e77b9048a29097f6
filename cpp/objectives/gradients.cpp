// Scores to float32 gradients and hessians, row by row; and their order-free bounds.
#include "objectives/gradients.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "bindings/records.h"
#include "common/parallel.h"

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
    Magnitudes mine{};
    with_simd(call.simd, [&] {
      const float* weight = call.weight;
      if (weight)
        elementwise_block<LossOf>(call, begin, end,
                                  [weight](int64_t i) { return static_cast<double>(weight[i]); });
      else
        elementwise_block<LossOf>(call, begin, end, [](int64_t) { return 1.0; });
      take_magnitudes(call.grad + begin, call.hess + begin, end - begin, mine);
    });
    add_magnitudes(*call.magnitudes, mine);
  });
}

// Rows of a softmax that are worked on together: class by class, so that rows share instructions.
constexpr int64_t SOFTMAX_ROWS = 256;

// `p` has room for a block's probabilities of all classes, `found` for the magnitudes of each.
template <class LossOf>
BG_FN void softmax_block(const GradientCall& call, int64_t begin, int64_t n, double* p,
                         Magnitudes* found) {
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
    take_magnitudes(grad, hess, n, found[k]);
  }
}

template <class LossOf>
void softmax(const GradientCall& call) {
  nb::gil_scoped_release release;
  parallel_rows(call.n_rows, call.n_threads, [&](int64_t begin, int64_t end) {
    std::vector<double> p(call.n_outputs * SOFTMAX_ROWS);
    std::vector<Magnitudes> mine(call.n_outputs);
    for (int64_t first = begin; first < end; first += SOFTMAX_ROWS)
      with_simd(call.simd, [&] {
        const int64_t n = std::min(SOFTMAX_ROWS, end - first);
        softmax_block<LossOf>(call, first, n, p.data(), mine.data());
      });
    for (int64_t k = 0; k < call.n_outputs; ++k) add_magnitudes(call.magnitudes[k], mine[k]);
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

RecordArray gradients(const char* loss, Matrix<const double> scores, Vector<const double> label,
                      Optional<const float> weight, nb::sequence tables,
                      std::array<double, N_LOSS_PARAMETERS> parameters, Matrix<float> grad,
                      Matrix<float> hess, int n_threads, int simd) {
  const size_t n_outputs = scores.shape(0), n_rows = scores.shape(1);
  require(label.shape(0) == n_rows && (!weight || weight->shape(0) == n_rows),
          "label or weight differs in length");
  for (const auto& out : {grad, hess})
    require(out.shape(0) == n_outputs && out.shape(1) == n_rows, "arrays differ in shape");
  const auto found = std::find_if(losses().begin(), losses().end(), [&](const Loss& other) {
    return std::string_view(loss) == other.name;
  });
  require(found != losses().end(), "kernels/shared lists no such loss");
  std::vector<Magnitudes> magnitudes(n_outputs);
  GradientCall call{scores.data(),
                    label.data(),
                    weight ? weight->data() : nullptr,
                    grad.data(),
                    hess.data(),
                    magnitudes.data(),
                    static_cast<int64_t>(n_outputs),
                    static_cast<int64_t>(n_rows),
                    {},
                    tables,
                    n_threads,
                    static_cast<Simd>(simd)};
  std::copy(parameters.begin(), parameters.end(), call.parameters.values);
  found->gradients(call);
  return to_records(magnitudes);
}

}  // namespace

void init_gradients(nb::module_& m) {
  m.attr("N_LOSS_PARAMETERS") = N_LOSS_PARAMETERS;
  m.def("loss_families", &loss_families,
        "The losses that kernels/shared lists, by name, and the family of each.");
  m.def("gradients", &gradients, nb::arg("loss"), nb::arg("scores"), nb::arg("label"),
        nb::arg("weight").none(), nb::arg("tables"), nb::arg("parameters"), nb::arg("grad"),
        nb::arg("hess"), nb::arg("n_threads"), nb::arg("simd"),
        "Derivatives of a loss, times the weight (None: one). scores, grad and hess are "
        "(n_outputs, n_rows). tables and parameters are the objective's. Returns the Magnitudes of "
        "each output.");
}

}  // namespace bitgrove
