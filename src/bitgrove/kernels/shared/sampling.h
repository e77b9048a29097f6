// Which rows a tree is grown on: by the hash of an id, or by their gradients, too.
#pragma once

#include "math.h"
#include "plans.h"
#include "rounding.h"

namespace bitgrove {

// Rows drawn without looking at gradients: those whose id has a hash below the limit. ids and
// limits are null, or have one entry for each row; without ids, those from first_row on count.
struct Draw {
  uint64_t key, first_row, limit;
  const uint64_t *ids, *limits;
};

// Rows drawn by their gradients: a row whose size sqrt(grad^2 + hess_share * hess^2) is at least
// `whole` is kept, others with a chance of base + slope * size.
struct KeepRule {
  double hess_share, whole, base, slope;
  uint64_t key, first_row;
};

// A row is drawn by its own id or by that of its query, with one limit for all or one of its own.
BG_FN bool is_drawn(const Draw& draw, int64_t row) {
  const uint64_t id = draw.ids ? draw.ids[row] : draw.first_row + static_cast<uint64_t>(row);
  return row_hash(draw.key, id) < (draw.limits ? draw.limits[row] : draw.limit);
}

// How much a row's gradients say about splits.
BG_FN double importance(double grad, double hess, double hess_share) {
  return square_root(grad * grad + hess_share * (hess * hess));
}

// 1 / p of a row that is kept, which happens with chance p; 0 of the others.
BG_FN double kept_weight(const KeepRule& rule, double grad, double hess, int64_t row) {
  const double size = importance(grad, hess, rule.hess_share);
  if (size >= rule.whole) return 1.0;
  const double chance = rule.base + rule.slope * size;
  const uint64_t hash = row_hash(rule.key, rule.first_row + static_cast<uint64_t>(row));
  const double draw = static_cast<double>(static_cast<int64_t>(hash >> 11)) * 0x1p-53;
  return draw < chance ? 1.0 / (chance < 1.0 ? chance : 1.0) : 0.0;
}

}  // namespace bitgrove
