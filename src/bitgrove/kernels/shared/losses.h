// First and second derivatives of the losses: one struct each, compiled by g++ and NVRTC.
//
// The lists at the end of each family are the registry that both compilers read: a name that an
// objective's class gives as `kernel`, and the struct. The NumPy twin is `derivatives` of the
// class: the same operations in the same order.
#pragma once

#include "math.h"

namespace bitgrove {

struct GradientPair {
  double grad;
  double hess;
};

// What an objective's class hands over as `kernel_parameters`; those it does not use are zero.
constexpr int N_LOSS_PARAMETERS = 4;

struct LossParameters {
  double values[N_LOSS_PARAMETERS];
  BG_FN double operator[](int i) const { return values[i]; }
};

// A CUDA kernel takes them one by one: each of its arguments has 8 bytes.
#define BG_PARAMETER_ARGUMENTS double p0, double p1, double p2, double p3
#define BG_PARAMETERS p0, p1, p2, p3
static_assert(N_LOSS_PARAMETERS == 4, "BG_PARAMETERS holds four");

// ---------------------------------------------------------------- elementwise
// gradient() of one row from its score and label.

// Losses of one power of e: `exponent` of a score, and `of_power`, which the CPU calls on their
// own: it takes the powers of many rows at once (common/powers.h).
template <class LossOf>
struct PowerLoss {
  static BG_FN GradientPair gradient(double score, double label, const LossParameters& parameters) {
    return LossOf::of_power(exact_exp(LossOf::exponent(score, parameters)), label, parameters);
  }
};

// parameters: sigmoid
struct LogisticLoss : PowerLoss<LogisticLoss> {
  static BG_FN double exponent(double score, const LossParameters& parameters) {
    return -(parameters[0] * score);
  }
  static BG_FN GradientPair of_power(double power, double label, const LossParameters& parameters) {
    const double sigmoid = parameters[0];
    const double p = 1.0 / (1.0 + power);
    return {sigmoid * (p - label), ((sigmoid * sigmoid) * p) * (1.0 - p)};
  }
};

struct SquaredLoss {
  static BG_FN GradientPair gradient(double score, double label, const LossParameters&) {
    return {score - label, 1.0};
  }
};

BG_FN double sign_of(double x) { return x > 0.0 ? 1.0 : (x < 0.0 ? -1.0 : 0.0); }
BG_FN double magnitude_of(double x) { return x < 0.0 ? -x : x; }

// The leaves of the next two are quantiles of the residuals: the hessian only counts rows.
struct AbsoluteLoss {
  static BG_FN GradientPair gradient(double score, double label, const LossParameters&) {
    return {sign_of(score - label), 1.0};
  }
};

// parameters: the quantile's level
struct QuantileLoss {
  static BG_FN GradientPair gradient(double score, double label, const LossParameters& parameters) {
    return {score >= label ? 1.0 - parameters[0] : -parameters[0], 1.0};
  }
};

// Hessians of the next four: slope / gap, see _Robust in objectives/regression.py.
// parameters: where the square ends and the line begins
struct HuberLoss {
  static BG_FN GradientPair gradient(double score, double label, const LossParameters& parameters) {
    const double gap = score - label, far = magnitude_of(gap), delta = parameters[0];
    const double size = far < delta ? far : delta;
    return {gap < 0.0 ? -size : size, far < delta ? 1.0 : delta / far};
  }
};

// parameters: as HuberLoss
struct PseudoHuberLoss {
  static BG_FN GradientPair gradient(double score, double label, const LossParameters& parameters) {
    const double gap = score - label, ratio = gap / parameters[0];
    const double root = square_root(1.0 + ratio * ratio);
    return {gap / root, 1.0 / root};
  }
};

// parameters: c
struct FairLoss {
  static BG_FN GradientPair gradient(double score, double label, const LossParameters& parameters) {
    const double gap = score - label, c = parameters[0], sum = magnitude_of(gap) + c;
    return {(c * gap) / sum, c / sum};
  }
};

// The tangens hyperbolicus, from the side where the power cannot overflow.
struct LogCoshLoss {
  static constexpr double LEAST_GAP = 1e-4;  // below it the two cannot be divided
  static BG_FN GradientPair gradient(double score, double label, const LossParameters&) {
    const double gap = score - label, far = magnitude_of(gap), power = exact_exp(-2.0 * far);
    const double size = (1.0 - power) / (1.0 + power);
    return {gap < 0.0 ? -size : size, far < LEAST_GAP ? 1.0 : size / far};
  }
};

// parameters: the expectile's level
struct ExpectileLoss {
  static BG_FN GradientPair gradient(double score, double label, const LossParameters& parameters) {
    const double gap = score - label, side = gap >= 0.0 ? 1.0 - parameters[0] : parameters[0];
    return {(2.0 * side) * gap, 2.0 * side};
  }
};

// The score is the logarithm of the mean. parameters: exp of the largest step that is safe
struct PoissonLoss : PowerLoss<PoissonLoss> {
  static BG_FN double exponent(double score, const LossParameters&) { return score; }
  static BG_FN GradientPair of_power(double mean, double label, const LossParameters& parameters) {
    return {mean - label, mean * parameters[0]};
  }
};

struct GammaLoss : PowerLoss<GammaLoss> {
  static BG_FN double exponent(double score, const LossParameters&) { return -score; }
  static BG_FN GradientPair of_power(double power, double label, const LossParameters&) {
    const double ratio = label * power;
    return {1.0 - ratio, ratio};
  }
};

// parameters: 1 - rho and 2 - rho, rho the power of the variance
struct TweedieLoss {
  static BG_FN GradientPair gradient(double score, double label, const LossParameters& parameters) {
    const double a = label * exact_exp(parameters[0] * score);
    const double b = exact_exp(parameters[1] * score);
    return {b - a, parameters[1] * b - parameters[0] * a};
  }
};

// -weight (1 - p)^gamma log(p), p the probability of the true class. The hessian is that of a
// logistic loss with the same gradient: never negative, as the loss's own would be.
// parameters: gamma, the weight of class 1 and of class 0
struct FocalLoss {
  static BG_FN GradientPair gradient(double score, double label, const LossParameters& parameters) {
    const bool positive = label > 0.0;
    const double p = exact_sigmoid(positive ? score : -score);
    const double q = exact_sigmoid(positive ? -score : score);
    const double fade = exact_exp(parameters[0] * exact_log(q));
    const double surprise = (parameters[0] * p) * exact_log(p);
    const double size = ((positive ? parameters[1] : parameters[2]) * fade) * (q - surprise);
    return {positive ? -size : size, size * p};
  }
};

#define BG_ELEMENTWISE_LOSSES(X)   \
  X(logistic, LogisticLoss)        \
  X(squared, SquaredLoss)          \
  X(absolute, AbsoluteLoss)        \
  X(quantile, QuantileLoss)        \
  X(huber, HuberLoss)              \
  X(pseudo_huber, PseudoHuberLoss) \
  X(fair, FairLoss)                \
  X(log_cosh, LogCoshLoss)         \
  X(expectile, ExpectileLoss)      \
  X(poisson, PoissonLoss)          \
  X(gamma, GammaLoss)              \
  X(tweedie, TweedieLoss)          \
  X(focal, FocalLoss)

// ---------------------------------------------------------------- softmax
// gradient() of one class of a row, from the probability that the softmax gives it.

// parameters: factor of the hessian, K / (K - 1) for K classes
struct SoftmaxLoss {
  static BG_FN GradientPair gradient(double p, bool is_class, const LossParameters& parameters) {
    return {p - (is_class ? 1.0 : 0.0), (parameters[0] * p) * (1.0 - p)};
  }
};

#define BG_SOFTMAX_LOSSES(X) X(softmax, SoftmaxLoss)

// The losses over the rows of a query are in ranking.h.

}  // namespace bitgrove
