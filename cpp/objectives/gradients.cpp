// Scores to float32 gradients and hessians, row by row; and their order-free bounds.
#include "objectives/gradients.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "bindings/gil.h"
#include "bindings/records.h"
#include "common/parallel.h"
#include "common/powers.h"

namespace bitgrove {
namespace {

// Rows that are worked on together: always so many, so that no loop over them has a rest.
constexpr int64_t LOSS_ROWS = 256;

// Derivatives of LOSS_ROWS rows, before weights.
using Derive = void (*)(const double* score, const double* label, const LossParameters& parameters,
                        double* grad, double* hess, Simd simd);

template <class LossOf>
void derive(const double* score, const double* label, const LossParameters& parameters,
            double* BG_RESTRICT grad, double* BG_RESTRICT hess, Simd simd) {
  constexpr bool has_power = requires { &LossOf::of_power; };
  if constexpr (has_power) {
    for (int64_t i = 0; i < LOSS_ROWS; ++i) grad[i] = LossOf::exponent(score[i], parameters);
    exact_exps(grad, LOSS_ROWS, simd);
  }
  with_simd(simd, [=, parameters = parameters] {
    for (int64_t i = 0; i < LOSS_ROWS; ++i) {
      GradientPair pair;
      if constexpr (has_power)
        pair = LossOf::of_power(grad[i], label[i], parameters);
      else
        pair = LossOf::gradient(score[i], label[i], parameters);
      grad[i] = pair.grad;
      hess[i] = pair.hess;
    }
  });
}

// out = derivatives * weight, rounded; a null weight is one everywhere.
BG_FN void weigh(const double* BG_RESTRICT derivatives, const float* BG_RESTRICT weight, int64_t n,
                 float* BG_RESTRICT out) {
  if (weight)
    for (int64_t i = 0; i < n; ++i)
      out[i] = to_gradient(derivatives[i] * static_cast<double>(weight[i]));
  else
    for (int64_t i = 0; i < n; ++i) out[i] = to_gradient(derivatives[i]);
}

// LOSS_ROWS rows, of which the last one fills what is left of n.
const double* filled(const double* from, int64_t n, double* room) {
  if (n == LOSS_ROWS) return from;
  if (from != room) std::copy_n(from, n, room);
  std::fill(room + n, room + LOSS_ROWS, room[n - 1]);
  return room;
}

// Work on the rows [begin, end) of one output.
void derive_rows(const GradientCall& call, Derive derive, int64_t begin, int64_t end,
                 Magnitudes& found) {
  alignas(64) double grad[LOSS_ROWS], hess[LOSS_ROWS], score[LOSS_ROWS], label[LOSS_ROWS];
  for (int64_t first = begin; first < end; first += LOSS_ROWS) {
    const int64_t n = std::min(LOSS_ROWS, end - first);
    const double* truth = call.label.read(first, n, label, call.simd);
    derive(filled(call.scores + first, n, score), filled(truth, n, label), call.parameters, grad,
           hess, call.simd);
    with_simd(call.simd, [&, n, first] {
      const float* weight = call.weight ? call.weight + first : nullptr;
      weigh(grad, weight, n, call.grad + first);
      weigh(hess, weight, n, call.hess + first);
      take_magnitudes(call.grad + first, call.hess + first, n, found);
    });
  }
}

void elementwise_rows(const GradientCall& call, Derive derive) {
  require(call.n_outputs == 1, "an elementwise loss has one output");
  WithoutGil released;
  parallel_rows(call.n_rows, call.n_threads, [&](int64_t begin, int64_t end) {
    Magnitudes mine{};
    derive_rows(call, derive, begin, end, mine);
    add_magnitudes(*call.magnitudes, mine);
  });
}

template <class LossOf>
void elementwise(const GradientCall& call) {
  elementwise_rows(call, &derive<LossOf>);
}

// Rows of a softmax that are worked on together: class by class, so that rows share instructions.
constexpr int64_t SOFTMAX_ROWS = 256;

// `p` has room for a block's probabilities of all classes, `found` for the magnitudes of each.
template <class LossOf>
BG_FN void softmax_block(const GradientCall& call, int64_t begin, int64_t n, const double* label,
                         double* p, Magnitudes* found) {
  double top[SOFTMAX_ROWS], total[SOFTMAX_ROWS] = {}, weight[SOFTMAX_ROWS];
  const LossParameters parameters = call.parameters;
  const double* scores = call.scores + begin;
  std::copy_n(scores, n, top);
  for (int64_t k = 1; k < call.n_outputs; ++k)
    for (int64_t i = 0; i < n; ++i) {
      const double score = scores[k * call.n_rows + i], highest = top[i];
      top[i] = highest < score ? score : highest;
    }
  for (int64_t k = 0; k < call.n_outputs; ++k) {
    double* of_class = p + k * SOFTMAX_ROWS;
    for (int64_t i = 0; i < n; ++i) of_class[i] = scores[k * call.n_rows + i] - top[i];
    exact_exps(of_class, n, call.simd);
    for (int64_t i = 0; i < n; ++i) total[i] = total[i] + of_class[i];
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
  WithoutGil released;
  parallel_rows(call.n_rows, call.n_threads, [&](int64_t begin, int64_t end) {
    std::vector<double> p(call.n_outputs * SOFTMAX_ROWS);
    std::vector<Magnitudes> mine(call.n_outputs);
    alignas(64) double room[SOFTMAX_ROWS];
    for (int64_t first = begin; first < end; first += SOFTMAX_ROWS) {
      const int64_t n = std::min(SOFTMAX_ROWS, end - first);
      const double* label = call.label.read(first, n, room, call.simd);
      with_simd<Simd::avx2>(
          call.simd, [&] { softmax_block<LossOf>(call, first, n, label, p.data(), mine.data()); });
    }
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

RecordArray gradients(const char* loss, const Matrix<const double>& scores, const LabelArray& label,
                      const Optional<const float>& weight, nb::sequence tables,
                      std::array<double, N_LOSS_PARAMETERS> parameters, const Matrix<float>& grad,
                      const Matrix<float>& hess, int n_threads, int simd) {
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
                    Labels(label),
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
