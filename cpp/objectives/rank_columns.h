// Ranks of a query as columns, and pairs of them in batches, so that both are worked out by
// vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ranking.h"

namespace bitgrove {

// Pairs are worked on by vectors of so many: behind the last there is room for more.
constexpr int64_t PAIR_LANES = 8;
constexpr int64_t padded(int64_t n) { return (n + PAIR_LANES - 1) / PAIR_LANES * PAIR_LANES; }

// Some ranks of a query, field by field (RankedRow), and sums for each. with_hits: whether the loss
// counts them.
struct RankColumns {
  double *score, *label, *gain, *discount;
  int64_t *rank, *hits, *hits_above, *grad, *hess;

  static constexpr int64_t N_REALS = 4, N_INTEGERS = 5;

  RankColumns(double* r, int64_t* i, int64_t n)
      : score(r),
        label(r + n),
        gain(r + 2 * n),
        discount(r + 3 * n),
        rank(i),
        hits(i + n),
        hits_above(i + 2 * n),
        grad(i + 3 * n),
        hess(i + 4 * n) {}

  template <bool with_hits>
  BG_FN RankedRow at(int64_t k) const {
    return {score[k],
            label[k],
            gain[k],
            discount[k],
            rank[k],
            with_hits ? hits[k] : 0,
            with_hits ? hits_above[k] : 0};
  }
  template <bool with_hits>
  BG_FN void set(int64_t k, const RankedRow& row) const {
    score[k] = row.score, label[k] = row.label, gain[k] = row.gain, discount[k] = row.discount;
    rank[k] = row.rank;
    if constexpr (with_hits) hits[k] = row.hits, hits_above[k] = row.hits_above;
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

// The pairs of a rank with n others from `first` on: from `at` in a batch to the next multiple of
// PAIR_LANES, the last ones without weight.
struct PairRun {
  int64_t rank, first, n, at;
};

// Pairs of ranks of one label with others, worked out step by step.
struct PairBatch {
  std::vector<double> gap, weight, power;
  std::vector<int64_t> lambda, hess;
  std::vector<PairRun> runs;
  int64_t n = 0;

  static constexpr int64_t MANY = 512;  // they stay in the nearest cache

  bool is_full() const { return n >= MANY; }
  // For runs of at most so many pairs.
  void make_room(int64_t n_pairs) {
    const auto n_most = static_cast<size_t>(MANY + padded(n_pairs));
    if (gap.size() >= n_most) return;
    for (auto* reals : {&gap, &weight, &power}) reals->resize(n_most);
    for (auto* integers : {&lambda, &hess}) integers->resize(n_most);
  }
  void add_run(int64_t rank, int64_t first, int64_t n_pairs) {
    runs.push_back({rank, first, n_pairs, n});
    n += padded(n_pairs);
  }
  void clear() {
    runs.clear();
    n = 0;
  }
};

}  // namespace bitgrove
