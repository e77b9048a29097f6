// First and second derivatives of the losses, one row at a time.
#pragma once

#include "math.h"

namespace bitgrove {

struct GradientPair {
  double grad;
  double hess;
};

struct LogisticLoss {
  static BG_FN GradientPair gradient(double score, double label, double sigmoid) {
    const double p = exact_sigmoid(sigmoid * score);
    return {sigmoid * (p - label), ((sigmoid * sigmoid) * p) * (1.0 - p)};
  }
};

struct SquaredLoss {
  static BG_FN GradientPair gradient(double score, double label, double) {
    return {score - label, 1.0};
  }
};

// One pair of a query: `high` has the larger label. Returns the pull on `high` (negative) and
// its curvature; `weight` is the pair's |delta NDCG|.
BG_FN GradientPair pair_lambda(double score_gap, double weight, double sigmoid) {
  const double p = 1.0 / (1.0 + exact_exp(sigmoid * score_gap));
  return {((-sigmoid) * weight) * p, ((((sigmoid * sigmoid) * weight) * p) * (1.0 - p))};
}

}  // namespace bitgrove
