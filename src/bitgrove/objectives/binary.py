"""Two classes, or probabilities: the logistic loss, the cross entropy, the focal loss."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bitgrove.arithmetic.exact_math import exact_log, numpy_exp, numpy_log, numpy_sigmoid
from bitgrove.arithmetic.limits import MAX_MAGNITUDE, MIN_WEIGHT
from bitgrove.errors import DataError, ParameterError
from bitgrove.objectives.base import (
    F32,
    F64,
    Objective,
    Tables,
    check_level,
    check_sigmoid,
    label_mean,
)
from bitgrove.objectives.links import Link, Sigmoid

if TYPE_CHECKING:
    from typing_extensions import Self

    from bitgrove.distributed.comm import Comm


@dataclass(frozen=True)
class _TwoClasses(Objective):
    """Labels 0 and 1; the score is the log odds of class 1."""

    family = "elementwise"
    default_metric = "logloss"
    predicts = "probability"
    is_classifier = True
    takes_columns = True

    @property
    def n_classes(self) -> int | None:
        return 2

    @property
    def top_label(self) -> int | None:
        return 1

    @property
    def link(self) -> Link:
        return Sigmoid()

    def check_labels(self, label: F64) -> None:
        if not ((label == 0.0) | (label == 1.0)).all():
            raise DataError(f"label: objective {self.name!r} needs labels 0 and 1")

    def base_score(self, label: F64, weight: F32 | None, comm: Comm) -> F64:
        return log_odds(label_mean(label, weight, comm)) / self.link.slope


@dataclass(frozen=True)
class Binary(_TwoClasses):
    """The logistic loss; the log odds are divided by `sigmoid`."""

    name = "binary"
    synonyms = ("binary:logistic", "logloss", "log_loss", "Logloss")
    kernel = "logistic"

    scale_pos_weight: float = 1.0
    is_unbalance: bool = False
    sigmoid: float = 1.0

    @classmethod
    def for_model(cls, settings: Mapping[str, Any], n_outputs: int) -> Self:
        sigmoid = settings.get("sigmoid", 1.0)
        if type(sigmoid) not in (int, float) or sigmoid <= 0:
            raise ParameterError(
                f"parameter 'sigmoid' is {reprlib.repr(sigmoid)}, not a positive number"
            )
        return cls(sigmoid=sigmoid, n_columns=n_outputs)

    @property
    def kernel_parameters(self) -> tuple[float, ...]:
        return (self.sigmoid,)

    @property
    def link(self) -> Link:
        return Sigmoid(float(self.sigmoid))

    def check_settings(self) -> None:
        check_sigmoid(self.sigmoid)
        if self.is_unbalance and self.scale_pos_weight != 1.0:
            raise ParameterError(
                f"is_unbalance=True and scale_pos_weight={self.scale_pos_weight!r}: give one of "
                "the two"
            )

    def for_labels(self, label: F64, comm: Comm) -> Objective:
        if label.ndim == 2 and (self.is_unbalance or self.scale_pos_weight != 1.0):
            raise ParameterError(
                "is_unbalance and scale_pos_weight have no meaning for a label of several columns"
            )
        found = super().for_labels(label, comm)
        if not self.is_unbalance:
            return found
        counts = np.array([(label == 0.0).sum(), (label == 1.0).sum()], dtype=np.int64)
        n_negative, n_positive = comm.allreduce_sum(counts).tolist()
        ratio = n_negative / n_positive if n_negative and n_positive else 1.0
        return replace(self, scale_pos_weight=ratio)

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

    def derivatives(self, scores: F64, label: F64, tables: Tables) -> tuple[F64, F64]:
        p = numpy_sigmoid(self.sigmoid * scores)
        return self.sigmoid * (p - label), ((self.sigmoid * self.sigmoid) * p) * (1.0 - p)


def log_odds(p: F64) -> F64:
    """A class that is absent gets a very small, not a zero, probability."""
    p = np.clip(p, 1e-15, 1.0 - 1e-15)
    return exact_log(p / (1.0 - p))


@dataclass(frozen=True)
class CrossEntropy(Objective):
    """Labels are probabilities, 0 to 1; the score is the log odds."""

    name = "cross_entropy"
    synonyms = ("xentropy", "reg:logistic", "CrossEntropy")
    family = "elementwise"
    kernel = "logistic"
    peers = {"lightgbm": "cross_entropy", "xgboost": "reg:logistic"}  # noqa: RUF012
    default_metric = "cross_entropy"
    predicts = "probability"
    takes_columns = True

    @property
    def kernel_parameters(self) -> tuple[float, ...]:
        return (1.0,)

    @property
    def link(self) -> Link:
        return Sigmoid()

    def check_labels(self, label: F64) -> None:
        self.require_labels((label >= 0.0) & (label <= 1.0), label, "labels between 0 and 1")

    def base_score(self, label: F64, weight: F32 | None, comm: Comm) -> F64:
        return log_odds(label_mean(label, weight, comm))

    def derivatives(self, scores: F64, label: F64, tables: Tables) -> tuple[F64, F64]:
        p = numpy_sigmoid(scores)
        return p - label, p * (1.0 - p)


@dataclass(frozen=True)
class Focal(_TwoClasses):
    """The logistic loss, faded by (1 - p)^focal_gamma for rows that are already right."""

    name = "focal"
    synonyms = ("focal_loss", "binary:focal", "Focal")
    kernel = "focal"

    focal_gamma: float = 2.0
    focal_alpha: float = 0.25

    @property
    def kernel_parameters(self) -> tuple[float, ...]:
        return (self.focal_gamma, self.focal_alpha, 1.0 - self.focal_alpha)

    def check_settings(self) -> None:
        check_level("focal_alpha", self.focal_alpha)
        if self.focal_gamma > 100.0:
            raise ParameterError(f"focal_gamma={self.focal_gamma!r}: must be at most 100")

    def derivatives(self, scores: F64, label: F64, tables: Tables) -> tuple[F64, F64]:
        positive = label > 0.0
        signed = np.where(positive, scores, -scores)
        p, q = numpy_sigmoid(signed), numpy_sigmoid(-signed)
        fade = numpy_exp(self.focal_gamma * numpy_log(q))
        surprise = (self.focal_gamma * p) * numpy_log(p)
        weight = np.where(positive, self.focal_alpha, 1.0 - self.focal_alpha)
        size = (weight * fade) * (q - surprise)
        return np.where(positive, -size, size), size * p
