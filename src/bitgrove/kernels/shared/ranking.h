// Losses over the rows of a query: over pairs of them (the family "ranked"), or over all of them at
// once ("listwise").
//
// All sums over a query's rows or pairs are int64 in a unit that cannot overflow, so their order
// does not matter.
#pragma once

#include "losses.h"
#include "rounding.h"

namespace bitgrove {

// ---------------------------------------------------------------- ranked
// A loss says what a pair weighs and what a query's sums are multiplied by.

// Tables of all queries, in the order of the objective's `tables`.
struct RankTables {
  const int64_t* query_offset;
  const double *inverse_best, *unit;    // of each query
  const double *label_gain, *discount;  // of each grade, of each rank
};

// The relevant rows (label above 0) of the ranks down to one: how many, and the sum of 1 / rank
// over them, together in one integer that is added up over ranks.
constexpr int HIT_COUNT_SHIFT = 40;
constexpr double HIT_UNIT = 68719476736.0;  // 2^36: the sum of 1 / rank is below 16

BG_FN int64_t hit_at(int64_t rank) {
  const double share = HIT_UNIT / static_cast<double>(rank + 1);
  return (int64_t{1} << HIT_COUNT_SHIFT) + static_cast<int64_t>(share);
}
BG_FN double n_hits(int64_t hits) { return static_cast<double>(hits >> HIT_COUNT_SHIFT); }
BG_FN double hit_shares(int64_t hits) {
  return static_cast<double>(hits & ((int64_t{1} << HIT_COUNT_SHIFT) - 1)) / HIT_UNIT;
}

// Scores and labels of a query's rows, and its units; `unit` is a power of two, from its rows.
struct RankQuery {
  const double *score, *label;
  int64_t n_rows;
  double inverse_best, unit;
  const int64_t* hits;  // of each rank, where the loss counts them
};

// What the weight of a pair needs of one of its rows. hits: down to its rank, and to the one above.
struct RankedRow {
  double score, label, gain, discount;
  int64_t rank, hits, hits_above;
};

template <class Loss>
BG_FN RankedRow ranked_row(const RankQuery& q, const RankTables& tables, int64_t row,
                           int64_t rank) {
  const bool counts = Loss::COUNTS_HITS;
  return {q.score[row],
          q.label[row],
          tables.label_gain[static_cast<int64_t>(q.label[row])],
          tables.discount[rank],
          rank,
          counts ? q.hits[rank] : 0,
          counts && rank > 0 ? q.hits[rank - 1] : 0};
}

// How far the row of the larger label is above the other, and what the pair counts.
struct WeighedPair {
  double gap, weight;
};

// `lambda` is the pull on the row of the larger label, in units.
struct RankPair {
  double lambda, hess;
};

// parameters: sigmoid, truncation, normalise
struct LambdaRankLoss {
  static constexpr bool COUNTS_HITS = false;

  // Pairs count when the better rank is above this one.
  static BG_FN int64_t truncation(const LossParameters& parameters) {
    return static_cast<int64_t>(parameters[1]);
  }

  // Whether pairs whose scores are far apart are damped: first and last are the extreme scores.
  static BG_FN bool scaled(double first, double last, const LossParameters& parameters) {
    return parameters[2] != 0.0 && first != last;
  }

  // |delta NDCG| of exchanging the two.
  static BG_FN double weight(const RankedRow& upper, const RankedRow& lower, double inverse_best) {
    const double more = upper.gain - lower.gain;
    const double gain = upper.label > lower.label ? more : -more;
    return (gain * (upper.discount - lower.discount)) * inverse_best;
  }

  // What a query's lambdas are multiplied by, from the sum of their magnitudes.
  static BG_FN double norm(double sum, const LossParameters& parameters) {
    return parameters[2] != 0.0 && sum > 0.0 ? (exact_log(1.0 + sum) * LOG2_E) / sum : 1.0;
  }
};

// All pairs weigh the same. parameters: as LambdaRankLoss
struct PairwiseLoss : LambdaRankLoss {
  static BG_FN bool scaled(double, double, const LossParameters&) { return false; }

  static BG_FN double weight(const RankedRow&, const RankedRow&, double) { return 1.0; }
};

// |delta MAP| of exchanging a relevant row and another. parameters: as LambdaRankLoss
struct MapLoss : LambdaRankLoss {
  static constexpr bool COUNTS_HITS = true;

  static BG_FN double weight(const RankedRow& upper, const RankedRow& lower, double inverse_best) {
    const bool upper_is_high = upper.label > lower.label;
    if ((upper_is_high ? lower : upper).label > 0.0) return 0.0;  // both are relevant
    // The precision at the two ranks, if the relevant row is there; and what those between lose.
    const double at_i = (n_hits(upper.hits) + (upper_is_high ? 0.0 : 1.0)) / (upper.rank + 1.0);
    const double at_j = n_hits(lower.hits) / (lower.rank + 1.0);
    const double between = hit_shares(lower.hits_above) - hit_shares(upper.hits);
    const double lost = (at_i - at_j) + between;
    return (lost < 0.0 ? 0.0 : lost) * inverse_best;  // shares are rounded down
  }
};

#define BG_RANKED_LOSSES(X)     \
  X(lambdarank, LambdaRankLoss) \
  X(pairwise, PairwiseLoss)     \
  X(map, MapLoss)

// Of two rows of different labels; `upper` has the better rank.
template <class Loss>
BG_FN WeighedPair weigh_pair(const RankedRow& upper, const RankedRow& lower, double inverse_best) {
  const double down = upper.score - lower.score;
  return {upper.label > lower.label ? down : -down, Loss::weight(upper, lower, inverse_best)};
}

// In two steps: the CPU takes the powers of many pairs at once (common/powers.h).
BG_FN double pull_exponent(const WeighedPair& pair, const LossParameters& parameters) {
  return parameters[0] * pair.gap;
}

BG_FN RankPair pull_of_power(const WeighedPair& pair, double power, double unit,
                             const LossParameters& parameters, bool scaled) {
  const double sigmoid = parameters[0], gap = pair.gap;
  const double weight = scaled ? pair.weight / (0.01 + (gap < 0.0 ? -gap : gap)) : pair.weight;
  const double p = 1.0 / (1.0 + power);
  const double lambda = ((-sigmoid) * weight) * p;
  const double hess = (((sigmoid * sigmoid) * weight) * p) * (1.0 - p);
  return {lambda * unit, hess * unit};
}

BG_FN RankPair pull_pair(const WeighedPair& pair, double unit, const LossParameters& parameters,
                         bool scaled) {
  return pull_of_power(pair, exact_exp(pull_exponent(pair, parameters)), unit, parameters, scaled);
}

// A fixed-point sum as the gradient or hessian of its row. inverse_unit: a power of two, so that it
// is as exact as a division.
BG_FN float rank_gradient(int64_t sum, double inverse_unit, double norm, double weight) {
  return to_gradient(((static_cast<double>(sum) * inverse_unit) * norm) * weight);
}

// ---------------------------------------------------------------- listwise
// The shares of a query's rows by their scores (softmax) against shares by their labels.

// Tables of all queries, in the order of the objective's `tables`.
struct ListTables {
  const int64_t* query_offset;
  const double *unit, *label_gain;  // of each query's labels, of each grade
  const uint64_t* row_id;
};

// Of a row: its share by score and its share by label.
struct ListRow {
  double share, target;
};

// Units of sums over a query's rows, at most 2^20: powers are at most 1, and at most one share is
// above a half, so that the sums of the corrections are below 2^22 + 16.
constexpr double POWER_UNIT = 1099511627776.0;      // 2^40
constexpr double CORRECTION_UNIT = 274877906944.0;  // 2^38

// Cross entropy of NDCG (Bruch et al. 2019), with LightGBM's expansion of the gradient to the third
// order. parameters: the upper and the lower 32 bits of the key that draws numbers
struct XendcgLoss {
  static BG_FN double power(double score, double largest) { return exact_exp(score - largest); }

  // The worth of a row's label, less a number between 0 and 1 that is drawn anew in every
  // iteration.
  static BG_FN double worth(const ListTables& tables, double label, uint64_t row_id,
                            const LossParameters& parameters) {
    const uint64_t key =
        (static_cast<uint64_t>(parameters[0]) << 32) | static_cast<uint64_t>(parameters[1]);
    const double drawn = grad_noise(row_hash(key, row_id)) * (1.0 / 2147483648.0);
    return (tables.label_gain[static_cast<int64_t>(label)] + 1.0) - drawn;
  }

  // Terms of first and second order, over what is left for the other rows.
  static BG_FN double first(const ListRow& row) { return (row.share - row.target) / others(row); }
  static BG_FN double second(const ListRow& row, double firsts) {
    return (row.share * (firsts - first(row))) / others(row);
  }

  // firsts and seconds: the sums of first and second over the query.
  static BG_FN GradientPair gradient(const ListRow& row, double firsts, double seconds) {
    const double grad = ((row.share - row.target) + row.share * (firsts - first(row))) +
                        row.share * (seconds - second(row, firsts));
    return {grad, row.share * (1.0 - row.share)};
  }

  static BG_FN double others(const ListRow& row) {
    const double rest = 1.0 - row.share;
    return rest < 1.0 / 1048576.0 ? 1.0 / 1048576.0 : rest;
  }
};

#define BG_LISTWISE_LOSSES(X) X(xendcg, XendcgLoss)

}  // namespace bitgrove
