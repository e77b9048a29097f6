"""The nodes of a forest one by one, as people read them: the one source of tables, text and JSON.

Owns Node and the walk over them, in the order of the text: a node, all below its left child, all
below its right child. Thresholds of categories are told by the names of their levels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from bitgrove.model.model import Model

MISSING = "missing"


@dataclass(frozen=True)
class Node:
    """A split, or a leaf (feature is None). `number` is that of the split, or of the leaf."""

    tree: int
    depth: int
    number: int
    parent: int | None  # a split
    rows: int
    hess: float
    value: float  # of a leaf; of a split: the mean of the leaves below it, by rows
    feature: int | None = None  # of the table
    column: int | None = None  # of the trees: statistics of a category have their own
    threshold: float | None = None  # None: by levels
    left_levels: tuple[Any, ...] | None = None  # the levels that go left, of a split by levels
    missing_left: bool | None = None
    gain: float | None = None
    left: int = 0  # >= 0 a split, < 0 is ~leaf
    right: int = 0

    @property
    def is_leaf(self) -> bool:
        return self.feature is None

    @property
    def name(self) -> str:
        """As LightGBM spells it: 3-S0 is the root of tree 3, 3-L0 its first leaf."""
        return node_name(self.tree, ~self.number if self.is_leaf else self.number)


def node_name(tree: int, link: int) -> str:
    return f"{tree}-S{link}" if link >= 0 else f"{tree}-L{~link}"


def nodes_of(model: Model, tree: int) -> Iterator[Node]:
    """All nodes of one tree, a node before those below it."""
    record, sets = model.trees[tree], model.trees[tree].by_subset
    means, rows = _sums_below(record)
    waiting: list[tuple[int, int, int | None]] = [(0 if record.n_splits else ~0, 1, None)]
    while waiting:
        link, depth, parent = waiting.pop()
        if link < 0:
            leaf = ~link
            yield Node(tree, depth, leaf, parent, int(record.leaf_rows[leaf]),
                       float(record.leaf_hess[leaf]), float(record.leaf_value[leaf]))  # fmt: skip
            continue
        column = int(record.feature[link])
        feature = column if model.encoder is None else int(model.encoder.sources[column])
        by_levels = bool(sets[link])
        yield Node(
            tree, depth, link, parent, int(rows[link]), float(record.split_hess[link]),
            float(means[link]), feature, column,
            threshold=None if by_levels else float(record.threshold[link]),
            left_levels=_levels(model, column, record.left_bins[link]) if by_levels else None,
            missing_left=bool(record.default_left[link]), gain=float(record.gain[link]),
            left=int(record.left[link]), right=int(record.right[link]),
        )  # fmt: skip
        waiting.append((int(record.right[link]), depth + 1, link))
        waiting.append((int(record.left[link]), depth + 1, link))


def _sums_below(record: Any) -> tuple[Any, Any]:
    """Of every split: the mean value of the leaves below it, and their rows."""
    means, rows = np.zeros(record.n_splits), np.zeros(record.n_splits, dtype=np.int64)
    for split in range(record.n_splits - 1, -1, -1):  # children have larger numbers
        below = [
            (means[link], rows[link]) if link >= 0
            else (record.leaf_value[~link], record.leaf_rows[~link])
            for link in (int(record.left[split]), int(record.right[split]))
        ]  # fmt: skip
        (left, n_left), (right, n_right) = below
        rows[split] = n_left + n_right
        share = n_left / rows[split] if rows[split] else 0.5
        means[split] = share * left + (1 - share) * right
    return means, rows


def _levels(model: Model, column: int, words: Any) -> tuple[Any, ...]:
    """The names of the levels whose bits are set; the bit behind them is that of missing ones."""
    assert model.encoder is not None
    known = model.encoder.levels[column]
    bits = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))
    return tuple(known.values[bit] for bit in bits if bit < len(known))
