"""What leaf values come from, and the finished Tree.

Receives a GrownTree; returns the sums of its leaves, of the original float32 gradients (refit, in
int64 fixed point) or of the integers, from which a backend makes Newton steps; or quantiles of the
residuals of its leaves; and with the values, a Tree.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.fixed_point import unit_exponent
from bitgrove.arithmetic.selection import float32_of_keys, select
from bitgrove.backends.base import GrownTree, LeafSums, OutputGradients, TreeWork
from bitgrove.distributed.comm import Comm, sum_records
from bitgrove.model.tree import Tree
from bitgrove.training.quantize import QuantizedGradients

F64 = NDArray[np.float64]


def integer_leaf_sums(grown: GrownTree, quantized: QuantizedGradients) -> LeafSums:
    """From the quantized sums."""
    return LeafSums(grown.leaf_sums, quantized.grad_scale, quantized.hess_scale)


def original_leaf_sums(
    work: TreeWork,
    gradients: OutputGradients,
    largest: tuple[float, float],
    n_rows: int,
    comm: Comm,
) -> LeafSums:
    """From the original gradients (hessian None: the count), of which these are the largest.

    n_rows are in the tree's leaves, on all ranks.
    """
    exponents = [unit_exponent(top, n_rows) for top in largest]
    if gradients.hess is None:
        exponents[1] = 0
    to_integers = (math.ldexp(1.0, exponents[0]), math.ldexp(1.0, exponents[1]))
    local = work.leaf_sums(gradients.grad, gradients.hess, to_integers)
    back = (math.ldexp(1.0, -exponents[0]), math.ldexp(1.0, -exponents[1]))
    return LeafSums(sum_records(comm, local), *back)


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


def finish_tree(grown: GrownTree, values: F64, hess: F64) -> Tree:
    """The flat tree with its leaf values and the hessian of each leaf."""
    return Tree(
        feature=grown.feature,
        split_bin=grown.split_bin,
        threshold=grown.threshold,
        default_left=grown.default_left,
        left=grown.left,
        right=grown.right,
        gain=grown.gain,
        split_rows=grown.split_rows,
        split_hess=grown.split_hess,
        leaf_value=values,
        leaf_rows=grown.leaf_rows,
        leaf_hess=hess,
        left_bins=grown.left_bins,
    )
