"""Leaf values and the finished Tree.

Receives a GrownTree; returns a Tree whose values are -G / (H + lambda) times the learning rate,
from the original float32 gradients (refit; summed in int64 fixed point) or from the integer sums.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.fixed_point import unit_exponent
from bitgrove.backends.base import GrownTree, OutputGradients, TreeWork
from bitgrove.distributed.comm import Comm, sum_records
from bitgrove.kernels.plans import Records
from bitgrove.model.tree import Tree
from bitgrove.params import TrainParams
from bitgrove.training.quantize import QuantizedGradients

F64 = NDArray[np.float64]


class LeafSums(NamedTuple):
    """Gradient and hessian of each leaf: integers, and what one of them is worth."""

    integers: Records  # GradientSums
    grad_unit: float
    hess_unit: float


def integer_leaf_sums(grown: GrownTree, quantized: QuantizedGradients) -> LeafSums:
    """From the quantized sums."""
    return LeafSums(grown.leaf_sums, quantized.grad_scale, quantized.hess_scale)


def original_leaf_sums(
    work: TreeWork,
    quantized: QuantizedGradients,
    gradients: OutputGradients,
    n_rows: int,
    comm: Comm,
) -> LeafSums:
    """From the original gradients (hessian None: the count); n_rows are in the tree's leaves."""
    exponents = [unit_exponent(top, n_rows) for top in quantized.largest]
    if gradients.hess is None:
        exponents[1] = 0
    to_integers = (math.ldexp(1.0, exponents[0]), math.ldexp(1.0, exponents[1]))
    local = work.leaf_sums(gradients.grad, gradients.hess, to_integers)
    back = (math.ldexp(1.0, -exponents[0]), math.ldexp(1.0, -exponents[1]))
    return LeafSums(sum_records(comm, local), *back)


def leaf_values(sums: LeafSums, params: TrainParams) -> tuple[F64, F64]:
    """-soft(G) / (H + lambda) * learning rate, 0 where a leaf has no curvature; and H itself."""
    grad = sums.integers["grad"] * sums.grad_unit
    hess = sums.integers["hess"] * sums.hess_unit
    if params.reg_alpha > 0.0:
        grad = np.copysign(np.maximum(np.abs(grad) - params.reg_alpha, 0.0), grad)
    curvature = hess + params.reg_lambda
    if curvature.min() > 0.0:
        size = -grad / curvature
    else:
        size = np.divide(-grad, curvature, out=np.zeros_like(grad), where=curvature > 0.0)
    return size * params.learning_rate + 0.0, hess  # + 0.0: a zero leaf is +0, never -0


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
    )
