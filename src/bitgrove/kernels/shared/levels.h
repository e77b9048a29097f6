// Splits of a category: which levels (bins) go left.
//
// Levels are sorted by the step that their rows ask for, gradient / (hessian + cat_smooth), ties by
// bin; the best subset for a convex loss is then a run from one end (Fisher 1958). As in LightGBM,
// runs of at most max_cat_threshold levels are tried from both ends, each min_data_per_group rows
// longer than the one before; a feature of at most max_cat_to_onehot bins is split one level
// against the rest. The missing bin is a level like the others; levels without rows in the node go
// right. Histograms have no counts of rows: these are shares of the node's hessian, as
// min_child_samples is. backends/reference/levels.py repeats it operation by operation.
#pragma once

#include "gain.h"
#include "plans.h"

namespace bitgrove {

struct LevelSums {
  double grad, hess;
};

// The first n levels from one end, or the level of number n - 1 alone; n = 0: no split.
struct LevelRun {
  double gain;
  LevelSums left;
  int n;
};

// What levels are sorted by.
BG_FN double level_step(LevelSums level, const GainRules& rules) {
  const double curvature = level.hess * rules.hess_scale + rules.cat_smooth;
  return curvature > 0.0 ? (level.grad * rules.grad_scale) / curvature : 0.0;
}

BG_FN bool is_onehot(int n_bins, const GainRules& rules) {
  return static_cast<double>(n_bins) <= rules.max_cat_to_onehot;
}

// Runs are chosen among many: they pay cat_l2 for it.
BG_FN GainRules run_rules(GainRules rules) {
  rules.reg_lambda = rules.reg_lambda + rules.cat_l2;
  return rules;
}

template <class Node, class Gain>
BG_FN double level_gain(LevelSums left, const Node& node, const Gain& gain) {
  return gain(left.grad, left.hess, node.grad - left.grad, node.hess - left.hess);
}

// The best run from one end of n_levels sorted levels; level(i) are the sums of the i-th from
// there.
template <class Node, class Gain, class Level>
BG_FN LevelRun best_run(int n_levels, const Node& node, const Gain& gain, double least,
                        const Level& level) {
  const GainRules& rules = gain.rules;
  const GainRules penalised = run_rules(rules);
  const Gain run_gain = gain.under(penalised);
  const double group_hess = (rules.min_data_per_group - 0.5) * node.hess_per_row;
  const int half = (n_levels + 1) / 2;
  const int longest =
      half < rules.max_cat_threshold ? half : static_cast<int>(rules.max_cat_threshold);
  LevelRun best{least, {0.0, 0.0}, 0};
  LevelSums left{0.0, 0.0};
  double group = 0.0;
  for (int i = 0; i < longest; ++i) {
    const LevelSums next = level(i);
    left.grad += next.grad;
    left.hess += next.hess;
    group += next.hess;
    if (left.hess < node.min_hess) continue;
    const double right_hess = node.hess - left.hess;
    if (right_hess < node.min_hess || right_hess < group_hess) break;
    if (group < group_hess) continue;
    group = 0.0;
    const double found = level_gain(left, node, run_gain);
    if (found > best.gain) best = {found, left, i + 1};
  }
  return best;
}

}  // namespace bitgrove
