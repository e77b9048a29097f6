"""What the targets of a classifier are: one class per row, or several labels that may hold at once.

Owns both kinds. Receives targets; returns labels for a Dataset, and what scores and probabilities
of a model say in the words of the targets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import check_classification_targets

from bitgrove.data.dataset import Dataset
from bitgrove.data.given_values import checked_weight
from bitgrove.errors import DataError, ModelFormatError, ParameterError
from bitgrove.model.checks import check_labels
from bitgrove.model.model import Model
from bitgrove.objectives import OBJECTIVES, Binary, Custom, Multiclass, Objective

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Classes:
    """A row is of one of these classes, which are sorted."""

    values: Array

    @classmethod
    def learn(cls, target: Array, weight: Array | None) -> Classes:
        # Few whole numbers or texts are classes: scikit-learn would go through all rows to say so.
        is_simple = target.dtype.kind in "biuU" and weight is None
        if not is_simple:
            check_classification_targets(target)
        # Rows without weight count as absent: a class that only they have is left out.
        classes = np.unique(target if weight is None else target[weight > 0])
        if is_simple and 2 * len(classes) > len(target):
            check_classification_targets(target)
        if len(classes) == 0:
            raise DataError("all sample weights are zero")
        if len(classes) == 1:
            raise DataError("y holds 1 class (weights of 0 aside); 2 are needed")
        if classes.dtype.kind not in "biufUO":
            raise DataError(f"y has labels of type {classes.dtype}; use strings or numbers")
        if classes.dtype.kind == "O":  # strings, but maybe of NumPy's own type
            classes = np.array([*map(str, classes)], dtype=object)
        try:
            check_labels(classes)
        except ModelFormatError as error:
            raise DataError(f"y: {error}") from None
        return cls(classes)

    @property
    def fitted(self) -> tuple[Any, Any]:
        """`classes_` and `n_classes_`, as scikit-learn has them."""
        return self.values, len(self.values)

    @property
    def n_columns(self) -> int | None:
        """Of `predict`; None: it returns one dimension."""
        return None

    @property
    def n_probabilities(self) -> int:
        """Columns of `predict_proba`."""
        return len(self.values)

    @property
    def own_objective(self) -> type[Objective]:
        return Binary if len(self.values) == 2 else Multiclass

    def settings(self, objective: type[Objective], num_class: int | None) -> dict[str, Any]:
        """The parameters that tell the objective of the classes; ParameterError if it cannot."""
        n_known = len(self.values)
        if num_class not in (None, n_known):
            raise ParameterError(f"num_class={num_class}: y has {n_known} classes")
        settings = objective.class_settings(n_known)
        if n_known > 2 and not settings and objective is not Custom:
            raise ParameterError(
                f"objective={objective.name!r} is for two classes, y has {n_known}"
            )
        settings = {"num_class": None, **settings}
        if objective is Custom and n_known > 2:
            settings["num_class"] = n_known
        return settings

    def label(self, target: Array) -> Array:
        """The code of each row's class."""
        if target.ndim > 1:
            raise DataError(f"eval_set: y has {target.shape[1]} columns, that of the training one")
        strange = set(target.tolist()) - set(self.values.tolist())
        if strange:
            names = ", ".join(sorted(map(repr, strange))[:5])
            raise DataError(f"eval_set has classes that the training data has not: {names}")
        return self.codes(target)

    def codes(self, target: Array) -> Array:
        """Those of the training; rows without weight may have a class that is none."""
        return np.minimum(np.searchsorted(self.values, target), len(self.values) - 1)

    def weights(self, given: Any, counts: Array) -> Array | None:
        """The weight of each class that `class_weight` asks for; counts: rows of each."""
        if given is None:
            return None
        if isinstance(given, str) and given == "balanced":
            return np.asarray(counts.sum() / (len(counts) * np.maximum(counts, 1)))
        if not isinstance(given, Mapping):
            raise ParameterError(
                f"class_weight={given!r}: must be None, 'balanced' or a dict of weights by class"
            )
        known = self.values.tolist()
        strange = [label for label in given if label not in known]
        if strange:
            raise ParameterError(f"class_weight: y has no class {strange[0]!r}")
        return np.array([given.get(label, 1.0) for label in known], dtype=np.float64)

    def chosen(self, scores: Array) -> Array:
        """The most probable class of each row."""
        codes = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.values[codes]

    def probabilities(self, found: Array) -> Array:
        """One for each class, also where the model says only that of the second."""
        return np.column_stack((1 - found, found)) if found.ndim == 1 else found


@dataclass(frozen=True, eq=False)
class Labels:
    """A row has each of several labels, or not; `values` are 0 and 1 in the type of y."""

    values: Array
    n_labels: int

    @classmethod
    def learn(cls, target: Array) -> Labels:
        numbers = target.dtype.kind in "biuf"
        return cls(np.arange(2, dtype=target.dtype if numbers else None), target.shape[1])

    @property
    def fitted(self) -> tuple[Any, Any]:
        return [self.values] * self.n_labels, [2] * self.n_labels

    @property
    def n_columns(self) -> int | None:
        return self.n_labels

    @property
    def n_probabilities(self) -> int:
        return self.n_labels

    @property
    def own_objective(self) -> type[Objective]:
        return Binary

    def settings(self, objective: type[Objective], num_class: int | None) -> dict[str, Any]:
        if not (objective.takes_columns and objective.is_classifier):
            raise ParameterError(
                f"objective={objective.name!r} takes one column of y, which has {self.n_labels}"
            )
        return {}

    def label(self, target: Array) -> Array:
        if target.ndim != 2 or target.shape[1] != self.n_labels:
            raise DataError(f"eval_set: y must have {self.n_labels} columns, as in the training")
        if target.dtype.kind not in "biuf" or not np.isin(target, (0, 1)).all():
            raise DataError(
                f"y has {self.n_labels} columns: each is a label, 0 or 1; for one class per row "
                "give one column"
            )
        return target.astype(np.float64)

    codes = label

    def weights(self, given: Any, counts: Array) -> Array | None:
        if given is None:
            return None
        raise ParameterError(
            f"class_weight={given!r}: y has {self.n_labels} columns; give sample_weight"
        )

    def chosen(self, scores: Array) -> Array:
        """0 or 1 for each label."""
        return self.values[(scores > 0).astype(np.intp)]

    def probabilities(self, found: Array) -> Array:
        """(n_rows, n_labels), that each label holds."""
        return found


Answers = Classes | Labels


def weigh_classes(dataset: Dataset, factors: Array | None) -> Dataset:
    """The same rows, which count as much as their class weighs, too; None: as they are."""
    if factors is not None:
        assert dataset.label is not None
        weight = np.ones(dataset.n_rows) if dataset.weight is None else dataset.weight
        product = weight * factors[dataset.label.astype(np.intp)]
        dataset.weight = checked_weight(product, dataset.n_rows)
    return dataset


def answers_of_model(model: Model) -> Answers:
    """Of a model that was trained elsewhere."""
    names = model.class_labels()
    values = np.arange(model.n_classes) if names is None else names
    if model.n_outputs > 1 and OBJECTIVES[model.objective].takes_columns:
        return Labels(values, model.n_outputs)
    return Classes(values)
