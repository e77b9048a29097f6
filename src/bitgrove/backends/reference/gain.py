"""The split gain in plain NumPy: the oracle of kernels/shared/gain.h and rules.h.

It is equation (7) of the paper with L1/L2 regularisation; with rules of splits, it is the gain of
the outputs that they leave to the children.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.exact_math import row_hash
from bitgrove.constraints.rules import GainRules, SplitRules

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
_DRAWN_CUTS = 1 << 40


def soften(grad: F64, reg_alpha: float) -> F64:
    positive = np.maximum(np.abs(grad) - reg_alpha, 0.0)
    return np.where(grad < 0.0, -positive, positive)


def leaf_score(grad: float, hess: float, rules: GainRules) -> float:
    g = float(soften(np.float64(grad * rules.grad_scale), rules.reg_alpha))
    denominator = hess * rules.hess_scale + rules.reg_lambda
    return (g * g) / denominator if denominator > 0 else 0.0


def leaf_output(grad: F64, hess: F64, rules: GainRules) -> F64:
    g = soften(grad * rules.grad_scale, rules.reg_alpha)
    curvature = hess * rules.hess_scale + rules.reg_lambda
    return np.divide(-g, curvature, out=np.zeros_like(g), where=curvature > 0.0)


def score_at(grad: F64, hess: F64, output: F64, rules: GainRules) -> F64:
    """leaf_score of a leaf that says something else than it would like to."""
    g = soften(grad * rules.grad_scale, rules.reg_alpha)
    curvature = hess * rules.hess_scale + rules.reg_lambda
    return -((2.0 * g) * output + (curvature * output) * output)


class Parent(NamedTuple):
    """What of a node its children's outputs depend on; also fields of a SearchNode."""

    lower: float
    upper: float
    output: float
    hess_per_row: float


def child_output(grad: F64, hess: F64, parent: Parent, rules: GainRules, smooth: float) -> F64:
    output = leaf_output(grad, hess, rules)
    if smooth > 0.0:
        weight = (hess / parent.hess_per_row) / smooth
        output = (output * weight) / (weight + 1.0) + parent.output / (weight + 1.0)
    output = np.where(output > parent.upper, parent.upper, output)
    return np.where(output < parent.lower, parent.lower, output)


class FeatureGain(NamedTuple):
    """The gains of one feature's splits at one node."""

    feature: int
    node: np.void
    rules: GainRules
    split_rules: SplitRules | None = None
    is_drawn: bool = False  # whether it is one of the drawn columns

    @property
    def parent_score(self) -> float:
        """Of the node as it is."""
        node = self.node
        if self.split_rules is None:
            return leaf_score(node["grad"], node["hess"], self.rules)
        return float(score_at(node["grad"], node["hess"], node["output"], self.rules))

    def of(self, left: I64, extra_lambda: float = 0.0) -> F64:
        """left[i] are the sums of the rows that go left at split i.

        extra_lambda: what the children pay on top of reg_lambda.
        """
        node = self.node
        left_grad, left_hess = left[:, 0].astype(np.float64), left[:, 1].astype(np.float64)
        right_grad, right_hess = node["grad"] - left_grad, node["hess"] - left_hess
        allowed = (left_hess >= node["min_hess"]) & (right_hess >= node["min_hess"])
        sums = (left_grad, left_hess, right_grad, right_hess)
        rules = self.rules._replace(reg_lambda=self.rules.reg_lambda + extra_lambda)
        if self.split_rules is None:
            with np.errstate(divide="ignore", invalid="ignore"):
                gain = 0.5 * (_children_score(*sums, rules) - self.parent_score)
            return np.where(allowed, gain, -np.inf)
        gain, is_right = self._with_rules(self.split_rules, *sums, rules)
        return np.where(allowed & is_right, gain, -np.inf)

    def _with_rules(
        self, split_rules: SplitRules, gl: F64, hl: F64, gr: F64, hr: F64, rules: GainRules
    ) -> tuple[F64, NDArray[np.bool_]]:
        """The gains, and which splits are in the right order."""
        parent = Parent(*(self.node[name] for name in Parent._fields))
        smooth, direction = split_rules.path_smooth, int(split_rules.direction[self.feature])
        left = child_output(gl, hl, parent, rules, smooth)
        right = child_output(gr, hr, parent, rules, smooth)
        children = score_at(gl, hl, left, rules) + score_at(gr, hr, right, rules)
        gain = split_rules.contribution[self.feature] * (0.5 * (children - self.parent_score))
        return gain, direction * left <= direction * right

    def looked_at(self, left_hess: I64, missing_hess: int) -> range:
        """The cuts that are looked at, of all; left_hess: of the values up to each.

        With extra_trees one drawn of all; of a drawn column one of those that leave both sides
        enough, wherever missing rows go.
        """
        cuts, least = range(len(left_hess)), self.node["min_hess"]
        every = self.split_rules is not None and self.split_rules.extra_trees
        if not (self.is_drawn or every):
            return cuts
        if not every:
            too_low = int(np.sum(left_hess + missing_hess < least))
            too_high = int(np.sum(self.node["hess"] - left_hess < least))
            cuts = cuts[too_low : len(cuts) - too_high]
        number = np.array([_DRAWN_CUTS + self.feature], dtype=np.uint64)
        hashed = int(row_hash(int(self.node["key"]), number)[0])
        return cuts[hashed % len(cuts) :][:1] if cuts else cuts


def _children_score(
    left_grad: F64, left_hess: F64, right_grad: F64, right_hess: F64, rules: GainRules
) -> F64:
    gl = soften(left_grad * rules.grad_scale, rules.reg_alpha)
    gr = soften(right_grad * rules.grad_scale, rules.reg_alpha)
    hl = left_hess * rules.hess_scale + rules.reg_lambda
    hr = right_hess * rules.hess_scale + rules.reg_lambda
    return ((gl * gl) * hr + (gr * gr) * hl) / (hl * hr)
