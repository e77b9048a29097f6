"""The finished tree and the forest: flat arrays that predict, save and load work on.

Owns Tree (one tree, in the canonical order of best-first growth: split i was the i-th split taken)
and Forest (all trees concatenated, in the layout of the prediction kernel).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Mirrors ForestNode in cpp/predict.cpp.
FOREST_NODE = np.dtype(
    [
        ("threshold", "<f8"),
        ("feature", "<i4"),
        ("left", "<i4"),
        ("right", "<i4"),
        ("default_left", "<i4"),
    ]
)


@dataclass(frozen=True, eq=False)
class Tree:
    """A row goes left iff x <= threshold; a missing value goes left iff default_left.

    Children: >= 0 is a split of this tree, < 0 is ~leaf. Split 0 is the root; a child split has a
    larger index than its parent. A tree without splits is the single leaf 0. Leaf values include
    the learning rate.
    """

    feature: NDArray[np.int32]
    split_bin: NDArray[np.uint8]
    threshold: NDArray[np.float64]
    default_left: NDArray[np.uint8]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    gain: NDArray[np.float64]
    split_rows: NDArray[np.int64]
    split_hess: NDArray[np.float64]
    leaf_value: NDArray[np.float64]
    leaf_rows: NDArray[np.int64]
    leaf_hess: NDArray[np.float64]

    @property
    def n_splits(self) -> int:
        return len(self.feature)

    @property
    def n_leaves(self) -> int:
        return len(self.leaf_value)


@dataclass(frozen=True, eq=False)
class Forest:
    """All trees of a model, concatenated; tree t belongs to output t % n_outputs."""

    nodes: NDArray[np.void]
    split_offset: NDArray[np.int64]
    leaf_offset: NDArray[np.int64]
    leaf_value: NDArray[np.float64]
    n_outputs: int

    @property
    def n_trees(self) -> int:
        return len(self.split_offset) - 1

    @classmethod
    def from_trees(cls, trees: Sequence[Tree], n_outputs: int) -> Forest:
        split_offset = np.zeros(len(trees) + 1, dtype=np.int64)
        leaf_offset = np.zeros(len(trees) + 1, dtype=np.int64)
        np.cumsum([tree.n_splits for tree in trees], out=split_offset[1:])
        np.cumsum([tree.n_leaves for tree in trees], out=leaf_offset[1:])
        nodes = np.zeros(int(split_offset[-1]), dtype=FOREST_NODE)
        for name in FOREST_NODE.names or ():
            if trees:
                nodes[name] = np.concatenate([getattr(tree, name) for tree in trees])
        values = [tree.leaf_value for tree in trees]
        leaf_value = np.concatenate(values) if values else np.zeros(0)
        return cls(nodes, split_offset, leaf_offset, leaf_value, n_outputs)
