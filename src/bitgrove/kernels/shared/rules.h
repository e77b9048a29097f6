// Trainings with rules: monotone features, smoothed outputs, drawn cuts, features that count less.
//
// A child says what its sums ask for, drawn towards its parent by path_smooth, within the bounds of
// the node. A split of a monotone feature whose children say the wrong order is none; the others
// gain what the loss falls by with these outputs. backends/reference/gain.py repeats it operation
// by operation; what bounds nodes have is cpp/growth/node_rules.cpp.
#pragma once

#if !defined(__CUDACC_RTC__)
#include <limits>
#endif

#include "gain.h"
#include "plans.h"

namespace bitgrove {

// Of every feature: 1 where predictions may only rise with it, -1 where they may only fall, 0 where
// they may do both; and what its gains are multiplied by.
struct SplitRules {
  const int8_t* direction;
  const double* contribution;
  double path_smooth;   // 0: outputs are not smoothed
  int64_t extra_trees;  // 1: one drawn cut per feature and node
};

#if defined(__CUDACC_RTC__)
BG_FN double minus_infinity() { return -__longlong_as_double(0x7FF0000000000000ll); }
#else
BG_FN double minus_infinity() { return -std::numeric_limits<double>::infinity(); }
#endif

BG_FN double within(double x, double lower, double upper) {
  x = x > upper ? upper : x;
  return x < lower ? lower : x;
}

// What a child says: `parent` is its node. Rows are counted as shares of the node's hessian.
BG_FN double child_output(double grad, double hess, const SearchNode& parent,
                          const GainRules& rules, double path_smooth) {
  double output = leaf_output(grad, hess, rules);
  // Read in any case: loads under a condition keep a search from going by vectors.
  const double hess_per_row = parent.hess_per_row, said = parent.output;
  if (path_smooth > 0.0) {
    const double weight = (hess / hess_per_row) / path_smooth;
    output = (output * weight) / (weight + 1.0) + said / (weight + 1.0);
  }
  return within(output, parent.lower, parent.upper);
}

// As PlainGain; minus infinity for a split in the wrong order.
struct RuledGain {
  const GainRules& rules;
  double parent_score;
  const SearchNode& node;
  const SplitRules& all;
  int direction;
  double contribution;

  BG_FN double operator()(double left_grad, double left_hess, double right_grad,
                          double right_hess) const {
    const double left = child_output(left_grad, left_hess, node, rules, all.path_smooth);
    const double right = child_output(right_grad, right_hess, node, rules, all.path_smooth);
    const double children = score_at(left_grad, left_hess, left, rules) +
                            score_at(right_grad, right_hess, right, rules);
    const double gain = contribution * (0.5 * (children - parent_score));
    const bool is_wrong = ((direction > 0) & (left > right)) | ((direction < 0) & (left < right));
    return is_wrong ? minus_infinity() : gain;
  }
  BG_FN RuledGain under(const GainRules& other) const {
    return {other, parent_score, node, all, direction, contribution};
  }
  BG_FN RuledGain of_feature(int64_t feature) const {
    return {rules, parent_score, node, all, all.direction[feature], all.contribution[feature]};
  }
  // Whether each feature has one drawn cut.
  BG_FN bool draws_all() const { return all.extra_trees != 0; }
};

BG_FN RuledGain ruled_gain(const GainRules& rules, const SearchNode& node, const SplitRules& all) {
  return {rules, score_at(node.grad, node.hess, node.output, rules), node, all, 0, 1.0};
}

}  // namespace bitgrove
