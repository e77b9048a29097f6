// Exact Shapley values of a tree, for some rows at a time: a vector of them on a CPU, one in a
// thread of a GPU, with the same operations in the same order.
//
// The game: a row's known features are followed, at splits of others a row goes both ways, in the
// shares of the training rows. So a leaf's weight is a product over the features j of its path: o_j
// (1 if the row goes the path's way at all splits by j, else 0) where j is known, z_j (the shares
// multiplied) where it is not. The Shapley value of feature i is then, summed over leaves,
//
//     value (o_i - z_i) integral from 0 to 1 of  product over j != i of (z_j (1-t) + o_j t)  dt.
//
// The integrand is a polynomial of t: a quadrature of Gauss with half as many points as features
// gives the integral without error, and all of its terms are positive. At each point t the tree is
// gone through once: down, factors are multiplied; up, what the leaves have gathered is added. A
// second split by the same feature divides the first one's factor out again. All that depends on
// edges and points alone (ShapFactor) is made beforehand, in cpp/explain/shap_forest.cpp.
#pragma once

#include "plans.h"

namespace bitgrove {

// Where a walk writes. Per depth: two masks of rows, and `n_sums` sums of every point.
template <class Lanes>
struct ShapRoom {
  Lanes lanes;  // N rows; from one value to the next are `stride` numbers
  int64_t* masks;
  double* sums;
  int32_t n_points, n_sums;

  BG_FN int64_t* went_left(int32_t depth) const { return masks + 2 * depth * lanes.stride; }
  // Rows that went the path's way at all splits by the feature of the edge at this depth.
  BG_FN int64_t* on(int32_t depth) const { return masks + (2 * depth + 1) * lanes.stride; }
  // The product of the factors down to here; what the leaves below have gathered.
  BG_FN double* path(int32_t depth, int32_t q) const { return sum(depth, 0, q); }
  BG_FN double* below(int32_t depth, int32_t q) const { return sum(depth, 1, q); }
  // (o - z) / factor of the edge at this depth: for interactions alone.
  BG_FN double* change(int32_t depth, int32_t q) const { return sum(depth, 2, q); }

 private:
  BG_FN double* sum(int32_t depth, int32_t which, int32_t q) const {
    return sums + ((static_cast<int64_t>(depth) * n_sums + which) * n_points + q) * lanes.stride;
  }
};

// Of three: the row is on the path's way, left it here, or had left it at an earlier split by the
// same feature.
template <bool Again>
BG_FN double choose(int64_t on, int64_t before, double if_on, double if_off, double if_left) {
  const double now = on ? if_on : if_off;
  return Again ? (before ? now : if_left) : now;
}

// The walk of a tree by its steps. decide(step, went_left) says where rows go; add(player, values)
// takes what an edge gives to its player.
template <class Lanes, bool Interactions>
struct ShapWalk {
  static constexpr int N = Lanes::N;
  const ShapStep* steps;
  const ShapFactor* factors;
  const double* inverse_weights;  // of the points; for interactions alone
  ShapRoom<Lanes> room;

  template <class Decide, class Add>
  BG_FN void tree(int64_t begin, int64_t end, const Decide& decide, Add& add) const {
    for (int i = 0; i < N; ++i) room.on(0)[i] = -1;
    for (int32_t q = 0; q < room.n_points; ++q)
      for (int i = 0; i < N; ++i) room.path(0, q)[i] = 1.0, room.below(0, q)[i] = 0.0;
    for (int64_t s = begin; s < end; ++s) {
      const ShapStep& step = steps[s];
      if (step.kind & SHAP_DECIDE) decide(step, room.went_left(step.depth));
      step.previous ? take<true>(step, add) : take<false>(step, add);
    }
  }

 private:
  template <bool Again, class Add>
  BG_FN void take(const ShapStep& step, Add& add) const {
    int64_t on[N], before[N];
    for (int i = 0; i < N; ++i) before[i] = room.on(step.previous)[i];
    if (step.kind & SHAP_LEAVE) {
      for (int i = 0; i < N; ++i) on[i] = room.on(step.depth)[i];
      return leave<Again>(step, on, before, add);
    }
    const int64_t flip = step.kind & SHAP_RIGHT ? -1 : 0;
    for (int i = 0; i < N; ++i) on[i] = before[i] & (room.went_left(step.depth)[i] ^ flip);
    if (step.kind & SHAP_LEAF) return leaf<Again>(step, on, before, add);
    for (int i = 0; i < N; ++i) room.on(step.depth)[i] = on[i];
    enter<Again>(step, on, before);
  }

  template <bool Again>
  BG_FN void enter(const ShapStep& step, const int64_t* on, const int64_t* before) const {
    for (int32_t q = 0; q < room.n_points; ++q) {
      const ShapFactor factor = factors[step.first_factor + q];
      const double* above = room.path(step.depth - 1, q);
      double here[N];
      for (int i = 0; i < N; ++i)
        here[i] = above[i] * choose<Again>(on[i], before[i], factor.on, factor.off, step.share);
      for (int i = 0; i < N; ++i) room.path(step.depth, q)[i] = here[i];
      for (int i = 0; i < N; ++i) room.below(step.depth, q)[i] = 0.0;
      if constexpr (Interactions) keep_change<Again>(step.depth, q, on, before, factor);
    }
  }

  template <bool Again, class Add>
  BG_FN void leave(const ShapStep& step, const int64_t* on, const int64_t* before, Add& add) const {
    double total[N];
    for (int i = 0; i < N; ++i) total[i] = 0.0;
    for (int32_t q = 0; q < room.n_points; ++q) {
      const ShapFactor factor = factors[step.first_factor + q];
      double below[N], above[N];
      for (int i = 0; i < N; ++i) below[i] = room.below(step.depth, q)[i];
      for (int i = 0; i < N; ++i) above[i] = room.below(step.depth - 1, q)[i] + below[i];
      for (int i = 0; i < N; ++i) room.below(step.depth - 1, q)[i] = above[i];
      for (int i = 0; i < N; ++i)
        below[i] = choose<Again>(on[i], before[i], factor.gain_on, factor.gain_off, 0.0) * below[i];
      for (int i = 0; i < N; ++i) total[i] = total[i] + below[i];
      if constexpr (Interactions)
        for (int i = 0; i < N; ++i) room.below(step.depth, q)[i] = below[i];
    }
    add(step.player, total);
    if constexpr (Interactions) pairs(step, add);
  }

  // Down to a leaf and up again at once: its factors hold its value.
  template <bool Again, class Add>
  BG_FN void leaf(const ShapStep& step, const int64_t* on, const int64_t* before, Add& add) const {
    double total[N];
    for (int i = 0; i < N; ++i) total[i] = 0.0;
    for (int32_t q = 0; q < room.n_points; ++q) {
      const ShapFactor factor = factors[step.first_factor + q];
      double path[N], above[N];
      for (int i = 0; i < N; ++i) path[i] = room.path(step.depth - 1, q)[i];
      for (int i = 0; i < N; ++i)
        above[i] = room.below(step.depth - 1, q)[i] +
                   choose<Again>(on[i], before[i], factor.on, factor.off, step.share) * path[i];
      for (int i = 0; i < N; ++i) room.below(step.depth - 1, q)[i] = above[i];
      for (int i = 0; i < N; ++i)
        path[i] = choose<Again>(on[i], before[i], factor.gain_on, factor.gain_off, 0.0) * path[i];
      for (int i = 0; i < N; ++i) total[i] = total[i] + path[i];
      if constexpr (Interactions)
        for (int i = 0; i < N; ++i) room.below(step.depth, q)[i] = path[i];
    }
    add(step.player, total);
    if constexpr (Interactions) pairs(step, add);
  }

  template <bool Again>
  BG_FN void keep_change(int32_t depth, int32_t q, const int64_t* on, const int64_t* before,
                         const ShapFactor& factor) const {
    for (int i = 0; i < N; ++i)
      room.change(depth, q)[i] =
          inverse_weights[q] *
          choose<Again>(on[i], before[i], factor.gain_on, factor.gain_off, 0.0);
  }

  // What an edge gives to its player, shared with that of each edge above it; below() holds the
  // terms of the points.
  template <class Add>
  BG_FN void pairs(const ShapStep& step, Add& add) const {
    for (int64_t at = step.above; at >= 0; at = steps[at].above) {
      const ShapStep& other = steps[at];
      if (other.player == step.player) continue;
      double total[N];
      for (int i = 0; i < N; ++i) total[i] = 0.0;
      for (int32_t q = 0; q < room.n_points; ++q) {
        const double *terms = room.below(step.depth, q), *change = room.change(other.depth, q);
        for (int i = 0; i < N; ++i) total[i] = total[i] + terms[i] * change[i];
      }
      add(step.player, other.player, total);
    }
  }
};

}  // namespace bitgrove
