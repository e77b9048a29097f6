"""How far rounding moves the gains of splits, measured instead of bounded.

Owns measure_gain_errors: receives a model and its rows, computes the gradients each tree was grown
from, rounds them many times with the library's own quantizer and compares every split's gain with
that of the original gradients. Returns GainErrors, with the theorems' bounds for the same splits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends.reference import ReferenceBackend, output_gradients
from bitgrove.data.dataset import Dataset
from bitgrove.data.row_ids import one_run
from bitgrove.data.sampling import rounding_key
from bitgrove.distributed.comm import SoloComm
from bitgrove.errors import ParameterError
from bitgrove.model.model import Model
from bitgrove.model.tree import Tree
from bitgrove.params import TrainParams, resolve
from bitgrove.theory.bounds import gain_error_bound, hessian_gain_error_bound, units
from bitgrove.theory.leaves import Sums, TreeSums, child_sums, sum_leaves, tree_sums
from bitgrove.training.booster import Booster, start_scores
from bitgrove.training.quantize import counts_magnitudes, quantize

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
_DELTA = 0.1


@dataclass(frozen=True, eq=False)
class GainErrors:
    """One column per split. `error` is |rounded gain - gain| / gain, one row per drawing.

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
) -> GainErrors:
    """Rounds the gradients of the given iterations (from 0; None: all) n_draws times.

    data: the rows the model was trained on. Use a model of full precision (gradient_bits=None) to
    see the splits that quantization may lose.
    """
    if n_draws < 1:
        raise ParameterError(f"n_draws={n_draws!r}: must be an integer >= 1")
    chosen = range(model.n_iterations) if iterations is None else sorted(set(iterations))
    if chosen and not 0 <= chosen[0] <= chosen[-1] < model.n_iterations:
        raise ParameterError(f"iterations: must lie between 0 and {model.n_iterations - 1}")
    booster = Booster(resolve({**model.params, "device": "cpu"}), data, SoloComm())
    params = replace(
        booster.params, gradient_bits=bits, rounding=rounding, gradient_scale=gradient_scale
    )
    table = np.column_stack(booster.dataset.columns)
    leaves = model.predict_leaf(table, num_iteration=max(chosen, default=-1) + 1)
    scores = start_scores(booster.backend, model.base_score, len(table))
    parts = []
    for number in range(leaves.shape[1]):
        iteration, output = divmod(number, model.n_outputs)
        tree, leaf = model.trees[number], leaves[:, number].astype(np.int64)
        if output == 0 and iteration in chosen:
            gradients = booster.backend.gradients(booster.objective, scores, booster.targets)
        if iteration in chosen:
            part = gradients.output(output)
            rounder = _Rounder(params, part.grad, part.hess, seed, number)
            parts.append(_tree_errors(tree, number, leaf, rounder, n_draws, delta))
        scores[output] += tree.leaf_value[leaf]
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
    rounder = _Rounder(params, grad, hess, params.random_state, number)
    return _tree_errors(tree, number, leaf, rounder, n_draws, _DELTA)


@dataclass(frozen=True, eq=False)
class _Rounder:
    """One tree's original gradients, and drawings of their integers."""

    params: TrainParams
    grad: NDArray[np.float32]
    hess: NDArray[np.float32] | None
    seed: int
    tree: int

    def draw(self, number: int) -> list[F64]:
        """Gradients and hessians that were rounded and scaled back."""
        key = rounding_key(self.seed, (self.tree << 20) + number)
        runs = one_run(len(self.grad))
        given = output_gradients(self.grad, self.hess, counts_magnitudes(self.params))
        q = quantize(ReferenceBackend(), given, self.params, key, runs, SoloComm())
        grad, hess = q.packed.values.T
        return [grad * q.grad_scale, hess * q.hess_scale]

    def original(self) -> tuple[F64, F64 | None]:
        hess = None if self.hess is None else self.hess.astype(np.float64)
        return self.grad.astype(np.float64), hess


def _tree_errors(
    tree: Tree, number: int, leaf: I64, rounder: _Rounder, n_draws: int, delta: float
) -> GainErrors:
    sums = tree_sums(tree, leaf, *rounder.original())
    gain = _gain((sums.left.grad, sums.left.hess), (sums.right.grad, sums.right.hess))
    error = np.empty((n_draws, tree.n_splits))
    for draw in range(n_draws):
        rounded = sum_leaves(tree.n_leaves, leaf, rounder.draw(draw), SoloComm())
        left, right = child_sums(tree, rounded)
        moved = np.abs(_gain(tuple(left), tuple(right)) - gain)
        error[draw] = np.divide(moved, gain, out=np.zeros_like(gain), where=gain > 0.0)
    bits = rounder.params.gradient_bits
    assert bits is not None
    return GainErrors(
        bits=bits,
        tree=np.full(tree.n_splits, number),
        n_left=sums.left.rows,
        n_right=sums.right.rows,
        gain=gain,
        gamma=sums.gamma,
        error=error,
        bound=_bound(sums, rounder, bits, delta),
        delta=delta,
    )


def _gain(left: tuple[F64, F64], right: tuple[F64, F64]) -> F64:
    """The paper's G from (gradient, hessian) sums; a child without hessian adds nothing."""
    total = np.zeros(len(left[0]))
    for grad, hess in (left, right):
        total += np.divide(grad**2, 2.0 * hess, out=np.zeros_like(grad), where=hess > 0.0)
    return total


def _bound(sums: TreeSums, rounder: _Rounder, bits: int, delta: float) -> F64:
    """The theorem that fits the loss, with the tightest epsilon each leaf allows."""
    left, right = sums.left, sums.right
    if not len(left.rows):
        return np.zeros(0)
    both = Sums(*(of_left + of_right for of_left, of_right in zip(left, right, strict=True)))
    top = float(np.abs(rounder.grad).max())
    with np.errstate(divide="ignore", invalid="ignore"):
        if rounder.hess is None:
            bound = gain_error_bound(
                bits, left.rows, right.rows, gamma=sums.gamma,
                epsilon=both.abs_grad / both.rows, max_grad=top, delta=delta,
            )  # fmt: skip
        else:
            unit_grad, unit_hess = units(bits, top, float(rounder.hess.max()))
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
