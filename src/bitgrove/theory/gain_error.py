"""How far rounding moves the gains of splits, measured instead of bounded.

Owns measure_gain_errors: receives a model and its rows, computes the gradients each tree was grown
from, rounds them many times with the library's own quantizer and compares every split's gain with
that of the original gradients. Returns GainErrors, with the theorems' bounds for the same splits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.data.dataset import Dataset
from bitgrove.distributed.comm import SoloComm
from bitgrove.errors import ParameterError
from bitgrove.model.model import Model
from bitgrove.model.tree import Tree
from bitgrove.params import TrainParams
from bitgrove.theory.bounds import gain_error_bound, hessian_gain_error_bound, units
from bitgrove.theory.leaves import Sums, TreeSums, child_sums, sum_leaves, tree_sums
from bitgrove.theory.redrawn import RedrawnTree, redrawn_trees

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
_DELTA = 0.1


@dataclass(frozen=True, eq=False)
class GainErrors:
    """One column per split. `error` is `|rounded gain - gain| / gain`, one row per drawing.

    The denominator is the gain of the split that was taken. The theorems divide by that of the best
    split, which is at least as large: these errors are never too small.
    """

    bits: int
    tree: I64
    n_left: F64
    n_right: F64
    gain: F64  # the paper's G, before rounding
    gamma: F64
    error: F64  # (n_draws, n_splits)
    bound: F64  # of delta
    delta: float

    @property
    def n_splits(self) -> int:
        return len(self.gain)

    @property
    def typical(self) -> F64:
        """Of each split: the error that a share 1 - delta of the drawings stays under."""
        return np.asarray(np.quantile(self.error, 1.0 - self.delta, axis=0))

    def worst(self, share: float = 0.9) -> float:
        """The `typical` error that this share of the splits, weighted by gain, stays under."""
        order = np.argsort(self.typical)
        weight = np.cumsum(self.gain[order])
        if not len(order) or weight[-1] <= 0.0:
            return 0.0
        at = np.searchsorted(weight, share * weight[-1])
        return float(self.typical[order][min(int(at), len(order) - 1)])


def measure_gain_errors(
    model: Model,
    data: Dataset,
    bits: int,
    *,
    n_draws: int = 20,
    iterations: Sequence[int] | None = None,
    rounding: str = "stochastic",
    gradient_scale: str = "max",
    delta: float = _DELTA,
    seed: int = 0,
    objective: Callable[..., Any] | None = None,
) -> GainErrors:
    """Rounds the gradients of the given iterations (from 0; None: all) n_draws times.

    data: the rows the model was trained on; a tree's errors are those of the rows it saw, where the
    model has `subsample`. Bounds are for stochastic rounding; with another they are infinite. They
    hold for one split at a time, and relative to the gain of the best split before the parent's
    score is taken off (the paper's G*); see measure_split_regret for all splits of a node and the
    reduction of the loss. Use a model of full precision (gradient_bits=None) to see the splits that
    quantization may lose. objective: the function, where the model was trained with one of yours.
    """
    if n_draws < 1:
        raise ParameterError(f"n_draws={n_draws!r}: must be an integer >= 1")
    drawing: dict[str, Any] = {
        "gradient_bits": bits, "rounding": rounding, "gradient_scale": gradient_scale,
    }  # fmt: skip
    trees = redrawn_trees(model, data, iterations, seed, objective, **drawing)
    parts = [_tree_errors(tree, n_draws, delta) for tree, _ in trees]
    return _concatenate(bits, delta, n_draws, parts)


def rounding_errors(
    tree: Tree,
    leaf: I64,
    grad: NDArray[np.float32],
    hess: NDArray[np.float32] | None,
    params: TrainParams,
    number: int,
    n_draws: int = 1,
) -> GainErrors:
    """Errors of one tree, from its rows' leaves and the gradients it was grown from."""
    redrawn = RedrawnTree(number, tree, leaf, slice(None), grad, hess, params, params.random_state)
    return _tree_errors(redrawn, n_draws, _DELTA)


def _tree_errors(redrawn: RedrawnTree, n_draws: int, delta: float) -> GainErrors:
    tree, leaf = redrawn.tree, redrawn.leaf
    sums = tree_sums(tree, leaf, *redrawn.original())
    gain = _gain((sums.left.grad, sums.left.hess), (sums.right.grad, sums.right.hess))
    error = np.empty((n_draws, tree.n_splits))
    for draw in range(n_draws):
        rounded = sum_leaves(tree.n_leaves, leaf, redrawn.draw(draw), SoloComm())
        left, right = child_sums(tree, rounded)
        moved = np.abs(_gain(tuple(left), tuple(right)) - gain)
        error[draw] = np.divide(moved, gain, out=np.zeros_like(gain), where=gain > 0.0)
    bits = redrawn.params.gradient_bits
    assert bits is not None
    return GainErrors(
        bits=bits,
        tree=np.full(tree.n_splits, redrawn.number),
        n_left=sums.left.rows,
        n_right=sums.right.rows,
        gain=gain,
        gamma=sums.gamma,
        error=error,
        bound=_bound(sums, redrawn, bits, delta),
        delta=delta,
    )


def _gain(left: tuple[F64, F64], right: tuple[F64, F64]) -> F64:
    """The paper's G from (gradient, hessian) sums; a child without hessian adds nothing."""
    total = np.zeros(len(left[0]))
    for grad, hess in (left, right):
        total += np.divide(grad**2, 2.0 * hess, out=np.zeros_like(grad), where=hess > 0.0)
    return total


def _bound(sums: TreeSums, redrawn: RedrawnTree, bits: int, delta: float) -> F64:
    """The theorem that fits the loss, with the tightest epsilon each leaf allows.

    Infinite for nearest rounding, whose errors are neither random nor of mean zero.
    """
    left, right = sums.left, sums.right
    if redrawn.params.rounding != "stochastic" or not len(left.rows):
        return np.full(len(left.rows), np.inf)
    both = Sums(*(of_left + of_right for of_left, of_right in zip(left, right, strict=True)))
    top = float(np.abs(redrawn.grad).max())
    with np.errstate(divide="ignore", invalid="ignore"):
        if redrawn.hess is None:
            bound = gain_error_bound(
                bits, left.rows, right.rows, gamma=sums.gamma,
                epsilon=both.abs_grad / both.rows, max_grad=top, delta=delta,
            )  # fmt: skip
        else:
            unit_grad, unit_hess = units(bits, top, float(redrawn.hess.max()))
            bound = hessian_gain_error_bound(
                left.rows, right.rows, gamma=sums.gamma,
                left_hess=left.hess / left.rows, right_hess=right.hess / right.rows,
                epsilon=both.abs_grad / both.hess,
                unit_grad=unit_grad, unit_hess=unit_hess, delta=delta,
            )  # fmt: skip
    return np.asarray(bound)


def _concatenate(bits: int, delta: float, n_draws: int, parts: list[GainErrors]) -> GainErrors:
    def joined(name: str) -> F64:
        return np.concatenate([np.zeros(0), *(getattr(part, name) for part in parts)])

    return GainErrors(
        bits=bits,
        tree=joined("tree").astype(np.int64),
        n_left=joined("n_left"),
        n_right=joined("n_right"),
        gain=joined("gain"),
        gamma=joined("gamma"),
        error=np.concatenate([np.zeros((n_draws, 0)), *(part.error for part in parts)], axis=1),
        bound=joined("bound"),
        delta=delta,
    )
