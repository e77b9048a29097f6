"""Two classes: the logistic loss."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bitgrove.arithmetic.exact_math import exact_log, numpy_sigmoid
from bitgrove.arithmetic.limits import MAX_MAGNITUDE, MIN_WEIGHT
from bitgrove.errors import DataError, ParameterError
from bitgrove.objectives.base import F32, F64, Objective, Tables, check_sigmoid, label_mean
from bitgrove.objectives.links import Link, Sigmoid

if TYPE_CHECKING:
    from typing_extensions import Self

    from bitgrove.distributed.comm import Comm


@dataclass(frozen=True)
class Binary(Objective):
    """Labels 0 and 1; the score is the log odds of class 1, divided by `sigmoid`."""

    name = "binary"
    synonyms = ("binary:logistic", "logloss")
    family = "elementwise"
    kernel = "logistic"
    default_metric = "logloss"
    predicts = "probability"
    is_classifier = True

    scale_pos_weight: float = 1.0
    sigmoid: float = 1.0

    @classmethod
    def for_model(cls, settings: Mapping[str, Any], n_outputs: int) -> Self:
        sigmoid = settings.get("sigmoid", 1.0)
        if type(sigmoid) not in (int, float) or sigmoid <= 0:
            raise ParameterError(
                f"parameter 'sigmoid' is {reprlib.repr(sigmoid)}, not a positive number"
            )
        return super().for_model(settings, n_outputs)

    @property
    def n_classes(self) -> int | None:
        return 2

    @property
    def top_label(self) -> int | None:
        return 1

    @property
    def kernel_parameters(self) -> tuple[float, ...]:
        return (self.sigmoid,)

    @property
    def link(self) -> Link:
        return Sigmoid(float(self.sigmoid))

    def check_settings(self) -> None:
        check_sigmoid(self.sigmoid)

    def check_labels(self, label: F64) -> None:
        if not ((label == 0.0) | (label == 1.0)).all():
            raise DataError(f"label: objective {self.name!r} needs labels 0 and 1")

    def row_weights(self, label: F64, weight: F32 | None) -> F32 | None:
        """scale_pos_weight is part of the weights of the loss (not of the metrics)."""
        if self.scale_pos_weight == 1.0:
            return weight
        weight = np.ones(len(label), np.float32) if weight is None else weight
        product = weight * np.where(label > 0, self.scale_pos_weight, 1.0)
        if ((product < MIN_WEIGHT) | (product > MAX_MAGNITUDE)).any():
            raise ParameterError(
                f"scale_pos_weight={self.scale_pos_weight!r}: times the row weights it must lie "
                f"between {MIN_WEIGHT:.2g} and {MAX_MAGNITUDE:g}"
            )
        return product.astype(np.float32)

    def base_scores(self, label: F64, weight: F32 | None, comm: Comm) -> F64:
        # A class that is absent gets a very small, not a zero, probability.
        p = np.clip(label_mean(label, weight, comm), 1e-15, 1.0 - 1e-15)
        return exact_log(p / (1.0 - p)) / self.sigmoid

    def derivatives(self, scores: F64, label: F64, tables: Tables) -> tuple[F64, F64]:
        p = numpy_sigmoid(self.sigmoid * scores)
        return self.sigmoid * (p - label), ((self.sigmoid * self.sigmoid) * p) * (1.0 - p)

    def losses(self, scores: F64, label: F64) -> F64:
        return np.logaddexp(0.0, -self.sigmoid * (2 * label - 1) * scores[0])
