"""A model as other libraries see it.

Owns Outgoing: the trees that a prediction uses, told in the features of the table instead of the
columns that our encoder makes of it, and what number stands for a level in that table. A category
of many levels, which our trees see as numbers, becomes splits by subsets here: so formats know two
kinds of splits, by a threshold and by a Subset.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.data.encoder import Encoder
from bitgrove.data.levels import INTEGER, Levels
from bitgrove.data.prediction_rows import rows_for_prediction
from bitgrove.data.statistics import Statistics
from bitgrove.errors import ParameterError
from bitgrove.model.checks import own_objective
from bitgrove.model.tree import Tree
from bitgrove.objectives import OBJECTIVES, Custom
from bitgrove.objectives.links import IDENTITY, Link
from bitgrove.params import changed_params

if TYPE_CHECKING:
    from bitgrove.model.model import Model

# Whole numbers below this stand for themselves; other levels are numbered from 0.
_LARGEST_CELL = 1 << 16
_MOST_COPIES = 100  # of a tree's splits, where missing levels are asked for first


class Subset(NamedTuple):
    """A split of a category: which of its levels go left, and where all others go."""

    left: NDArray[np.bool_]
    missing_left: bool
    unseen_left: bool


class Outgoing:
    """raw_score: the file is to predict scores, without the link."""

    def __init__(self, model: Model, *, raw_score: bool = False) -> None:
        self.model = model
        self.raw_score = raw_score
        self.link: Link = IDENTITY if raw_score else own_objective(model).link
        n_used = model.n_iterations if model.best_iteration is None else model.best_iteration
        self.trees: list[Tree] = model.trees[: n_used * model.n_outputs]
        self.encoder = model.encoder or Encoder(model.n_features)
        self.levels: Mapping[int, Levels] = self.encoder.levels

    @property
    def n_outputs(self) -> int:
        return self.model.n_outputs

    @property
    def base_score(self) -> NDArray[np.float64]:
        return self.model.base_score

    @property
    def needs_base_trees(self) -> bool:
        """Whether trees without splits must say the base score: readers take the first for it."""
        first = self.trees[: self.n_outputs]
        return bool(self.base_score.any()) or not any(tree.n_splits for tree in first)

    def peer_objective(self, library: str) -> str:
        """What another library calls the objective; ParameterError if it lacks the link."""
        kind, link = OBJECTIVES[self.model.objective], self.link
        found = (link.peers if self.n_outputs == 1 else link.peers_of_several).get(library)
        if found is None:
            raise ParameterError(
                f"{library}: has no {type(link).__name__.lower()} link for {self.n_outputs} "
                f"output(s), which objective {self.model.objective!r} needs; raw_score=True writes "
                "a file that predicts the scores before it"
            )
        by_number = link.peers.get(library) != link.peers_of_several.get(library)
        if self.raw_score or (by_number and self.n_outputs > 1):
            return found  # it has a name of its own for several outputs
        return kind.peers.get(library, found)

    def features(self, tree: Tree) -> NDArray[np.int64]:
        """Of each split: the feature of the table."""
        return self.encoder.sources[tree.feature]

    def subsets(self, tree: Tree) -> dict[int, Subset]:
        """The splits of categories, by their number in the tree."""
        if not self.levels:
            return {}
        source = self.features(tree)
        return {
            i: self._subset(tree, i, int(source[i]))
            for i in np.flatnonzero(self._is_category[source]).tolist()
        }

    @cached_property
    def _is_category(self) -> NDArray[np.bool_]:
        found = np.zeros(self.model.n_features, dtype=np.bool_)
        found[list(self.levels)] = True
        return found

    def _subset(self, tree: Tree, i: int, feature: int) -> Subset:
        column = int(tree.feature[i])
        if column not in self.encoder.places:
            words = tree.left_bins[i].astype("<u8").view(np.uint8)
            bits = np.unpackbits(words, bitorder="little")[: len(self.levels[feature])]
            default = bool(tree.default_left[i])
            return Subset(bits.astype(np.bool_), default, default)
        worth = self.encoder.statistics[feature].values[self.encoder.places[column][1]]
        below = worth <= tree.threshold[i]  # unseen levels are worth zero
        return Subset(below[:-1], bool(below[-1]), bool(tree.threshold[i] >= 0.0))

    def missing_first(self, tree: Tree) -> tuple[Tree, dict[int, Subset]]:
        """The same tree for formats that send missing and unseen levels the same way.

        Where they part, a split before it asks whether the value is missing: all others are at most
        infinity. What follows for missing values is a copy, in which their splits are decided.
        """
        subsets = self.subsets(tree)
        if all(s.missing_left == s.unseen_left for s in subsets.values()):
            return tree, subsets
        return _parted(tree, self.features(tree).tolist(), subsets)

    @cached_property
    def cells(self) -> dict[int, NDArray[np.int64]]:
        """The number that stands for each level in a table of numbers, by feature."""
        return {f: cells_of(levels) for f, levels in sorted(self.levels.items())}

    def note(self, *, exact: bool, without: tuple[str, ...] = ()) -> str:
        """What only we know, as JSON in ASCII: `incoming.with_note` reads it.

        exact: the file holds the trees as they are, so that the record of their training is still
        true. without: parameters that the file itself says in another way."""
        own, raw = self.model, self.raw_score
        params = {} if raw else changed_params(own.params)
        is_whole = len(self.trees) == len(own.trees)
        is_same = exact and is_whole and not raw and not self.encoder.statistics
        note = {
            "best_iteration": own.best_iteration,
            "classes": None if raw else own.classes,
            "classes_dtype": None if raw else own.classes_dtype,
            "feature_names": own.feature_names,
            "levels": {str(f): [v.kind, v.values.tolist()] for f, v in self.levels.items()},
            "objective": Custom.name if raw else own.objective,
            "params": {name: v for name, v in params.items() if name not in without},
            "training": own.record.facts() if is_same and own.record is not None else None,
        }
        return json.dumps(note, sort_keys=True)

    def table(self, X: Any) -> NDArray[Any]:
        """X as the numbers that exported models read; NaN: missing, -1: a level they lack."""
        model, known = self.model, sorted(self.levels)
        if not known:
            return rows_for_prediction(X, model.feature_names, dense=True)
        # Unseen levels are worth zero: one less is what they become.
        worth = {
            f: Statistics(np.append(cells + 1.0, np.nan)[None, :])
            for f, cells in self.cells.items()
        }
        encoder = Encoder(model.n_features, self.levels, worth)
        table = rows_for_prediction(X, model.feature_names, encoder, dense=True).astype(np.float64)
        table[:, known] -= 1.0
        return table


def _parted(
    tree: Tree, feature: list[int], subsets: Mapping[int, Subset]
) -> tuple[Tree, dict[int, Subset]]:
    """The tree of `missing_first`; nodes are copied from a stack, parents before children."""
    source: list[int] = []  # of each new split: the old one
    leaves: list[int] = []
    children: dict[tuple[int, int], int] = {}
    found: dict[int, Subset] = {}
    asks: list[int] = []  # new splits that ask whether the value is missing
    stack: list[tuple[int, frozenset[int], int, int]] = [(0, frozenset(), -1, 0)]
    left, right = tree.left.tolist(), tree.right.tolist()
    while stack:
        node, missing, parent, side = stack.pop()
        while node in subsets and feature[node] in missing:
            node = left[node] if subsets[node].missing_left else right[node]
        if node < 0:
            children[parent, side] = ~len(leaves)
            leaves.append(~node)
            continue
        children[parent, side] = number = len(source)
        source.append(node)
        subset = subsets.get(node)
        if subset is not None and subset.missing_left != subset.unseen_left:
            asks.append(number)
            gone = left[node] if subset.missing_left else right[node]
            stack.append((gone, missing | {feature[node]}, number, 1))
            children[number, 0] = number = len(source)
            source.append(node)
            subset = subset._replace(missing_left=subset.unseen_left)
        if subset is not None:
            found[number] = subset
        stack += [(left[node], missing, number, 0), (right[node], missing, number, 1)]
        if len(source) > _MOST_COPIES * tree.n_splits:
            raise ParameterError("a tree asks for missing levels too often to be written")
    names = ("split_bin", "threshold", "default_left", "gain", "split_rows", "split_hess")
    parts = {name: getattr(tree, name)[source] for name in names}
    parts["threshold"][asks], parts["default_left"][asks] = np.inf, 0
    parts["gain"][asks] = 0.0
    for side, name in enumerate(("left", "right")):
        of_side = [children[number, side] for number in range(len(source))]
        parts[name] = np.array(of_side, dtype=np.int32)
    parts["feature"] = np.array(feature, dtype=np.int32)[source]
    of_leaves = ("leaf_value", "leaf_rows", "leaf_hess")
    return Tree(**parts, **{name: getattr(tree, name)[leaves] for name in of_leaves}), found


def is_own_cell(levels: Levels) -> bool:
    """Whether levels are small whole numbers, which stand for themselves."""
    if levels.kind != INTEGER or len(levels) == 0:
        return levels.kind == INTEGER
    return bool(levels.values[0] >= 0 and levels.values[-1] < _LARGEST_CELL)


def cells_of(levels: Levels) -> NDArray[np.int64]:
    """The number that stands for each level in a table of numbers."""
    found: NDArray[np.int64] = levels.values if is_own_cell(levels) else np.arange(len(levels))
    return found


def with_counts(tree: Tree) -> Tree:
    """A tree that does not know its rows gets the sums of hessians, rounded, in their place."""
    if tree.leaf_rows.any():
        return tree
    leaf_rows, split_rows = (
        np.rint(hess).clip(1.0, 2.0**53).astype(np.int64)
        for hess in (tree.leaf_hess, tree.split_hess)
    )
    return replace(tree, leaf_rows=leaf_rows, split_rows=split_rows)


def node_values(tree: Tree) -> NDArray[np.float64]:
    """The mean value of the rows of each split, as other libraries show it."""
    rows = np.maximum(tree.leaf_rows, 1).astype(np.float64)
    value, weight = tree.leaf_value.tolist(), rows.tolist()
    means, weights = [0.0] * tree.n_splits, [0.0] * tree.n_splits
    for i in range(tree.n_splits - 1, -1, -1):
        children = (int(tree.left[i]), int(tree.right[i]))
        parts = [(means[c], weights[c]) if c >= 0 else (value[~c], weight[~c]) for c in children]
        weights[i] = parts[0][1] + parts[1][1]
        means[i] = sum(mean * w for mean, w in parts) / weights[i]
    return np.array(means)
