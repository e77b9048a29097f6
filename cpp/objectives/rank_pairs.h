// What the pairs of a query pull: sums of its ranks, in int64 fixed point.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/powers.h"
#include "common/simd.h"
#include "objectives/rank_columns.h"

namespace bitgrove {

// x rounded to an integer, ties to even, |x| < 2^62: in two parts of 32 bits, because few
// processors have the conversion for vectors.
BG_FN int64_t fixed(double x) {
  const double shifted = x * 0x1p-32 + ROUNDING_SHIFT;
  const double low = x - (shifted - ROUNDING_SHIFT) * 0x1p32;
  const auto high_bits = static_cast<uint64_t>(bits_of_double(shifted)) << 32;
  const auto low_bits = static_cast<uint64_t>(bits_of_double(low + ROUNDING_SHIFT));
  return static_cast<int64_t>(high_bits + low_bits -
                              static_cast<uint64_t>(bits_of_double(ROUNDING_SHIFT)));
}

// How the pairs of a query pull.
struct PullRules {
  LossParameters parameters;
  double inverse_best, unit;
  bool scaled;
};

template <class LossOf>
BG_FN void weigh_pairs(const RankColumns& ranks, const RankColumns& others, double inverse_best,
                       PairBatch& batch) {
  for (const PairRun& run : batch.runs) {
    const RankedRow upper = ranks.at<LossOf::COUNTS_HITS>(run.rank);
    double *BG_RESTRICT gap = batch.gap.data() + run.at,
                        *BG_RESTRICT weight = batch.weight.data() + run.at;
    const int64_t n = run.n;
    for (int64_t k = 0; k < n; ++k) {
      const RankedRow lower = others.at<LossOf::COUNTS_HITS>(run.first + k);
      const WeighedPair pair = weigh_pair<LossOf>(upper, lower, inverse_best);
      gap[k] = pair.gap;
      weight[k] = pair.weight;
    }
    std::fill(gap + n, gap + padded(n), 0.0);
    std::fill(weight + n, weight + padded(n), 0.0);
  }
}

// Returns the sum of the lambdas. `scaled` is known to the compiler.
BG_FN int64_t pull_each(PairBatch& batch, const PullRules& rules, bool scaled) {
  const double *gap = batch.gap.data(), *weight = batch.weight.data(), *power = batch.power.data();
  int64_t *BG_RESTRICT lambdas = batch.lambda.data(), *BG_RESTRICT hesses = batch.hess.data();
  int64_t total = 0;
  for (int64_t k = 0, n = batch.n; k < n; ++k) {
    const RankPair pair =
        pull_of_power({gap[k], weight[k]}, power[k], rules.unit, rules.parameters, scaled);
    lambdas[k] = fixed(pair.lambda);
    hesses[k] = fixed(pair.hess);
    total += lambdas[k];
  }
  return total;
}

// Adds what the pairs pull to both ranks of each: to sums, and to those of the others.
BG_FN void add_pulls(const RankColumns& ranks, const RankColumns& others, const PairBatch& batch,
                     int64_t* sums) {
  for (const PairRun& run : batch.runs) {
    const int64_t *lambda = batch.lambda.data() + run.at, *hess = batch.hess.data() + run.at;
    const double label = ranks.label[run.rank], *labels = others.label + run.first;
    int64_t *BG_RESTRICT grads = others.grad + run.first,
                         *BG_RESTRICT hesses = others.hess + run.first;
    int64_t grad_sum = 0, hess_sum = 0;
    for (int64_t k = 0, n = padded(run.n); k < n; ++k) {
      const int64_t grad = label > labels[k] ? lambda[k] : -lambda[k];
      grads[k] -= grad;
      hesses[k] += hess[k];
      grad_sum += grad;
      hess_sum += hess[k];
    }
    sums[2 * run.rank] += grad_sum;
    sums[2 * run.rank + 1] += hess_sum;
  }
}

// From weighed pairs on it is the same for every loss; returns the sum of the lambdas.
inline int64_t pull_pairs(const RankColumns& ranks, const RankColumns& others, PairBatch& batch,
                          const PullRules& rules, Simd simd, int64_t* sums) {
  const double* gap = batch.gap.data();
  double* power = batch.power.data();
  for (int64_t k = 0; k < batch.n; ++k) power[k] = pull_exponent({gap[k], 0.0}, rules.parameters);
  exact_exps(power, batch.n, simd);
  int64_t lambdas = 0;
  with_simd(simd, [&] {
    lambdas = rules.scaled ? pull_each(batch, rules, true) : pull_each(batch, rules, false);
    add_pulls(ranks, others, batch, sums);
  });
  batch.clear();
  return lambdas;
}

// The ranks with which those of a label have pairs, behind those of other labels.
struct OtherRanks {
  RankColumns columns;
  int64_t n = 0;

  // Those behind the rank `first` whose label is another one; returns where they begin.
  template <bool with_hits>
  int64_t gather(const RankColumns& ranks, int64_t first, int64_t n_ranks) {
    const double label = ranks.label[first];
    const int64_t begin = n;
    for (int64_t rank = first + 1; rank < n_ranks; ++rank) {
      columns.set<with_hits>(n, ranks.at<with_hits>(rank));
      n += ranks.label[rank] != label;
    }
    const int64_t n_sums = n - begin + PAIR_LANES;
    std::fill_n(columns.label + n, PAIR_LANES, 0.0);
    std::fill_n(columns.rank + n, PAIR_LANES, 0);
    std::fill_n(columns.grad + begin, n_sums, 0);
    std::fill_n(columns.hess + begin, n_sums, 0);
    return begin;
  }
  // Adds their sums to those of all ranks.
  void put_back(int64_t* sums) {
    for (int64_t k = 0; k < n; ++k) {
      sums[2 * columns.rank[k]] += columns.grad[k];
      sums[2 * columns.rank[k] + 1] += columns.hess[k];
    }
    n = 0;
  }
};

// What a thread works on pairs with.
struct PairMemory {
  RankMemory others;
  PairBatch batch;
};

// Adds the pairs of the ranks [begin, end) with all below them to sums, which are in the order of
// the ranks; returns twice the lambdas. Label by label: its pairs are with all other labels.
template <class LossOf>
int64_t add_pairs(const RankColumns& ranks, int64_t n_ranks, const PullRules& rules,
                  PairMemory& memory, Simd simd, int64_t begin, int64_t end, int64_t* sums) {
  const double* labels = ranks.label;
  const int64_t n_most = n_ranks + PAIR_LANES, n_room = std::max(n_most, PairBatch::MANY);
  OtherRanks others{memory.others.columns(n_room)};
  PairBatch& batch = memory.batch;
  batch.make_room(n_ranks);
  int64_t total = 0;
  const auto pull = [&] {
    with_simd<Simd::avx2>(
        simd, [&] { weigh_pairs<LossOf>(ranks, others.columns, rules.inverse_best, batch); });
    total -= 2 * pull_pairs(ranks, others.columns, batch, rules, simd, sums);
  };
  for (int64_t first = begin; first < end; ++first) {
    const double label = labels[first];
    if (std::find(labels + begin, labels + first, label) != labels + first) continue;
    if (others.n + n_most > n_room) {
      pull();
      others.put_back(sums);
    }
    int64_t next = others.gather<LossOf::COUNTS_HITS>(ranks, first, n_ranks);
    const int64_t last = others.n;
    others.n += PAIR_LANES;
    for (int64_t i = first; i < end; ++i) {
      if (labels[i] != label) continue;
      while (next < last && others.columns.rank[next] < i) ++next;
      batch.add_run(i, next, last - next);
      if (batch.is_full()) pull();
    }
  }
  pull();
  others.put_back(sums);
  return total;
}

}  // namespace bitgrove
