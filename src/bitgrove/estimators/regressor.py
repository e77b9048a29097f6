"""BitGroveRegressor: numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sklearn.base import RegressorMixin

from bitgrove.estimators.base import Estimator
from bitgrove.estimators.fitted import Array
from bitgrove.objectives import Objective, Regression


class BitGroveRegressor(RegressorMixin, Estimator):  # type: ignore[misc]
    """Gradient boosted trees, trained in integers, for a target of numbers.

    y may have several columns: each has trees of its own in one model.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bitgrove import BitGroveRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> regressor = BitGroveRegressor(n_estimators=50, num_leaves=7).fit(X, y)
    >>> regressor.score(X, y) > 0.6
    True
    """

    takes_columns = True

    @classmethod
    def takes(cls, objective: type[Objective]) -> bool:
        return not objective.is_classifier and not objective.needs_queries

    def predict(self, X: Any, **how: Any) -> Array:
        """The predicted value of each row.

        The keywords are those of `Model.predict`: with `raw_score`, `pred_leaf` or `pred_contrib`
        it returns scores, leaves or contributions; `num_iteration` and `start_iteration` choose
        iterations.
        """
        return self._predict(X, **how)

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """The predicted values after each iteration."""
        return self._staged(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags

    def _own_objective(self) -> type[Objective]:
        return Regression
