// What is drawn by hashes: the rows that a tree is grown on (by an id, or by their gradients, too),
// and what its nodes draw.
#pragma once

#include "math.h"
#include "plans.h"
#include "rounding.h"

namespace bitgrove {

// What is drawn for a node are hashes of its key and these numbers: of features from 0 on for its
// features, of its cuts, of its children.
constexpr uint64_t DRAWN_CUTS = 1ull << 40, DRAWN_CHILDREN = 1ull << 41;

// side: 0 of the left child. So a key says where in its tree a node is, and not when it was grown.
BG_FN uint64_t child_key(uint64_t parent, int side) {
  return row_hash(parent, DRAWN_CHILDREN + static_cast<uint64_t>(side));
}

// Cuts [first, last) of a feature, of which a node draws one.
struct CutRange {
  int first, last;
};
constexpr int NO_CUT = -1;

// The only cut of a feature that a node looks at.
BG_FN int drawn_cut(uint64_t node_key, int64_t feature, CutRange cuts) {
  if (cuts.first >= cuts.last) return NO_CUT;
  const uint64_t hash = row_hash(node_key, DRAWN_CUTS + static_cast<uint64_t>(feature));
  return cuts.first + static_cast<int>(hash % static_cast<uint64_t>(cuts.last - cuts.first));
}

// A DRAWN column draws among the cuts that leave enough on both sides, wherever the missing rows
// go: those with a hessian within these, of the values up to the cut. With extra_trees all columns
// draw among all cuts.
struct UsableHess {
  int64_t least, most;
};
BG_FN UsableHess usable_hess(double node_hess, double missing, double min_hess) {
  const auto all = static_cast<int64_t>(node_hess);
  int64_t enough = min_hess <= node_hess ? static_cast<int64_t>(min_hess) : all + 1;
  if (static_cast<double>(enough) < min_hess && enough <= all) ++enough;  // rounded up
  return {enough - static_cast<int64_t>(missing), all - enough};
}

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
