"""What leaf values come from, and the finished Tree.

Receives a GrownTree; returns the sums of its leaves, of the original float32 gradients (refit, in
int64 fixed point) or of the integers, from which a backend makes Newton steps; or quantiles of the
residuals of its leaves; and with the values, a Tree.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.fixed_point import unit_exponent
from bitgrove.arithmetic.selection import float32_of_keys, select
from bitgrove.backends.base import GrownTree, LeafRule, LeafSums, TreeWork
from bitgrove.backends.told import OutputGradients, Told
from bitgrove.constraints.outputs import newton_steps, smoothed
from bitgrove.distributed.comm import Comm, sum_records
from bitgrove.model.tree import Tree
from bitgrove.training.quantize import QuantizedGradients

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


def integer_leaf_sums(grown: GrownTree, quantized: QuantizedGradients) -> LeafSums:
    """From the quantized sums."""
    return LeafSums(grown.leaf_sums, quantized.grad_scale, quantized.hess_scale)


def leaf_units(
    gradients: OutputGradients, largest: tuple[float, float], n_rows: int
) -> tuple[float, float]:
    """Powers of two that make integers of the original gradients, of which these are the largest.

    n_rows are in the tree's leaves, on all ranks. Without hessians rows are counted.
    """
    grad, hess = [math.ldexp(1.0, unit_exponent(top, n_rows)) for top in largest]
    return grad, 1.0 if gradients.hess is None else hess


def original_leaf_sums(told: Told, units: tuple[float, float], comm: Comm) -> LeafSums:
    """From the original gradients times their units, as a TreeWork sums them."""
    return LeafSums(sum_records(comm, told.read()), 1.0 / units[0], 1.0 / units[1])


def residual_quantiles(
    work: TreeWork, keys: Any, weights: Any, n_leaves: int, level: float, comm: Comm
) -> F64:
    """The quantile of each leaf's residuals, whose keys the backend made; half way between two."""

    def count(prefix: NDArray[np.uint64], shift: int) -> NDArray[np.int64]:
        found = work.leaf_digits(keys, weights, prefix.astype(np.uint32), shift)
        return comm.allreduce_sum(found)

    lower, is_exact = select(count, n_leaves, level, key_bits=32, digit_bits=8)
    low = lower.astype(np.uint32)
    high = low
    if is_exact.any():
        above = work.next_keys(keys, low)
        high = np.where(is_exact, ~comm.allreduce_max(~above), low)
    ends = [float32_of_keys(keys).astype(np.float64) for keys in (low, high)]
    return np.asarray(0.5 * ends[0] + 0.5 * ends[1])


def smoothed_leaves(grown: GrownTree, sums: LeafSums, rule: LeafRule, path_smooth: float) -> F64:
    """Leaf values drawn towards their parents', which count path_smooth rows."""

    def step(grad: I64, hess: I64) -> F64:
        wide = grad * sums.grad_unit, hess * sums.hess_unit
        return newton_steps(*wide, rule.reg_alpha, rule.reg_lambda)

    leaves = np.stack([sums.integers["grad"], sums.integers["hess"], grown.leaf_rows], axis=1)
    found = smoothed(grown.splits["left"], grown.splits["right"], leaves, step, path_smooth)
    return np.asarray(found * rule.learning_rate + 0.0)


def within_bounds(grown: GrownTree, values: F64, learning_rate: float) -> F64:
    """Leaf values as near as the bounds allow that the tree was grown with.

    They keep monotone features in order wherever values come from: the integers of the search,
    the unrounded gradients, quantiles of residuals.
    """
    if grown.leaf_lower is None or grown.leaf_upper is None:
        return values
    lower, upper = grown.leaf_lower * learning_rate, grown.leaf_upper * learning_rate
    return np.clip(values, lower, upper) + 0.0  # a zero leaf is +0, never -0


def finish_tree(grown: Callable[[], GrownTree], values: F64, hess: F64) -> Tree:
    """The flat tree with its leaf values and the hessian of each leaf."""

    def rest() -> dict[str, Any]:
        tree = grown()
        splits = tree.splits
        return {
            "feature": splits["feature"],
            "split_bin": splits["bin"],
            "threshold": splits["threshold"],
            "default_left": splits["default_left"],
            "left": splits["left"],
            "right": splits["right"],
            "gain": splits["gain"],
            "split_rows": splits["rows"],
            "split_hess": splits["hess"],
            "leaf_rows": tree.leaf_rows,
            "leaf_hess": hess,
            "left_bins": tree.left_bins,
        }

    return Tree.grown(values, rest)
