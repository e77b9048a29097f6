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

// parameters: sigmoid
struct LogisticLoss {
  static BG_FN GradientPair gradient(double score, double label, const LossParameters& parameters) {
    const double sigmoid = parameters[0];
    const double p = exact_sigmoid(sigmoid * score);
    return {sigmoid * (p - label), ((sigmoid * sigmoid) * p) * (1.0 - p)};
  }
};

struct SquaredLoss {
  static BG_FN GradientPair gradient(double score, double label, const LossParameters&) {
    return {score - label, 1.0};
  }
};

#define BG_ELEMENTWISE_LOSSES(X) \
  X(logistic, LogisticLoss)      \
  X(squared, SquaredLoss)

// ---------------------------------------------------------------- softmax
// gradient() of one class of a row, from the probability that the softmax gives it.

// parameters: factor of the hessian, K / (K - 1) for K classes
struct SoftmaxLoss {
  static BG_FN GradientPair gradient(double p, bool is_class, const LossParameters& parameters) {
    return {p - (is_class ? 1.0 : 0.0), (parameters[0] * p) * (1.0 - p)};
  }
};

#define BG_SOFTMAX_LOSSES(X) X(softmax, SoftmaxLoss)

// The losses of the family "ranked" are in ranking.h.

}  // namespace bitgrove
