// The split gain of the paper (equation 7) with L1 and L2 regularisation, in float64.
//
// The order of operations is part of the contract of sameness: backends/reference/search.py repeats
// it operation by operation. One division serves both children.
#pragma once

#include "layouts.h"

namespace bitgrove {

struct GainRules {
  double grad_scale;
  double hess_scale;
  double reg_lambda;
  double reg_alpha;
  double min_gain;
  // Of splits by levels of a category, see levels.h.
  double cat_smooth;
  double cat_l2;
  double min_data_per_group;
  double max_cat_threshold;
  double max_cat_to_onehot;
};

BG_FN double soften(double grad, double reg_alpha) {
  const double shrunk = (grad < 0.0 ? -grad : grad) - reg_alpha;
  const double positive = shrunk > 0.0 ? shrunk : 0.0;
  return grad < 0.0 ? -positive : positive;
}

// (soft(G))^2 / (H + lambda): twice the loss a leaf takes away.
BG_FN double leaf_score(double grad, double hess, const GainRules& rules) {
  const double g = soften(grad * rules.grad_scale, rules.reg_alpha);
  return (g * g) / (hess * rules.hess_scale + rules.reg_lambda);
}

BG_FN double split_gain(double left_grad, double left_hess, double right_grad, double right_hess,
                        double parent_score, const GainRules& rules) {
  const double gl = soften(left_grad * rules.grad_scale, rules.reg_alpha);
  const double gr = soften(right_grad * rules.grad_scale, rules.reg_alpha);
  const double hl = left_hess * rules.hess_scale + rules.reg_lambda;
  const double hr = right_hess * rules.hess_scale + rules.reg_lambda;
  const double children = ((gl * gl) * hr + (gr * gr) * hl) / (hl * hr);
  return 0.5 * (children - parent_score);
}

// What a leaf of these sums says, before the learning rate: -soft(G) / (H + lambda).
BG_FN double leaf_output(double grad, double hess, const GainRules& rules) {
  const double g = soften(grad * rules.grad_scale, rules.reg_alpha);
  const double curvature = hess * rules.hess_scale + rules.reg_lambda;
  const bool is_known = curvature > 0.0;
  return (is_known ? -g : 0.0) / (is_known ? curvature : 1.0);
}

// leaf_score of a leaf that says something else than it would like to.
BG_FN double score_at(double grad, double hess, double output, const GainRules& rules) {
  const double g = soften(grad * rules.grad_scale, rules.reg_alpha);
  const double curvature = hess * rules.hess_scale + rules.reg_lambda;
  return -((2.0 * g) * output + (curvature * output) * output);
}

// The gain of a node's splits: what searches ask, for trainings without rules (rules.h: with them).
struct PlainGain {
  const GainRules& rules;
  double parent_score;

  BG_FN double operator()(double left_grad, double left_hess, double right_grad,
                          double right_hess) const {
    return split_gain(left_grad, left_hess, right_grad, right_hess, parent_score, rules);
  }
  BG_FN PlainGain under(const GainRules& other) const { return {other, parent_score}; }
  BG_FN PlainGain of_feature(int64_t) const { return *this; }
  BG_FN bool draws_all() const { return false; }
};

// Gains that are only rounding noise of the parent's score are not splits.
constexpr double RELATIVE_GAIN_NOISE = 1e-12;

BG_FN double gain_floor(double parent_score, const GainRules& rules) {
  const double noise = parent_score * RELATIVE_GAIN_NOISE;
  return noise > rules.min_gain ? noise : rules.min_gain;
}

}  // namespace bitgrove
