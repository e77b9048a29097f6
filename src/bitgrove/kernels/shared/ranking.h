// Losses over the pairs of a query's rows: the family "ranked".
//
// A loss says how a pair pulls and what a query's sums are multiplied by; the sums over pairs are
// int64 in the query's unit, so their order does not matter.
#pragma once

#include "losses.h"

namespace bitgrove {

// Tables of all queries, in the order of the objective's `tables`.
struct RankTables {
  const int64_t* query_offset;
  const double *inverse_max_dcg, *unit;  // of each query
  const double *label_gain, *discount;   // of each grade, of each rank
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

// parameters: sigmoid, truncation, normalise
struct LambdaRankLoss {
  // Pairs count when the better rank is above this one.
  static BG_FN int64_t truncation(const LossParameters& parameters) {
    return static_cast<int64_t>(parameters[1]);
  }

  // Whether pairs whose scores are far apart are damped: first and last are the extreme scores.
  static BG_FN bool scaled(double first, double last, const LossParameters& parameters) {
    return parameters[2] != 0.0 && first != last;
  }

  // Row a has rank i, row b the lower rank j; their labels differ. The weight of the pair is the
  // |delta NDCG| of exchanging the two.
  static BG_FN RankPair pair(const RankQuery& q, const RankTables& tables,
                             const LossParameters& parameters, int64_t a, int64_t b, int64_t i,
                             int64_t j, bool scaled) {
    const double sigmoid = parameters[0];
    const bool upper_is_high = q.label[a] > q.label[b];
    const int64_t high = upper_is_high ? a : b, low = upper_is_high ? b : a;
    const double gap = q.score[high] - q.score[low];
    const double gain = tables.label_gain[static_cast<int64_t>(q.label[high])] -
                        tables.label_gain[static_cast<int64_t>(q.label[low])];
    double weight = (gain * (tables.discount[i] - tables.discount[j])) * q.inverse_max_dcg;
    weight = scaled ? weight / (0.01 + (gap < 0.0 ? -gap : gap)) : weight;
    return pull(gap, weight, q.unit, sigmoid, upper_is_high);
  }

  // gap: how far the row of the larger label is above the other.
  static BG_FN RankPair pull(double gap, double weight, double unit, double sigmoid,
                             bool upper_is_high) {
    const double p = 1.0 / (1.0 + exact_exp(sigmoid * gap));
    const double lambda = ((-sigmoid) * weight) * p;
    const double hess = (((sigmoid * sigmoid) * weight) * p) * (1.0 - p);
    return {lambda * unit, hess * unit, upper_is_high};
  }

  // What a query's lambdas are multiplied by, from the sum of their magnitudes.
  static BG_FN double norm(double sum, const LossParameters& parameters) {
    return parameters[2] != 0.0 && sum > 0.0 ? (exact_log(1.0 + sum) * LOG2_E) / sum : 1.0;
  }
};

// All pairs weigh the same. parameters: as LambdaRankLoss
struct PairwiseLoss : LambdaRankLoss {
  static BG_FN bool scaled(double, double, const LossParameters&) { return false; }

  static BG_FN RankPair pair(const RankQuery& q, const RankTables&,
                             const LossParameters& parameters, int64_t a, int64_t b, int64_t,
                             int64_t, bool) {
    const bool upper_is_high = q.label[a] > q.label[b];
    const double down = q.score[a] - q.score[b];
    return pull(upper_is_high ? down : -down, 1.0, q.unit, parameters[0], upper_is_high);
  }
};

#define BG_RANKED_LOSSES(X)     \
  X(lambdarank, LambdaRankLoss) \
  X(pairwise, PairwiseLoss)

// A fixed-point sum as the gradient or hessian of its row.
BG_FN float rank_gradient(int64_t sum, const RankQuery& q, double norm, double weight) {
  return to_gradient(((static_cast<double>(sum) / q.unit) * norm) * weight);
}

}  // namespace bitgrove
