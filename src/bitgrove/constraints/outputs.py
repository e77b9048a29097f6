"""Outputs of leaves: Newton steps, drawn towards those of their parents, or kept in order.

Receives the splits of a tree with sums or new values of its leaves. Splits come after their
parents; leaves are numbered behind the splits here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.model.tree import Tree

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


def _sides(left: NDArray[np.int32], right: NDArray[np.int32]) -> NDArray[np.int32]:
    """(n_splits, 2) children, leaves behind the splits."""
    sides = np.stack([left, right], axis=1)
    return np.where(sides >= 0, sides, len(sides) + ~sides)


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
    # Sums go up from the last split, outputs down from the first.
    totals, sides = np.concatenate([np.zeros((n_splits, 3), np.int64), sums]), _sides(left, right)
    for split in range(n_splits - 1, -1, -1):
        totals[split] = totals[sides[split]].sum(axis=0)
    output = step(totals[:, 0], totals[:, 1])
    weight = totals[:, 2] / path_smooth
    for split in range(n_splits):
        for child in sides[split]:
            own, parent = output[child] * weight[child], output[split]
            output[child] = own / (weight[child] + 1.0) + parent / (weight[child] + 1.0)
    return output[n_splits:]


def in_order(tree: Tree, values: F64, direction: NDArray[np.int8]) -> F64:
    """Both sides of a split of a monotone feature stay apart at the middle of their old values.

    direction: of each column, as trees number them.
    """
    if not direction[tree.feature].any():
        return values
    n_splits = tree.n_splits
    sides = _sides(tree.left, tree.right)
    least, most = (np.concatenate([np.zeros(n_splits), tree.leaf_value]) for _ in range(2))
    for split in range(n_splits - 1, -1, -1):
        least[split], most[split] = least[sides[split]].min(), most[sides[split]].max()
    lower, upper = np.full(len(least), -np.inf), np.full(len(least), np.inf)
    for split in range(n_splits):
        low, high = sides[split] if direction[tree.feature[split]] >= 0 else sides[split][::-1]
        lower[[low, high]], upper[[low, high]] = lower[split], upper[split]
        if direction[tree.feature[split]]:
            middle = np.clip(0.5 * most[low] + 0.5 * least[high], lower[split], upper[split])
            upper[low] = lower[high] = middle
    return np.clip(values, lower[n_splits:], upper[n_splits:])
