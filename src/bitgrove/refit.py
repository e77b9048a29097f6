"""Leaf values and the finished Tree.

Receives a GrownTree; returns a Tree whose values are -G / (H + lambda) times the learning rate,
from the original float32 gradients (refit; summed in int64 fixed point) or from the integer sums.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends.base import Backend
from bitgrove.binning import BinMapper
from bitgrove.distributed.comm import Comm
from bitgrove.fixed_point import unit_exponent
from bitgrove.grower import GrownTree
from bitgrove.params import TrainParams
from bitgrove.quantize import QuantizedGradients
from bitgrove.tree import Tree

F64 = NDArray[np.float64]


def integer_leaf_sums(grown: GrownTree, quantized: QuantizedGradients) -> tuple[F64, F64]:
    """Gradient and hessian of each leaf from the quantized sums."""
    sums = grown.leaf_sums.astype(np.float64)
    return sums[:, 0] * quantized.grad_scale, sums[:, 1] * quantized.hess_scale


def original_leaf_sums(
    backend: Backend,
    grown: GrownTree,
    quantized: QuantizedGradients,
    leaves: Any,
    gradients: tuple[Any, Any],
    comm: Comm,
) -> tuple[F64, F64]:
    """Gradient and hessian of each leaf from the original gradients (hessian None: the count)."""
    grad, hess = gradients
    n_rows = int(grown.leaf_rows.sum())
    exponents = [unit_exponent(top, n_rows) for top in quantized.largest]
    if hess is None:
        exponents[1] = 0
    units = (math.ldexp(1.0, exponents[0]), math.ldexp(1.0, exponents[1]))
    local = backend.leaf_sums(leaves, grad, hess, units)
    sums = comm.allreduce_sum(local).astype(np.float64)
    return np.ldexp(sums[:, 0], -exponents[0]), np.ldexp(sums[:, 1], -exponents[1])


def leaf_values(grad: F64, hess: F64, params: TrainParams) -> F64:
    """-soft(G) / (H + lambda) * learning rate; 0 where a leaf has no curvature."""
    pull = np.maximum(np.abs(grad) - params.reg_alpha, 0.0)
    denominator = hess + params.reg_lambda
    size = np.divide(pull, denominator, out=np.zeros_like(pull), where=denominator > 0.0)
    # + 0.0: a zero leaf is +0, never -0
    return np.asarray(np.where(grad > 0.0, -size, size) * params.learning_rate + 0.0)


def finish_tree(
    grown: GrownTree, quantized: QuantizedGradients, mapper: BinMapper, values: F64, leaf_hess: F64
) -> Tree:
    """The flat tree. Where training had no missing value, missing goes with the majority."""
    feature = grown.splits["feature"].astype(np.int32)
    split_bin = grown.splits["bin"].astype(np.uint8)
    majority_left = 2 * grown.left_rows >= grown.split_rows
    learned = mapper.has_missing[feature] == 1
    default_left = np.where(learned, grown.splits["default_left"], majority_left)
    return Tree(
        feature=feature,
        split_bin=split_bin,
        threshold=mapper.thresholds(feature, grown.splits["bin"]),
        default_left=default_left.astype(np.uint8),
        left=grown.left,
        right=grown.right,
        gain=np.ascontiguousarray(grown.splits["gain"]),
        split_rows=grown.split_rows,
        split_hess=grown.split_hess.astype(np.float64) * quantized.hess_scale,
        leaf_value=values,
        leaf_rows=grown.leaf_rows,
        leaf_hess=leaf_hess,
    )
