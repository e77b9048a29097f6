// A node of which the best split is looked for: its histogram, and what all its features need of
// it.
#pragma once

#include <cmath>
#include <cstdint>

#include "gain.h"
#include "plans.h"

namespace bitgrove {

struct SearchedNode {
  const uint8_t *slot, *allowed;
  const SearchNode* searched;
  int width;
  double grad, hess, min_hess, hess_per_row;
  // For estimates: lambda in units of the integer hessian, the gain's unit, min_hess as an integer.
  float lambda = 0.0f;
  double estimate_unit = 0.0;
  int32_t least_hess = 0;
  bool can_estimate = false;

  // Sums of w + w bits have w / 4 bytes.
  const uint8_t* bins(int64_t first) const { return slot + first * (width / 4); }
  int64_t most_hess() const { return static_cast<int64_t>(hess - least_hess); }
};

// Estimates need 32-bit sums, products below 2^128, and no cancellation (L1 regularisation).
inline SearchedNode searched_node(const SearchNode& searched, const uint8_t* slot,
                                  const uint8_t* allowed, const GainRules& rules) {
  SearchedNode node{slot,          allowed,       &searched,         searched.width,
                    searched.grad, searched.hess, searched.min_hess, searched.hess_per_row};
  node.can_estimate = node.width <= 32 && rules.reg_alpha == 0.0 && node.hess <= 0x1p31 - 1.0 &&
                      node.min_hess <= node.hess && rules.reg_lambda <= 0x1p32 * rules.hess_scale;
  if (!node.can_estimate) return node;
  node.lambda = static_cast<float>(rules.reg_lambda / rules.hess_scale);
  node.estimate_unit = rules.grad_scale * rules.grad_scale / rules.hess_scale;
  node.least_hess = static_cast<int32_t>(std::ceil(node.min_hess));
  return node;
}

}  // namespace bitgrove
