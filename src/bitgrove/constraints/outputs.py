"""Outputs of leaves before the learning rate: Newton steps, drawn towards those of their parents.

Receives the sums of leaves as integers, which add up to those of their parents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


def newton_steps(
    grad: NDArray[Any], hess: NDArray[Any], reg_alpha: float, reg_lambda: float
) -> F64:
    """Zero where there is no curvature."""
    grad = np.copysign(np.maximum(np.abs(grad) - reg_alpha, 0.0), grad)
    curvature = hess + reg_lambda
    return np.divide(-grad, curvature, out=np.zeros(len(grad)), where=curvature > 0.0)


def smoothed(
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    sums: I64,
    step: Callable[[I64, I64], F64],
    path_smooth: float,
) -> F64:
    """Outputs of leaves where a parent counts path_smooth rows.

    left, right: of each split, as a Tree has them. sums: (n_leaves, 3), gradient, hessian and rows.
    step: the outputs of sums of gradients and hessians.
    """
    n_splits = len(left)
    # Splits come after their parents, so sums go up from the last one, outputs down from the first.
    totals = np.concatenate([np.zeros((n_splits, 3), dtype=np.int64), sums])
    left, right = (np.where(side >= 0, side, n_splits + ~side) for side in (left, right))
    for split in range(n_splits - 1, -1, -1):
        totals[split] = totals[left[split]] + totals[right[split]]
    output = step(totals[:, 0], totals[:, 1])
    weight = totals[:, 2] / path_smooth
    for split in range(n_splits):
        for child in (left[split], right[split]):
            own, parent = output[child] * weight[child], output[split]
            output[child] = own / (weight[child] + 1.0) + parent / (weight[child] + 1.0)
    return output[n_splits:]
