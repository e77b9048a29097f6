"""From what a file of another library holds to a Model.

Owns Found (the parts of such a file, as its format reads them) and model_of, which numbers levels,
makes trees of ours, and passes the result through our own file: so that every index, child and
value goes through the one set of checks that all models go through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.data.encoder import Encoder
from bitgrove.data.levels import INTEGER, Levels, read_levels
from bitgrove.data.statistics import Statistics
from bitgrove.model.exchange.outgoing import cells_of
from bitgrove.model.forest_checks import refuse
from bitgrove.model.model import Model
from bitgrove.model.tree import Tree
from bitgrove.provenance.record import TrainingRecord

_MOST_LEVELS = 255  # of a category whose splits are sets of 256 bits
_MOST_CELLS = 1 << 24  # of statistics: they may be larger than the file that they come from
_MOST_LOOKED_AT = 1 << 28  # levels, once for each set of their category: bounds the time


class LevelSet(NamedTuple):
    """A split of a category as files have it: the cells that go left, and where others go.

    unseen_left None: the library takes no levels that training has not seen.
    """

    cells: NDArray[np.int64]
    missing_left: bool
    unseen_left: bool | None
    others: bool = False  # the cells are those that go right

    def exchanged(self) -> LevelSet:
        """The same rows, left and right exchanged."""
        unseen = None if self.unseen_left is None else not self.unseen_left
        return LevelSet(self.cells, not self.missing_left, unseen, not self.others)


class Category(NamedTuple):
    """The cells (increasing) that stand for levels in a file's sets, and their codes in levels."""

    levels: Levels
    cells: NDArray[np.int64]
    codes: NDArray[np.intp]

    @staticmethod
    def of_numbers(values: Any) -> Category:
        """Whole numbers that stand for themselves."""
        distinct = np.unique(np.asarray(values, dtype=np.int64))
        return Category.of_levels(Levels(INTEGER, distinct), distinct)

    @staticmethod
    def of_levels(levels: Levels, cells: NDArray[np.int64]) -> Category:
        return Category(levels, cells, np.arange(len(levels)))

    @staticmethod
    def of_list(name: str, values: Sequence[Any]) -> Category:
        """Levels that stand in the file in this order, numbered from 0."""
        listed = np.empty(len(values), dtype=object)
        listed[:] = values
        coded = read_levels(name, listed)
        if len(coded.levels) != len(values) or (coded.codes < 0).any():
            refuse(f"the levels of {name!r} are not distinct values")
        return Category(coded.levels, np.arange(len(values)), coded.codes)

    def left(self, found: LevelSet) -> NDArray[np.bool_]:
        """Of each level: whether it goes left."""
        left = np.zeros(len(self.levels), dtype=np.bool_)
        at = np.minimum(np.searchsorted(self.cells, found.cells), max(len(self.cells) - 1, 0))
        if len(found.cells) and (len(self.cells) == 0 or (self.cells[at] != found.cells).any()):
            refuse("a split names a level that its category does not have")
        left[self.codes[at]] = True
        return ~left if found.others else left


@dataclass
class Found:
    """The parts of a file. sets: of each tree, by split; their features are in categories."""

    objective: str
    trees: list[Tree]
    base_score: Sequence[float] | NDArray[np.float64]
    feature_names: Sequence[str]
    params: Mapping[str, Any] = field(default_factory=dict)
    classes: Any = None
    classes_dtype: str | None = None
    best_iteration: int | None = None
    record: TrainingRecord | None = None
    sets: Mapping[int, Mapping[int, LevelSet]] = field(default_factory=dict)
    categories: Mapping[int, Category] = field(default_factory=dict)


def with_note(found: Found, note: Any) -> Found:
    """The parts of a file that we wrote: what its note says is as it was."""
    given = {int(f): Levels.of(kind, values) for f, (kind, values) in note["levels"].items()}
    return replace(
        found,
        objective=note["objective"],
        feature_names=note["feature_names"],
        params=note["params"],
        classes=note["classes"],
        classes_dtype=note["classes_dtype"],
        best_iteration=note["best_iteration"],
        record=None if note["training"] is None else TrainingRecord.read(note["training"]),
        categories={f: Category.of_levels(v, cells_of(v)) for f, v in given.items()},
    )


def model_of(found: Found) -> Model:
    """The model; ModelFormatError where something about it is not sound."""
    found = _with_base(found)
    trees, encoder = list(found.trees), None
    if found.categories:
        columns = _Columns(found)
        trees = [columns.with_bits(number, tree) for number, tree in enumerate(trees)]
        encoder = columns.finish()
    model = Model(
        objective=found.objective,
        trees=trees,
        base_score=found.base_score,
        feature_names=found.feature_names,
        params=found.params,
        classes=found.classes,
        classes_dtype=found.classes_dtype,
        best_iteration=found.best_iteration,
        record=found.record,
        encoder=encoder,
    )
    return Model.from_bytes(model.to_bytes())


def _with_base(found: Found) -> Found:
    """A first iteration of trees without splits becomes the base score."""
    k = len(found.base_score)
    first = found.trees[:k]
    if len(first) < k or any(tree.n_splits for tree in first) or np.any(found.base_score):
        return found
    base = np.concatenate([tree.leaf_value for tree in first])
    sets = {number - k: of_tree for number, of_tree in found.sets.items()}
    return replace(found, base_score=base, trees=found.trees[k:], sets=sets)


class _Columns:
    """Sets become bits, or columns of statistics where 256 bits cannot say it.

    That is so for many levels, and where missing levels go another way than unseen ones. Such a set
    is a column of its own: -1 for levels that go left, 1 for the others.
    """

    def __init__(self, found: Found) -> None:
        self.found, self.n_features = found, len(found.feature_names)
        self.is_category = np.zeros(self.n_features, dtype=np.bool_)
        self.is_category[list(found.categories)] = True
        self.sets = [
            self._all_sets(tree, found.sets.get(number, {}))
            for number, tree in enumerate(found.trees)
        ]
        wide = {f for f, c in found.categories.items() if len(c.levels) > _MOST_LEVELS}
        for tree, sets in zip(found.trees, self.sets, strict=True):
            parted = [i for i, s in sets.items() if s.unseen_left not in (None, s.missing_left)]
            wide.update(tree.feature[parted].tolist())
        self.columns: dict[int, dict[bytes, int]] = {f: {} for f in sorted(wide)}
        # Splits by a column beyond the first of its feature: numbered when all are known.
        self.further: list[tuple[NDArray[np.int32], int, int, int]] = []
        self.n_cells = self.n_looked_at = 0

    def with_bits(self, number: int, tree: Tree) -> Tree:
        """The tree with the sets of this number."""
        sets = self.sets[number]
        if not sets:
            return tree
        bits = np.zeros((tree.n_splits, 256), dtype=np.bool_)
        names = ("feature", "threshold", "default_left", "left", "right")
        parts = {name: getattr(tree, name).copy() for name in names}
        for i, found in sets.items():
            f = int(tree.feature[i])
            category = self.found.categories[f]
            n_levels = len(category.levels)
            self.n_looked_at += n_levels
            if self.n_looked_at > _MOST_LOOKED_AT:  # many sets of many levels
                refuse(f"the sets of levels have more than {_MOST_LOOKED_AT} levels to look at")
            left = category.left(found)
            if f in self.columns:
                self._place(parts["feature"], i, f, np.append(left, found.missing_left))
                parts["threshold"][i] = -0.5 if found.unseen_left is False else 0.0
                continue
            bits[i, :n_levels], bits[i, n_levels] = left, found.missing_left
            if not bits[i].any():  # all go right: the same as all left of exchanged children
                bits[i, : n_levels + 1] = True
                parts["left"][i], parts["right"][i] = tree.right[i], tree.left[i]
            parts["default_left"][i], parts["threshold"][i] = bits[i, n_levels], 0.0
        words = np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64)
        return replace(tree, **parts, left_bins=words if words.any() else tree.left_bins)

    def _all_sets(self, tree: Tree, sets: Mapping[int, LevelSet]) -> dict[int, LevelSet]:
        """Also of splits that compare the cells of a category with a threshold."""
        all_sets = dict(sets)
        for i in np.flatnonzero(self.is_category[tree.feature]).tolist():
            if i not in all_sets:
                cells = self.found.categories[int(tree.feature[i])].cells
                below = cells <= tree.threshold[i]
                default = bool(tree.default_left[i])
                all_sets[i] = LevelSet(cells[below], default, bool(below.all()))
        return all_sets

    def _place(self, feature: NDArray[np.int32], i: int, f: int, left: NDArray[np.bool_]) -> None:
        """Sets the column of a split: that of an equal set, or a new one."""
        mine = self.columns[f]
        key = np.where(left, -1.0, 1.0).tobytes()
        if key not in mine:
            self.n_cells += len(left)
            if self.n_cells > _MOST_CELLS:
                refuse(f"the sets of levels need more than {_MOST_CELLS} statistics")
        column = mine.setdefault(key, len(mine))
        if column > 0:
            self.further.append((feature, i, f, column))

    def finish(self) -> Encoder:
        """Further columns follow after the last feature, in the order of categories."""
        start, offset = self.n_features, {}
        for f, mine in self.columns.items():
            offset[f] = start - 1
            start += max(len(mine) - 1, 0)
        for feature, i, f, column in self.further:
            feature[i] = offset[f] + column
        statistics = {}
        for f, mine in self.columns.items():
            nothing = np.zeros(len(self.found.categories[f].levels) + 1)
            statistics[f] = Statistics(np.stack([np.frombuffer(key) for key in mine] or [nothing]))
        levels = {f: category.levels for f, category in sorted(self.found.categories.items())}
        return Encoder(self.n_features, levels, statistics)
