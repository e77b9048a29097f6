"""The finished tree and the forest: flat arrays that predict, save and load work on.

Owns Tree (one tree, in the canonical order of best-first growth: split i was the i-th split taken)
and make_forest (all trees in the layout of the prediction kernels).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.errors import DataError
from bitgrove.kernels.plans import BINNED_SPLIT, Records, records
from bitgrove.machine.simd import simd_level

MAX_NODES = 2**31 - 1  # of a forest: they are numbered by int32


def no_sets() -> NDArray[np.uint64]:
    return np.zeros((0, 4), dtype=np.uint64)


@dataclass(frozen=True, eq=False)
class Tree:
    """A row goes left iff x <= threshold; a missing value goes left iff default_left.

    left_bins is (n_splits, 4), 256 bits for each split, or has no rows. A split with a bit set is
    one by a subset: levels (numbered as in training) go left iff their bit is set; the bit after
    the last level, that of missing and unseen ones, says the same as default_left.

    Children: >= 0 is a split of this tree, < 0 is ~leaf. Split 0 is the root; a child split has a
    larger index than its parent. A tree without splits is the single leaf 0. Leaf values include
    the learning rate.

    One that was just grown may know its leaf values alone; the rest is written down when somebody
    looks at it.
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
    left_bins: NDArray[np.uint64] = field(default_factory=no_sets)
    _rest: ClassVar[Any] = None  # of one that was just grown: makes the other fields

    @classmethod
    def grown(cls, leaf_value: NDArray[np.float64], rest: Callable[[], dict[str, Any]]) -> Tree:
        """The tree of these leaf values; rest: says all other fields, once."""
        tree = cls.__new__(cls)
        object.__setattr__(tree, "leaf_value", leaf_value)
        object.__setattr__(tree, "_rest", rest)
        return tree

    def write_down(self) -> None:
        """What is not known yet."""
        rest: Any = self._rest
        if rest is None:
            return
        for name, values in rest().items():
            object.__setattr__(self, name, values)
        object.__setattr__(self, "_rest", None)

    def __getattr__(self, name: str) -> Any:
        if self._rest is None:
            raise AttributeError(f"a Tree has no {name!r}")
        self.write_down()
        return getattr(self, name)

    @property
    def by_subset(self) -> NDArray[np.bool_]:
        """Which splits send the levels of a set left."""
        if len(self.left_bins) == 0:
            return np.zeros(self.n_splits, dtype=np.bool_)
        return np.asarray(self.left_bins.any(axis=1))

    @property
    def n_splits(self) -> int:
        return len(self.feature)

    @property
    def n_leaves(self) -> int:
        return len(self.leaf_value)

    def binned_splits(self, missing_bin: NDArray[np.int64]) -> Records:
        """The splits as binned rows walk them; missing_bin: of every feature."""
        return records(
            BINNED_SPLIT,
            self.n_splits,
            feature=self.feature,
            left=self.left,
            right=self.right,
            bin=self.split_bin,
            missing_bin=missing_bin[self.feature],
            default_left=self.default_left,
            by_subset=self.by_subset,
        )


def concatenate(trees: Sequence[Tree], name: str, dtype: str) -> NDArray[Any]:
    """One array of all trees, end to end."""
    parts = [getattr(tree, name) for tree in trees]
    return np.concatenate(parts).astype(dtype, copy=False) if parts else np.zeros(0, dtype)


def all_sets(trees: Sequence[Tree]) -> NDArray[np.uint64]:
    """left_bins of all trees, end to end; no rows if none has a split by a subset."""
    if not any(len(tree.left_bins) for tree in trees):
        return no_sets()
    empty = [np.zeros((tree.n_splits, 4), dtype=np.uint64) for tree in trees]
    parts = [t.left_bins if len(t.left_bins) else e for t, e in zip(trees, empty, strict=True)]
    return np.concatenate(parts)


def make_forest(trees: Sequence[Tree], n_features: int, simd: int | None = None) -> Any:
    """All trees in the layouts of cpp/predict/forest.h, for the prediction kernels."""
    split_offset = np.zeros(len(trees) + 1, dtype=np.int64)
    leaf_offset = np.zeros(len(trees) + 1, dtype=np.int64)
    np.cumsum([tree.n_splits for tree in trees], out=split_offset[1:])
    np.cumsum([tree.n_leaves for tree in trees], out=leaf_offset[1:])
    n_nodes = int(split_offset[-1] + leaf_offset[-1])
    if n_nodes > MAX_NODES:
        raise DataError(f"the trees have {n_nodes} nodes; at most {MAX_NODES} can predict together")
    return _core.make_forest(
        split_offset=split_offset,
        leaf_offset=leaf_offset,
        feature=concatenate(trees, "feature", "i4"),
        threshold=concatenate(trees, "threshold", "f8"),
        default_left=concatenate(trees, "default_left", "u1"),
        left_bins=all_sets(trees),
        left=concatenate(trees, "left", "i4"),
        right=concatenate(trees, "right", "i4"),
        leaf_value=concatenate(trees, "leaf_value", "f8"),
        n_features=n_features,
        simd=simd_level() if simd is None else simd,
    )
