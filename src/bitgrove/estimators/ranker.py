"""BitGroveRanker: the order of the rows of each query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from bitgrove.callbacks import Callback
from bitgrove.data.given_rows import Queries, Rows, either, pairs_of, with_each
from bitgrove.estimators.base import Estimator
from bitgrove.estimators.fitted import Array
from bitgrove.machine.files import PathLike
from bitgrove.model.judged import GivenRows, judged_rows, objective_of, predicted, score
from bitgrove.model.model import Model
from bitgrove.objectives import LambdaRank, Objective

if TYPE_CHECKING:
    from typing_extensions import Self


class BitGroveRanker(Estimator):
    """Gradient boosted trees, trained in integers, that rank the rows of each query.

    y holds relevance grades: 0, 1, 2, ...

    Examples
    --------
    >>> import numpy as np
    >>> from bitgrove import BitGroveRanker
    >>> X = np.arange(2000.0).reshape(1000, 2) % 83
    >>> y = (X[:, 0] // 21).astype(int)
    >>> ranker = BitGroveRanker(n_estimators=10).fit(X, y, group=[20] * 50)
    >>> ranker.predict(X[:20]).shape
    (20,)
    """

    @classmethod
    def takes(cls, objective: type[Objective]) -> bool:
        return objective.needs_queries

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        group: Any = None,
        qid: Any = None,
        eval_set: Any = None,
        eval_sample_weight: Any = None,
        eval_group: Any = None,
        eval_qid: Any = None,
        eval_names: Sequence[str] | None = None,
        feature_name: Sequence[str] | None = None,
        callbacks: Sequence[Callback] | None = None,
        init_model: Model | PathLike | Estimator | None = None,
        resume_from: Model | PathLike | None = None,
        **more: Any,
    ) -> Self:
        """Train on X and y, whose rows are sorted by query.

        `group` holds the number of rows of each query, or `qid` a query id for each row. The
        `eval_` arguments hold the same for each `eval_set`. The rest is as in the other estimators.
        """
        eval_weights, more = either(eval_sample_weight, "eval_sample_weight", more)
        start, more = either(init_model, "init_model", more)
        each = with_each(
            pairs_of(eval_set),
            eval_sample_weight=eval_weights,
            eval_group=eval_group,
            eval_qid=eval_qid,
        )
        valid = [
            Rows(pair[0], pair[1], weight, Queries(sizes, ids, "eval_"))
            for pair, weight, sizes, ids in each
        ]
        rows = Rows(X, y, sample_weight, Queries(group, qid), feature_name)
        how = {"valid_names": eval_names, "callbacks": callbacks, "resume_from": resume_from,
               "init_model": start}  # fmt: skip
        return self._fit(rows, valid, how, more)

    def predict(self, X: Any, **how: Any) -> Array:
        """A score for each row; within a query, higher means more relevant.

        The keywords are those of `Model.predict`.
        """
        return self._predict(X, **how)

    def score(self, X: Any, y: Any, *, group: Any = None, qid: Any = None) -> float:
        """The mean of `ndcg@10` over the queries, which are given as in fit; 1 is perfect."""
        check_is_fitted(self)
        table = self._table(X, self._known_categories(), reset=False)
        rows = judged_rows(self.model_, GivenRows(table, y, group=group, qid=qid))
        prediction = predicted(self.model_, rows, self.n_jobs)
        return score(objective_of(self.model_), "ndcg@10", rows, prediction)[1]

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """The scores after each iteration."""
        return self._staged(X)

    def _own_objective(self) -> type[Objective]:
        return LambdaRank

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
