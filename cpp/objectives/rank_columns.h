// Ranks of a query as columns, so that pairs with all of them are worked out by vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ranking.h"

namespace bitgrove {

// Pairs are worked on by vectors of so many: behind the last there is room for more.
constexpr int64_t PAIR_LANES = 8;

// Some ranks of a query, field by field (RankedRow), and what is worked out for each.
struct RankColumns {
  double *score, *label, *gain, *discount, *gap, *weight;
  int64_t *rank, *hits, *hits_above, *grad, *hess;

  static constexpr int64_t N_REALS = 6, N_INTEGERS = 5;

  RankColumns(double* r, int64_t* i, int64_t n)
      : score(r),
        label(r + n),
        gain(r + 2 * n),
        discount(r + 3 * n),
        gap(r + 4 * n),
        weight(r + 5 * n),
        rank(i),
        hits(i + n),
        hits_above(i + 2 * n),
        grad(i + 3 * n),
        hess(i + 4 * n) {}

  BG_FN RankedRow at(int64_t k) const {
    return {score[k], label[k], gain[k], discount[k], rank[k], hits[k], hits_above[k]};
  }
  BG_FN void set(int64_t k, const RankedRow& row) const {
    score[k] = row.score, label[k] = row.label, gain[k] = row.gain, discount[k] = row.discount;
    rank[k] = row.rank, hits[k] = row.hits, hits_above[k] = row.hits_above;
  }
};

// Memory of RankColumns.
class RankMemory {
 public:
  RankColumns columns(int64_t n) {
    const auto n_reals = static_cast<size_t>(RankColumns::N_REALS * (n + PAIR_LANES));
    const auto n_integers = static_cast<size_t>(RankColumns::N_INTEGERS * (n + PAIR_LANES));
    if (reals_.size() < n_reals) reals_.resize(n_reals);
    if (integers_.size() < n_integers) integers_.resize(n_integers);
    return {reals_.data(), integers_.data(), n + PAIR_LANES};
  }

 private:
  std::vector<double> reals_;
  std::vector<int64_t> integers_;
};

}  // namespace bitgrove
