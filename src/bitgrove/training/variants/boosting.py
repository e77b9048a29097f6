"""How trees become a model: each corrects those before it, with or without dropping some.

Owns Boosting, what a Booster asks of any way of boosting, in the order of an iteration, and Gbdt,
the plain one. Receives trees; returns the ScoreChanges that training and validation scores go
through, which are the same everywhere since each is one addition per row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from bitgrove.errors import ParameterError
from bitgrove.model.tree import Tree

if TYPE_CHECKING:
    from bitgrove.training.booster import Booster


class ScoreChange(NamedTuple):
    """A tree is added to the scores of an output.

    keep: before that, what was added to their start so far is multiplied by it.
    """

    output: int
    tree: Tree
    keep: float = 1.0


class Boosting:
    """One training's; iterations are counted from its first one."""

    name: ClassVar[str]
    # Whether an iteration leaves the trees before it as they are: only then is the model of a few
    # iterations that of a shorter training.
    trees_stay = True
    can_resume = True

    def __init__(self, booster: Booster) -> None:
        """Refuses parameters that this way of boosting cannot have."""
        self.n_outputs, self.seed = booster.objective.n_outputs, booster.params.random_state

    def drop(self, trees: Sequence[Tree], iteration: int) -> list[ScoreChange]:
        """What the scores go through before the gradients of an iteration are computed."""
        return []

    def seen_scores(self, booster: Booster) -> Any:
        """The scores that an iteration's trees correct."""
        return booster.scores

    def rate(self, learning_rate: float, iteration: int) -> float:
        """What the values of an iteration's trees are multiplied by."""
        return learning_rate

    def keep(self, iteration: int) -> float:
        """What the trees so far are multiplied by when one of an iteration is added."""
        return 1.0

    def settle(self, trees: list[Tree]) -> list[ScoreChange]:
        """Changes older trees, once those of the iteration are among them."""
        return []

    def finished(self, trees: Sequence[Tree]) -> list[Tree]:
        """The trees of this training as the model has them."""
        return list(trees)

    def check_best(self, best_iteration: int | None) -> None:
        """Refuses to choose a best iteration where later ones change the trees."""
        if best_iteration is not None and not self.trees_stay:
            raise ParameterError(
                f"early stopping: not with boosting_type={self.name!r}, whose iterations change "
                "the trees before them; choose n_estimators instead"
            )

    def check_resume(self) -> None:
        if not self.can_resume:
            raise ParameterError(
                f"resume_from: not with boosting_type={self.name!r}, whose checkpoints do not hold "
                "the trees as they were"
            )


class Gbdt(Boosting):
    """Every tree corrects the sum of all before it."""

    name = "gbdt"
