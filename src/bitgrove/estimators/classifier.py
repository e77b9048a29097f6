"""BitGroveClassifier: two or more classes, with labels of any type that can be sorted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from bitgrove.data.dataset import Dataset
from bitgrove.data.given_rows import Rows
from bitgrove.data.given_values import checked_weight
from bitgrove.errors import DataError, ParameterError
from bitgrove.estimators.base import Array, Estimator
from bitgrove.model.model import Model
from bitgrove.objectives import Binary, Custom, Multiclass, Objective
from bitgrove.params import Parameter

_CLASS_WEIGHT = Parameter(
    "class_weight", "object", None,
    "Weights of the classes in the loss: 'balanced' (all classes count the same in sum) or a dict "
    "by label; they multiply the row weights.", "Estimators", optional=True,
)  # fmt: skip


class BitGroveClassifier(ClassifierMixin, Estimator):  # type: ignore[misc]
    """Gradient boosted trees, trained in integers, for two or more classes.

    Labels may be of any type that can be sorted. `classes_` are the distinct ones.
    """

    own_parameters = (*Estimator.own_parameters, _CLASS_WEIGHT)

    class_weight: Mapping[Any, float] | str | None

    @classmethod
    def takes(cls, objective: type[Objective]) -> bool:
        return objective.is_classifier or objective is Custom

    def predict(self, X: Any, *, raw_score: bool = False, **how: Any) -> Array:
        """The most probable class of each row.

        The keywords are those of `Model.predict`: with `raw_score` or `pred_leaf` it returns scores
        or leaves; `num_iteration` and `start_iteration` choose iterations.
        """
        scores = self._predict(X, raw_score=True, **how)
        return scores if raw_score or how.get("pred_leaf") else self._most_probable(scores)

    def predict_proba(self, X: Any, **how: Any) -> Array:
        """(n_rows, n_classes) probabilities, in the order of `classes_`; keywords as in predict."""
        if hasattr(self, "model_") and not self.model_.n_classes:
            raise ParameterError(
                "predict_proba: the objective is a function of yours, whose scores are no "
                "probabilities; apply your own link to predict(X, raw_score=True)"
            )
        found = self._predict(X, **how)
        return found if how.get("raw_score") or how.get("pred_leaf") else _by_class(found)

    def decision_function(self, X: Any) -> Array:
        """Raw scores: (n_rows,), above 0 for `classes_[1]`; (n_rows, n_classes) beyond two."""
        return self._predict(X, raw_score=True)

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """The most probable class of each row after each iteration."""
        return map(self._most_probable, self._staged(X, raw_score=True))

    def staged_predict_proba(self, X: Any) -> Iterator[Array]:
        """The probabilities after each iteration."""
        return map(_by_class, self._staged(X))

    def staged_decision_function(self, X: Any) -> Iterator[Array]:
        """The raw scores after each iteration."""
        return self._staged(X, raw_score=True)

    def _most_probable(self, scores: Array) -> Array:
        codes = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[codes]

    def _learn_label(self, target: Array, weight: Array | None) -> Array:
        check_classification_targets(target)
        # Rows without weight count as absent: a class that only they have is left out.
        classes = np.unique(target if weight is None else target[weight > 0])
        if len(classes) == 0:
            raise DataError("all sample weights are zero")
        if len(classes) == 1:
            raise DataError("y holds 1 class (weights of 0 aside); 2 are needed")
        if classes.dtype.kind not in "biufUO":
            raise DataError(f"y has labels of type {classes.dtype}; use strings or numbers")
        if classes.dtype.kind == "O":  # strings, but maybe of NumPy's own type
            classes = np.array([*map(str, classes)], dtype=object)
        self.classes_, self.n_classes_ = classes, len(classes)
        return self._codes(target)

    def _label(self, target: Array) -> Array:
        strange = set(target.tolist()) - set(self.classes_.tolist())
        if strange:
            names = ", ".join(sorted(map(repr, strange))[:5])
            raise DataError(f"eval_set has classes that the training data has not: {names}")
        return self._codes(target)

    def _codes(self, target: Array) -> Array:
        return np.minimum(np.searchsorted(self.classes_, target), self.n_classes_ - 1)

    def _own_objective(self) -> type[Objective]:
        return Binary if self.n_classes_ == 2 else Multiclass

    def _objective(self, given: Mapping[str, Any]) -> dict[str, Any]:
        objective = self._given_objective(given) or self._own_objective()
        n_known, n_wanted = self.n_classes_, given.get("num_class")
        if n_wanted not in (None, n_known):
            raise ParameterError(f"num_class={n_wanted}: y has {n_known} classes")
        if not objective.allows_outputs(n_known) and n_known != 2:
            raise ParameterError(
                f"objective={objective.name!r} is for two classes, y has {n_known}"
            )
        settings = {"num_class": None, **objective.class_settings(n_known)}
        if objective is Custom and n_known > 2:
            settings["num_class"] = n_known
        return {"objective": self._spelled(objective, given), **settings}

    def _dataset(self, rows: Rows, names: list[str] | None = None) -> Dataset:
        """Rows of the training count as much as their class weighs, too."""
        found = super()._dataset(rows, names)
        if names is None and self.class_weight is not None:
            assert found.label is not None
            factor = self._class_factors(found.label.astype(np.intp))
            weight = np.ones(found.n_rows) if found.weight is None else found.weight
            found.weight = checked_weight(
                weight * factor[found.label.astype(np.intp)], found.n_rows
            )
        return found

    def _class_factors(self, codes: Array) -> Array:
        """The weight of each class."""
        given = self.class_weight
        if isinstance(given, str) and given == "balanced":
            counts = np.bincount(codes, minlength=self.n_classes_)
            return np.asarray(len(codes) / (self.n_classes_ * np.maximum(counts, 1)))
        if not isinstance(given, Mapping):
            raise ParameterError(
                f"class_weight={given!r}: must be None, 'balanced' or a dict of weights by class"
            )
        known = self.classes_.tolist()
        strange = [label for label in given if label not in known]
        if strange:
            raise ParameterError(f"class_weight: y has no class {strange[0]!r}")
        return np.array([given.get(label, 1.0) for label in known], dtype=np.float64)

    def _learn_model(self, model: Model) -> None:
        labels = model.class_labels()
        self.classes_ = np.arange(model.n_classes) if labels is None else labels
        self.n_classes_ = len(self.classes_)

    def _named_outputs(self, model: Model) -> Model:
        return model.with_classes(self.classes_) if model.n_classes else model


def _by_class(found: Array) -> Array:
    """A probability for each class, also where the model says only that of the second."""
    return np.column_stack((1 - found, found)) if found.ndim == 1 else found
