"""BitGroveClassifier: classes of any type that can be sorted, or several labels at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from bitgrove.data.dataset import Dataset
from bitgrove.data.given_rows import Rows
from bitgrove.data.given_values import is_missing
from bitgrove.errors import DataError, ParameterError
from bitgrove.estimators.answers import (
    Answers,
    Classes,
    Labels,
    answers_of_model,
    weigh_classes,
)
from bitgrove.estimators.base import Estimator
from bitgrove.estimators.fitted import Array, is_prediction
from bitgrove.model.model import Model
from bitgrove.model.spellings import in_our_words
from bitgrove.objectives import Custom, Objective
from bitgrove.params import Parameter

_CLASS_WEIGHT = Parameter(
    "class_weight", "object", None,
    "Weights of the classes in the loss: 'balanced' (all classes count the same in sum) or a dict "
    "by label; they multiply the row weights.", "Estimators", optional=True,
)  # fmt: skip


class BitGroveClassifier(ClassifierMixin, Estimator):  # type: ignore[misc]
    """Gradient boosted trees, trained in integers, for two or more classes.

    Classes may be of any type that can be sorted. `classes_` are the distinct ones. y may also have
    several columns of 0 and 1, labels that may hold at the same time: each has trees of its own in
    one model, and `predict` and `predict_proba` return a column for each.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bitgrove import BitGroveClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> classifier = BitGroveClassifier(n_estimators=20).fit(X, y)
    >>> classifier.predict_proba(X).shape
    (150, 3)
    """

    own_parameters = (*Estimator.own_parameters, _CLASS_WEIGHT)
    takes_columns = True

    class_weight: Mapping[Any, float] | str | None

    @classmethod
    def takes(cls, objective: type[Objective]) -> bool:
        return objective.is_classifier or objective is Custom

    @in_our_words
    def predict(self, X: Any, *, raw_score: bool = False, **how: Any) -> Array:
        """The most probable class of each row; of several labels, which of them hold.

        The keywords are those of `Model.predict`: with `raw_score`, `pred_leaf` or `pred_contrib`
        it returns scores, leaves or contributions; `num_iteration` and `start_iteration` choose
        iterations.
        """
        scores = self._predict(X, raw_score=True, **how)
        wanted = is_prediction(how) and not raw_score
        return self._answers.chosen(scores) if wanted else scores

    @in_our_words
    def predict_proba(self, X: Any, **how: Any) -> Array:
        """(n_rows, n_classes) probabilities, in the order of `classes_`; keywords as in predict.

        Of several labels: (n_rows, n_labels), the probability that each of them holds.
        """
        if hasattr(self, "model_") and not self.model_.n_classes:
            raise ParameterError(
                "predict_proba: the objective is a function of yours, whose scores are no "
                "probabilities; apply your own link to predict(X, raw_score=True)"
            )
        found = self._predict(X, **how)
        wanted = is_prediction(how) and not how.get("raw_score")
        return self._answers.probabilities(found) if wanted else found

    def decision_function(self, X: Any) -> Array:
        """Raw scores: (n_rows,), above 0 for `classes_[1]`; a column for each class beyond two, or
        for each label."""
        return self._predict(X, raw_score=True)

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """The most probable class of each row after each iteration."""
        return map(self._answers.chosen, self._staged(X, raw_score=True))

    def staged_predict_proba(self, X: Any) -> Iterator[Array]:
        """The probabilities after each iteration."""
        return map(self._answers.probabilities, self._staged(X))

    def staged_decision_function(self, X: Any) -> Iterator[Array]:
        """The raw scores after each iteration."""
        return self._staged(X, raw_score=True)

    @property
    def _answers(self) -> Answers:
        known = self.classes_
        return Labels(known[0], len(known)) if isinstance(known, list) else Classes(known)

    def _learn(self, answers: Answers) -> None:
        self.classes_, self.n_classes_ = answers.fitted

    def _target(self, y: Any) -> Array:
        given = np.asarray(y)
        if given.dtype.kind == "O" and given.ndim == 1:
            # scikit-learn would fail to compare them, or speak of a regression target.
            rows = np.flatnonzero([*map(is_missing, given)])
            if rows.size:
                where = f"{rows.size} of {given.size} rows (row {rows[0]})"
                raise DataError(f"y has no label in {where}")
        return super()._target(y)

    def _learn_label(self, target: Array, weight: Array | None) -> Array:
        answers = Labels.learn(target) if target.ndim == 2 else Classes.learn(target, weight)
        self._learn(answers)
        return answers.codes(target)

    def _label(self, target: Array) -> Array:
        return self._answers.label(target)

    def _own_objective(self) -> type[Objective]:
        return self._answers.own_objective

    def _objective(self, given: Mapping[str, Any]) -> dict[str, Any]:
        objective = self._given_objective(given) or self._own_objective()
        settings = self._answers.settings(objective, given.get("num_class"))
        return {"objective": self._spelled(objective, given), **settings}

    def _dataset(self, rows: Rows, names: list[str] | None = None) -> Dataset:
        """Rows of the training count as much as their class weighs, too."""
        found = super()._dataset(rows, names)
        if names is not None:
            return found
        assert found.label is not None
        # Rows without weight count as absent.
        seen = found.label if found.weight is None else found.label[found.weight > 0.0]
        counts = np.bincount(seen.astype(np.intp).ravel(), minlength=len(self._answers.values))
        return weigh_classes(found, self._answers.weights(self.class_weight, counts))

    def _learn_model(self, model: Model) -> None:
        self._learn(answers_of_model(model))

    def _named_outputs(self, model: Model) -> Model:
        return model.with_classes(self._answers.values) if model.n_classes else model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
