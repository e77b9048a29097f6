// Lambdarank: the pair of two ranks of one query.
#pragma once

#include "losses.h"

namespace bitgrove {

struct RankRules {
  const double *label_gain, *discount;
  double sigmoid;
  int64_t truncation;
  bool normalise;
};

// Scores and labels of a query's rows, and its units; `unit` is a power of two, from its rows.
struct RankQuery {
  const double *score, *label;
  int64_t n_rows;
  double inverse_max_dcg, unit;
};

// Two rows of a query: `lambda` is the pull on the row of the larger label, in units.
struct RankPair {
  double lambda, hess;
  bool upper_is_high;
};

// Row a has rank i, row b the lower rank j; their labels differ.
BG_FN RankPair rank_pair(const RankQuery& q, const RankRules& rules, int64_t a, int64_t b,
                         int64_t i, int64_t j, bool scaled) {
  const bool upper_is_high = q.label[a] > q.label[b];
  const int64_t high = upper_is_high ? a : b, low = upper_is_high ? b : a;
  const double gap = q.score[high] - q.score[low];
  const double gain = rules.label_gain[static_cast<int64_t>(q.label[high])] -
                      rules.label_gain[static_cast<int64_t>(q.label[low])];
  const double weight =
      pair_weight(gain, rules.discount[i] - rules.discount[j], q.inverse_max_dcg, gap, scaled);
  const GradientPair pair = pair_lambda(gap, weight, rules.sigmoid);
  return {pair.grad * q.unit, pair.hess * q.unit, upper_is_high};
}

// A fixed-point sum as the gradient or hessian of its row.
BG_FN float rank_gradient(int64_t sum, const RankQuery& q, double norm, double weight) {
  return to_gradient(((static_cast<double>(sum) / q.unit) * norm) * weight);
}

}  // namespace bitgrove
