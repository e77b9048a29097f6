"""What rounding costs where it counts: the gain of the split that is chosen.

Owns measure_split_regret. For the nodes of a model's trees it computes the gain of every candidate
split from the original gradients, lets roundings of them choose, and compares the true gain of the
chosen split with that of the best one. Beside it stands a certificate for all candidates at once:
the rounding variance of every sum is known, so Bernstein's inequality bounds all of them together.
Gains are reductions of the loss: the parent's score is taken off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.data.dataset import Dataset
from bitgrove.data.sampling import feature_sample
from bitgrove.distributed.comm import SoloComm
from bitgrove.errors import ParameterError
from bitgrove.model.model import Model
from bitgrove.params import TrainParams
from bitgrove.theory.bounds import bernstein_slack, certified_share, score_slack
from bitgrove.theory.leaves import child_sums, sum_leaves
from bitgrove.theory.redrawn import RedrawnTree, redrawn_trees
from bitgrove.training.booster import Booster

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

# What changes gains, or which splits a node may have, in ways that are not worked out here.
_UNMEASURED = (
    "max_delta_step", "colsample_bynode", "extra_trees", "monotone_constraints",
    "interaction_constraints", "path_smooth", "feature_contri",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class SplitRegret:
    """One column per node that was split.

    kept: true gain of the split that a rounding chose over the best gain, one row per drawing; 1
    where it chose the best one, 0 or less where the loss would not fall. certified: what `kept` is
    not below, in a share 1 - delta of the drawings, whichever split they choose; 0: nothing.
    """

    bits: int
    tree: I64
    n_rows: F64
    best_gain: F64
    kept: F64  # (n_draws, n_nodes)
    certified: F64
    delta: float

    def regret(self) -> float:
        """Share of the gain of all nodes together that rounding loses, mean of the drawings."""
        total = float(self.best_gain.sum())
        lost = float(((1.0 - self.kept.mean(axis=0)) * self.best_gain).sum())
        return lost / total if total > 0.0 else 0.0

    def regret_by_tree(self) -> dict[int, float]:
        """The same of each tree by itself: the first, with most of the gain, hide the others."""
        lost = (1.0 - self.kept.mean(axis=0)) * self.best_gain
        trees, place = np.unique(self.tree, return_inverse=True)
        totals = np.bincount(place, weights=self.best_gain, minlength=len(trees))
        shares = np.bincount(place, weights=lost, minlength=len(trees)) / np.maximum(totals, 1e-300)
        return dict(zip(trees.tolist(), shares.tolist(), strict=True))

    def certified_regret(self) -> float:
        """The same of the certificate: what is not certain counts as lost."""
        total = float(self.best_gain.sum())
        lost = float(((1.0 - self.certified) * self.best_gain).sum())
        return lost / total if total > 0.0 else 0.0


def measure_split_regret(
    model: Model,
    data: Dataset,
    bits: int,
    *,
    n_draws: int = 10,
    iterations: Sequence[int] | None = None,
    rounding: str = "stochastic",
    gradient_scale: str = "max",
    delta: float = 0.1,
    seed: int = 0,
    objective: Callable[..., Any] | None = None,
) -> SplitRegret:
    """Lets n_draws roundings choose the splits of the given iterations (from 0; None: all).

    data: the rows the model was trained on. The nodes are those of the model's own trees; which
    splits they may have (rows and hessian of a child, sampled rows and features) is decided from
    the original gradients. With nearest rounding nothing is certified: its errors are not random.
    objective: the function, where the model was trained with one of yours.
    """
    if n_draws < 1:
        raise ParameterError(f"n_draws={n_draws!r}: must be an integer >= 1")
    drawing = {"gradient_bits": bits, "rounding": rounding, "gradient_scale": gradient_scale}
    trees = redrawn_trees(model, data, iterations, seed, objective, _UNMEASURED, **drawing)
    parts = [_tree_regret(redrawn, booster, n_draws, delta) for redrawn, booster in trees]
    empty = np.zeros((n_draws, 0))
    return SplitRegret(
        bits=bits,
        tree=np.concatenate([np.zeros(0, np.int64), *(part.tree for part in parts)]),
        n_rows=np.concatenate([np.zeros(0), *(part.n_rows for part in parts)]),
        best_gain=np.concatenate([np.zeros(0), *(part.best_gain for part in parts)]),
        kept=np.concatenate([empty, *(part.kept for part in parts)], axis=1),
        certified=np.concatenate([np.zeros(0), *(part.certified for part in parts)]),
        delta=delta,
    )


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Of one node: the sums of the left child of every candidate split, and of the node itself."""

    left: F64  # (n_columns, n_candidates)
    node: F64  # (n_columns,)

    @property
    def right(self) -> F64:
        return self.node[:, None] - self.left

    def scores(self, grad: int, hess: int, params: TrainParams) -> F64:
        """g^2 / 2h of both children, from the columns of these numbers."""
        return _score(self.left, grad, hess, params) + _score(self.right, grad, hess, params)


def _score(sums: F64, grad: int, hess: int, params: TrainParams) -> F64:
    soft, least = _softened(sums[grad], params), sums[hess] + params.leaf_penalty
    return np.divide(soft**2, 2.0 * least, out=np.zeros_like(soft), where=least > 0.0)


def _softened(grad: F64, params: TrainParams) -> F64:
    return np.asarray(np.sign(grad) * np.maximum(np.abs(grad) - params.reg_alpha, 0.0))


# Columns of the sums; the pairs of the drawings follow.
_ROWS, _GRAD, _HESS, _GRAD_VARIANCE, _HESS_VARIANCE, _FIRST_DRAW = range(6)


def _tree_regret(redrawn: RedrawnTree, booster: Booster, n_draws: int, delta: float) -> SplitRegret:
    params = redrawn.params
    nodes = list(_nodes(redrawn, booster, n_draws))
    kept, certified = np.ones((n_draws, len(nodes))), np.ones(len(nodes))
    best = np.zeros(len(nodes))
    for k, node in enumerate(nodes):
        scores = node.scores(_GRAD, _HESS, params)
        parent = float(_score(node.node[:, None], _GRAD, _HESS, params)[0])
        best[k] = max(float(scores.max(initial=-np.inf)) - parent, 0.0)
        if best[k] <= 0.0:
            continue
        for draw in range(n_draws):
            column = _FIRST_DRAW + 2 * draw
            chosen = int(np.argmax(node.scores(column, column + 1, params)))
            kept[draw, k] = (scores[chosen] - parent) / best[k]
        certified[k] = 0.0
        if params.rounding == "stochastic":
            slacks = _slacks(node, redrawn, delta)
            certified[k] = certified_share(scores, slacks, parent)
    bits = params.gradient_bits
    assert bits is not None
    number = np.full(len(nodes), redrawn.number, np.int64)
    n_rows = np.array([node.node[_ROWS] for node in nodes])
    return SplitRegret(bits, number, n_rows, best, kept, certified, delta)


def _slacks(node: _Candidates, redrawn: RedrawnTree, delta: float) -> F64:
    """How far rounding may move the score of each candidate, all at once, but with chance delta."""
    unit_grad, unit_hess = redrawn.units
    # Both children, and gradient and hessian unless that is constant, of every candidate.
    n_sums = node.left.shape[1] * (2 if redrawn.hess is None else 4)
    total = np.zeros(node.left.shape[1])
    for sums in (node.left, node.right):
        grad_slack = bernstein_slack(sums[_GRAD_VARIANCE], unit_grad, n_sums, delta)
        hess_slack = np.zeros(1)
        if redrawn.hess is not None:
            hess_slack = bernstein_slack(sums[_HESS_VARIANCE], unit_hess, n_sums, delta)
        soft = _softened(sums[_GRAD], redrawn.params)
        hess = sums[_HESS] + redrawn.params.leaf_penalty
        total += score_slack(soft, hess, grad_slack, hess_slack)
    return total


def _nodes(redrawn: RedrawnTree, booster: Booster, n_draws: int) -> Iterator[_Candidates]:
    """The candidates of every node that the tree split."""
    tree, columns = redrawn.tree, _columns(redrawn, n_draws)
    allowed = feature_sample(redrawn.params, redrawn.number, booster.dataset.n_features)
    found: list[list[F64]] = [[] for _ in range(tree.n_splits)]
    whole: F64 = np.zeros((len(columns), tree.n_splits))
    for feature in np.flatnonzero(allowed).tolist():
        bin_of, n_bins = _bins(booster, feature, redrawn)
        place = redrawn.leaf * n_bins + bin_of
        sums = sum_leaves(tree.n_leaves * n_bins, place, columns, SoloComm())
        by_leaf = sums.reshape(len(columns), tree.n_leaves, n_bins).transpose(0, 2, 1)
        left, right = child_sums(tree, by_leaf.reshape(-1, tree.n_leaves))
        bins = (left + right).reshape(len(columns), n_bins, tree.n_splits)
        whole = bins.sum(axis=1)
        for node in range(tree.n_splits):
            found[node].append(_left_sums(bins[:, :, node]))
    for node, parts in enumerate(found):
        yield _admissible(_Candidates(np.concatenate(parts, axis=1), whole[:, node]), redrawn)


def _bins(booster: Booster, feature: int, redrawn: RedrawnTree) -> tuple[I64, int]:
    """(bin of each row that the tree saw, number of bins); the last one is of missing values."""
    mapper = booster.matrix.mapper
    edges = mapper.edge_values[mapper.edge_offset[feature] : mapper.edge_offset[feature + 1]]
    values = np.asarray(booster.dataset.columns[feature][redrawn.rows], np.float64)
    found = np.searchsorted(edges, values, side="left")
    return np.where(np.isnan(values), len(edges) + 1, found), len(edges) + 2


def _columns(redrawn: RedrawnTree, n_draws: int) -> list[F64]:
    """What is summed over the rows of a node: see the numbers of the columns."""
    grad, hess = redrawn.original()
    ones = np.ones(len(grad))
    unit_grad, unit_hess = redrawn.units
    second = ones if hess is None else hess
    drawn = [column for draw in range(n_draws) for column in redrawn.draw(draw)]
    return [ones, grad, second, _variance(grad, unit_grad), _variance(second, unit_hess), *drawn]


def _variance(values: F64, unit: float) -> F64:
    """Of stochastic rounding: unit^2 f (1 - f), where f is the fraction of a step."""
    if unit == 0.0:
        return np.zeros_like(values)
    fraction = np.modf(np.abs(values) / unit)[0]
    return np.asarray(unit**2 * fraction * (1.0 - fraction))


def _left_sums(bins: F64) -> F64:
    """(n_columns, n_candidates) of one feature: every cut, with missing values on either side."""
    left = np.cumsum(bins[:, :-1], axis=1)
    if not bins[_ROWS, -1]:
        return left[:, :-1]
    return np.concatenate([left, left[:, :-1] + bins[:, -1:]], axis=1)


def _admissible(node: _Candidates, redrawn: RedrawnTree) -> _Candidates:
    """The candidates whose children have rows and hessian enough."""
    params, keep = redrawn.params, np.ones(node.left.shape[1], np.bool_)
    for sums in (node.left, node.right):
        keep &= (sums[_ROWS] >= params.min_child_samples) & (sums[_HESS] >= params.min_child_weight)
    return _Candidates(node.left[:, keep], node.node)
