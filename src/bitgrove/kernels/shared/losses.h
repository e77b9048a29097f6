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

// One class of a row whose probability is p; factor is K / (K - 1) for K classes.
BG_FN GradientPair softmax_pair(double p, bool is_class, double factor) {
  return {p - (is_class ? 1.0 : 0.0), (factor * p) * (1.0 - p)};
}

// |delta NDCG| of exchanging two ranks; `scaled` damps pairs whose scores are far apart.
BG_FN double pair_weight(double gain_gap, double discount_gap, double inverse_max_dcg,
                         double score_gap, bool scaled) {
  const double weight = (gain_gap * discount_gap) * inverse_max_dcg;
  return scaled ? weight / (0.01 + (score_gap < 0.0 ? -score_gap : score_gap)) : weight;
}

// What a query's lambdas are multiplied by, from the sum of their magnitudes.
BG_FN double query_norm(double sum) {
  return sum > 0.0 ? (exact_log(1.0 + sum) * LOG2_E) / sum : 1.0;
}

// One pair of a query: `high` has the larger label. Returns the pull on `high` (negative) and
// its curvature; `weight` is the pair's |delta NDCG|.
BG_FN GradientPair pair_lambda(double score_gap, double weight, double sigmoid) {
  const double p = 1.0 / (1.0 + exact_exp(sigmoid * score_gap));
  return {((-sigmoid) * weight) * p, ((((sigmoid * sigmoid) * weight) * p) * (1.0 - p))};
}

}  // namespace bitgrove
