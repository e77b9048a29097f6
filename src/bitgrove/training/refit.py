"""Leaf values and the finished Tree.

Receives a GrownTree; returns a Tree whose values are -G / (H + lambda) times the learning rate,
from the original float32 gradients (refit; summed in int64 fixed point) or from the integer sums.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.arithmetic.fixed_point import unit_exponent
from bitgrove.backends.base import Backend
from bitgrove.distributed.comm import Comm
from bitgrove.model.tree import Tree
from bitgrove.params import TrainParams
from bitgrove.training.grower import GrownTree
from bitgrove.training.quantize import QuantizedGradients


class LeafSums(NamedTuple):
    """Gradient and hessian of each leaf: integers, and what one of them is worth."""

    integers: NDArray[np.int64]  # (n_leaves, 2)
    grad_unit: float
    hess_unit: float


def integer_leaf_sums(grown: GrownTree, quantized: QuantizedGradients) -> LeafSums:
    """From the quantized sums."""
    return LeafSums(grown.leaf_sums, quantized.grad_scale, quantized.hess_scale)


def original_leaf_sums(
    backend: Backend,
    grown: GrownTree,
    quantized: QuantizedGradients,
    leaves: Any,
    gradients: tuple[Any, Any],
    comm: Comm,
) -> LeafSums:
    """From the original gradients (hessian None: the count)."""
    grad, hess = gradients
    n_rows = int(grown.leaf_rows.sum())
    exponents = [unit_exponent(top, n_rows) for top in quantized.largest]
    if hess is None:
        exponents[1] = 0
    to_integers = (math.ldexp(1.0, exponents[0]), math.ldexp(1.0, exponents[1]))
    local = backend.leaf_sums(leaves, grad, hess, to_integers)
    back = (math.ldexp(1.0, -exponents[0]), math.ldexp(1.0, -exponents[1]))
    return LeafSums(comm.allreduce_sum(local), *back)


def finish_tree(grown: GrownTree, values: NDArray[np.float64], hess: NDArray[np.float64]) -> Tree:
    """The flat tree with its leaf values and the hessian of each leaf."""
    return Tree(*grown[:9], leaf_value=values, leaf_rows=grown.leaf_rows, leaf_hess=hess)


def leaf_values(
    sums: LeafSums, params: TrainParams
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """-soft(G) / (H + lambda) * learning rate, 0 where a leaf has no curvature; and H itself."""
    values, hess = _core.leaf_values(
        *sums, params.reg_alpha, params.reg_lambda, params.learning_rate
    )
    return values, hess
