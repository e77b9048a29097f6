"""DART: some earlier trees are dropped while a new one is grown, and come back smaller.

So no tree leans on the first ones alone (Rashmi and Gilad-Bachrach, 2015). Which are dropped
depends on the hash of seed, iteration and tree; all outputs of an iteration are dropped together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from bitgrove.data.sampling import drop_draw
from bitgrove.model.tree import Tree
from bitgrove.training.variants.boosting import Boosting, ScoreChange

if TYPE_CHECKING:
    from bitgrove.training.booster import Booster


class Dart(Boosting):
    name = "dart"
    trees_stay = False
    can_resume = False

    def __init__(self, booster: Booster) -> None:
        super().__init__(booster)
        self._params, self._n_before = booster.params, booster.n_before
        self._weights: list[float] = []  # of the iterations so far
        self._dropped: list[int] = []  # iterations of this training
        self._rate = self._left = 1.0  # of the new trees, and of what was dropped

    def drop(self, trees: Sequence[Tree], iteration: int) -> list[ScoreChange]:
        self._dropped = self._drawn(iteration)
        return [
            ScoreChange(place % self.n_outputs, times(trees[place], -1.0))
            for place in self._places()
        ]

    def rate(self, learning_rate: float, iteration: int) -> float:
        """A new tree gets about the share that the dropped ones lose: the sum stays in scale."""
        n_dropped, one = len(self._dropped), 1.0
        if self._params.xgboost_dart_mode:
            one = learning_rate if n_dropped else 1.0
        self._left = n_dropped / (n_dropped + one)
        self._rate = learning_rate / (n_dropped + one)
        return self._rate

    def settle(self, trees: list[Tree]) -> list[ScoreChange]:
        for i in self._dropped:
            self._weights[i] *= self._left
        self._weights.append(self._rate)
        changes = []
        for place in self._places():
            trees[place] = times(trees[place], self._left)
            changes.append(ScoreChange(place % self.n_outputs, trees[place]))
        return changes

    def _places(self) -> list[int]:
        """Of the dropped trees among all trees."""
        first = [(self._n_before + i) * self.n_outputs for i in self._dropped]
        return [place + k for place in first for k in range(self.n_outputs)]

    def _drawn(self, iteration: int) -> list[int]:
        """Each with a chance of drop_rate, times its weight over the mean one."""
        params, n_grown = self._params, len(self._weights)
        most = params.max_drop if params.max_drop > 0 else n_grown
        if n_grown == 0 or drop_draw(self.seed, iteration, -1) < params.skip_drop:
            return []
        rate = min(params.drop_rate, most / n_grown)
        mean = sum(self._weights) / n_grown
        weights = [mean] * n_grown if params.uniform_drop else self._weights
        draws = [drop_draw(self.seed, iteration, i) for i in range(n_grown)]
        return [i for i in range(n_grown) if draws[i] * mean < rate * weights[i]][:most]


def times(tree: Tree, factor: float) -> Tree:
    """The tree with its values multiplied; a zero leaf stays +0."""
    return replace(tree, leaf_value=tree.leaf_value * factor + 0.0)
