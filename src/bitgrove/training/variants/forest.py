"""A random forest: every tree is fitted to the start of the scores, the model is their mean.

Trees differ by the rows and features they see. A tree's values are those of a Newton step from the
base score (for squared error: the mean of its rows).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bitgrove.errors import ParameterError
from bitgrove.model.tree import Tree
from bitgrove.params import BY_NAME
from bitgrove.training.variants.boosting import Boosting
from bitgrove.training.variants.dart import times

if TYPE_CHECKING:
    from bitgrove.training.booster import Booster


class Forest(Boosting):
    """Scores are the mean of the trees so far; that of tree i was added as one of i trees."""

    name = "rf"
    can_resume = False

    def __init__(self, booster: Booster) -> None:
        super().__init__(booster)
        params = booster.params
        share = params.colsample_bytree * params.colsample_bynode
        if not booster.draws.is_random and share >= 1.0 and not params.extra_trees:
            raise ParameterError(
                "boosting_type='rf': its trees would be equal; give subsample or colsample_bytree "
                "a value below 1"
            )
        if params.learning_rate != BY_NAME["learning_rate"].default:
            raise ParameterError(
                f"learning_rate={params.learning_rate!r}: a forest (boosting_type='rf') has none"
            )
        self._start = booster.start_scores(booster.dataset)

    def seen_scores(self, booster: Booster) -> Any:
        return self._start

    def rate(self, learning_rate: float, iteration: int) -> float:
        return 1.0 / (iteration + 1)

    def keep(self, iteration: int) -> float:
        return iteration / (iteration + 1)

    def finished(self, trees: Sequence[Tree]) -> list[Tree]:
        n_iterations = max(len(trees) // self.n_outputs, 1)
        return [
            times(tree, (place // self.n_outputs + 1) / n_iterations)
            for place, tree in enumerate(trees)
        ]
