"""A model as other libraries see it.

Owns Outgoing: the trees that a prediction uses, told in the features of the table instead of the
columns that our encoder makes of it, and what number stands for a level in that table. A category
of many levels, which our trees see as numbers, becomes splits by subsets here: so formats know two
kinds of splits, by a threshold and by a Subset.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from bitgrove.objectives import OBJECTIVES
from bitgrove.objectives.links import IDENTITY, Link

if TYPE_CHECKING:
    from bitgrove.model.model import Model

# Whole numbers below this stand for themselves; other levels are numbered from 0.
_LARGEST_CELL = 1 << 16


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
            for i in np.flatnonzero(np.isin(source, list(self.levels))).tolist()
        }

    def _subset(self, tree: Tree, i: int, feature: int) -> Subset:
        if feature not in self.encoder.statistics:
            words = tree.left_bins[i].astype("<u8").view(np.uint8)
            bits = np.unpackbits(words, bitorder="little")[: len(self.levels[feature])]
            default = bool(tree.default_left[i])
            return Subset(bits.astype(np.bool_), default, default)
        worth = self.encoder.statistics[feature].values[self._column_of[int(tree.feature[i])]]
        below = worth <= tree.threshold[i]  # unseen levels are worth zero
        return Subset(below[:-1], bool(below[-1]), bool(tree.threshold[i] >= 0.0))

    @cached_property
    def _column_of(self) -> dict[int, int]:
        """Which of its feature's statistics a column holds."""
        seen: dict[int, int] = {}
        found = {}
        for column, feature in enumerate(self.encoder.sources.tolist()):
            found[column] = seen.get(feature, 0)
            seen[feature] = found[column] + 1
        return found

    @cached_property
    def cells(self) -> dict[int, NDArray[np.int64]]:
        """The number that stands for each level in a table of numbers, by feature."""
        return {f: cells_of(levels) for f, levels in sorted(self.levels.items())}

    def table(self, X: Any) -> NDArray[Any]:
        """X as the numbers that exported models read; NaN: missing, -1: a level they lack."""
        model, known = self.model, sorted(self.levels)
        if not known:
            return rows_for_prediction(X, model.feature_names)
        # Unseen levels are worth zero: one less is what they become.
        worth = {
            f: Statistics(np.append(cells + 1.0, np.nan)[None, :])
            for f, cells in self.cells.items()
        }
        encoder = Encoder(model.n_features, self.levels, worth)
        table = rows_for_prediction(X, model.feature_names, encoder).astype(np.float64)
        table[:, known] -= 1.0
        return table


def is_own_cell(levels: Levels) -> bool:
    """Whether levels are small whole numbers, which stand for themselves."""
    values = levels.values
    is_small = len(values) == 0 or bool(values[0] >= 0 and values[-1] < _LARGEST_CELL)
    return levels.kind == INTEGER and is_small


def cells_of(levels: Levels) -> NDArray[np.int64]:
    """The number that stands for each level in a table of numbers."""
    found: NDArray[np.int64] = levels.values if is_own_cell(levels) else np.arange(len(levels))
    return found


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
