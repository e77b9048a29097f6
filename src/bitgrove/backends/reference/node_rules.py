"""What rules mean for each node of a growing tree: the oracle of cpp/growth/node_rules.cpp.

Owns the bounds of nodes, what they say and their features. "basic" and
"intermediate" bounds of monotone features are told apart in cpp/growth/node_rules.h.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import floor, inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.exact_math import row_hash
from bitgrove.backends.reference.gain import Parent, child_output, leaf_output
from bitgrove.constraints.rules import TreeRules
from bitgrove.kernels.plans import SUBSET

_ALL_BINS = (1 << 256) - 1


@dataclass(eq=False)
class Ruled:
    """What is known of a node; sets of bins are the bits of an integer."""

    hess_per_row: float
    output: float
    lower: float = -inf
    upper: float = inf
    path: frozenset[int] = frozenset()
    box: dict[int, int] = field(default_factory=dict)  # bins that its rows have of some features
    # Leaves beside this one, and the feature in which they are above or below it.
    above: dict[Ruled, int] = field(default_factory=dict)
    below: dict[Ruled, int] = field(default_factory=dict)

    def bound_by_neighbours(self) -> bool:
        """Whether that moved the bounds."""
        before = (self.lower, self.upper)
        self.lower = max((other.output for other in self.below), default=-inf)
        self.upper = min((other.output for other in self.above), default=inf)
        return before != (self.lower, self.upper)


class NodeRules:
    def __init__(self, rules: TreeRules) -> None:
        self.rules = rules
        self.moves_bounds = rules.intermediate and bool(rules.direction.any())
        self.limits_features = len(rules.groups) > 0 or rules.features_per_node < 1.0

    def start(self, node: Any) -> Ruled:
        return self._made(node, float(self._output(node)))

    def _made(self, node: Any, output: float) -> Ruled:
        return Ruled(float(node.hess) / float(max(node.n_rows, 1)), output)

    def _output(self, node: Any) -> Any:
        grad, hess = np.float64(node.grad), np.float64(node.hess)
        return leaf_output(np.array([grad]), np.array([hess]), self.rules.gain)[0]

    def divide(self, node: Any, left: Any, right: Any) -> list[Ruled]:
        """Gives the children their rules; returns leaves whose bounds moved."""
        ruled: Ruled = node.ruled
        parent = Parent(ruled.lower, ruled.upper, ruled.output, ruled.hess_per_row)
        gain, smooth = self.rules.gain, self.rules.path_smooth
        for child in (left, right):
            sums = (np.array([float(child.grad)]), np.array([float(child.hess)]))
            output = float(child_output(*sums, parent, gain, smooth)[0])
            child.ruled = self._made(child, output)
            child.ruled.lower, child.ruled.upper = ruled.lower, ruled.upper
            child.ruled.path = ruled.path | {int(node.split["feature"])}
        direction = int(self.rules.direction[node.split["feature"]])
        low, high = (left, right) if direction > 0 else (right, left)
        if self.moves_bounds:
            return self._meet_neighbours(node, left, right, (low, high) if direction else None)
        if direction:
            middle = 0.5 * left.ruled.output + 0.5 * right.ruled.output
            low.ruled.upper = high.ruled.lower = middle
        return []

    def _meet_neighbours(
        self, node: Any, left: Any, right: Any, ordered: tuple[Any, Any] | None
    ) -> list[Ruled]:
        parent, feature = node.ruled, int(node.split["feature"])
        to_left = self._left_bins(node.split, left.n_rows, right.n_rows)
        for child, bins in ((left, to_left), (right, _ALL_BINS & ~to_left)):
            known = parent.box.get(feature, _ALL_BINS)
            child.ruled.box = {**parent.box, feature: known & bins}
        if ordered is not None:
            low, high = ordered
            low.ruled.above[high.ruled] = high.ruled.below[low.ruled] = feature
        for mine, theirs in (("above", "below"), ("below", "above")):
            for other, between in getattr(parent, mine).items():
                del getattr(other, theirs)[parent]
                for child in (left.ruled, right.ruled):
                    if _overlap(child.box, other.box, between):
                        getattr(child, mine)[other] = between
                        getattr(other, theirs)[child] = between
        left.ruled.bound_by_neighbours()
        right.ruled.bound_by_neighbours()
        return [other for other in (*parent.above, *parent.below) if other.bound_by_neighbours()]

    def _left_bins(self, split: Any, n_left: int, n_right: int) -> int:
        """Rows without a value go with the majority, if training had none."""
        feature = int(split["feature"])
        missing = 1 << int(self.rules.missing_bin[feature])
        default_left = bool(split["default_left"])
        if not self.rules.has_missing[feature]:
            default_left = 2 * n_left >= n_left + n_right
        bins = (1 << (int(split["bin"]) + 1)) - 1
        if split["bin"] == SUBSET:
            bins = sum(int(word) << (64 * i) for i, word in enumerate(split["left_bins"]))
        return bins | missing if default_left else bins & ~missing

    def allowed(self, ruled: Ruled, key: int) -> NDArray[np.uint8]:
        """Of the groups that hold the node's path; of those features a part, drawn by the key."""
        rules = self.rules
        found = rules.allowed.copy()
        if len(rules.groups):
            held = rules.groups[:, sorted(ruled.path)].all(axis=1)
            found &= rules.groups[held].max(axis=0, initial=0)
        if rules.features_per_node < 1.0:
            features = np.flatnonzero(found)
            n_kept = max(1, floor(rules.features_per_node * len(features) + 0.5))
            order = np.argsort(row_hash(key, features.astype(np.uint64)))
            found[features[order[n_kept:]]] = 0
        return found

    def leaf_bounds(self, ruled: Ruled) -> tuple[float, float]:
        """What the value of a leaf must keep to, wherever it comes from."""
        if not self.moves_bounds:
            return ruled.lower, ruled.upper
        below = [0.5 * ruled.output + 0.5 * other.output for other in ruled.below]
        above = [0.5 * ruled.output + 0.5 * other.output for other in ruled.above]
        return max(below, default=-inf), min(above, default=inf)


def _overlap(a: dict[int, int], b: dict[int, int], but: int) -> bool:
    """Whether two rows, one of each box, can be equal in all features but one."""
    return all(a[f] & b[f] for f in a.keys() & b.keys() if f != but)
