"""New leaf values that keep monotone features in order, for a tree whose old values did.

Receives a tree and its new values; returns them, moved where they are in the wrong order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitgrove.model.tree import Tree

F64 = NDArray[np.float64]


def in_order(tree: Tree, values: F64, direction: NDArray[np.int8]) -> F64:
    """Both sides of a split of a monotone feature stay apart at the middle of their old values.

    direction: of each column, as trees number them.
    """
    if not direction[tree.feature].any():
        return values
    n_splits = tree.n_splits
    # Splits come after their parents; leaves follow them here.
    sides = np.stack([tree.left, tree.right], axis=1)
    sides = np.where(sides >= 0, sides, n_splits + ~sides)
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
