"""Links: what the scores of a row mean.

Receives scores (n_rows, n_outputs); returns predictions, (n_rows,) or (n_rows, n_outputs). The GPU
has the same functions in kernels/cuda/predict.cu, found by `kernel`, with the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.exact_math import exact_exp, exact_log, exact_sigmoid
from bitgrove.errors import ParameterError

F64 = NDArray[np.float64]
# Chosen by `python -m lab defaults`; XGBoost's documentation advises 1 to 10 for rare classes.
USUAL_STEP = 10.0


@dataclass(frozen=True)
class Link:
    """The scores themselves are the predictions."""

    kernel: ClassVar[str | None] = None
    # Is a score a logarithm? Then a step of one, times the slope, multiplies odds by e.
    is_logarithm: ClassVar[bool] = False
    # What other libraries call an objective with this link: of one output, and of several.
    peers: ClassVar[Mapping[str, str]] = {"lightgbm": "regression", "xgboost": "reg:squarederror"}
    peers_of_several: ClassVar[Mapping[str, str]] = {
        "lightgbm": "custom",
        "xgboost": "reg:squarederror",
    }
    slope: float = 1.0

    def predictions(self, scores: F64) -> F64:
        return _flat(scores)

    def score(self, prediction: float) -> float:
        """The score that means this prediction; ParameterError if none does."""
        return prediction

    def step_limit(self, max_delta_step: float | None) -> float:
        """How far a leaf may step, before the learning rate."""
        if max_delta_step is None:
            return USUAL_STEP / self.slope if self.is_logarithm else math.inf
        return max_delta_step or math.inf


def _flat(values: F64) -> F64:
    return values if values.shape[1] > 1 else values[:, 0]


def _no_score(prediction: float, allowed: str) -> ParameterError:
    return ParameterError(f"base_score={prediction!r}: predictions of the objective {allowed}")


class Sigmoid(Link):
    """The probability of the second class: 1 / (1 + exp(-slope * score))."""

    kernel = "sigmoid_scores"
    is_logarithm = True
    peers = {"lightgbm": "binary", "xgboost": "binary:logistic"}  # noqa: RUF012
    peers_of_several = {  # noqa: RUF012
        "lightgbm": "multiclassova",
        "xgboost": "binary:logistic",
    }

    def predictions(self, scores: F64) -> F64:
        return exact_sigmoid(self.slope * _flat(scores))

    def score(self, prediction: float) -> float:
        if not 0.0 < prediction < 1.0:
            raise _no_score(prediction, "lie between 0 and 1")
        return float(exact_log(np.array([prediction / (1.0 - prediction)]))[0]) / self.slope


class Exp(Link):
    """The score is the logarithm of the prediction."""

    kernel = "exp_scores"
    is_logarithm = True
    peers = {"lightgbm": "poisson", "xgboost": "count:poisson"}  # noqa: RUF012
    peers_of_several = {"xgboost": "count:poisson"}  # noqa: RUF012

    def predictions(self, scores: F64) -> F64:
        return exact_exp(_flat(scores))

    def score(self, prediction: float) -> float:
        if not prediction > 0.0:
            raise _no_score(prediction, "are greater than 0")
        return float(exact_log(np.array([prediction]))[0])


class Sorted(Link):
    """Quantiles of one row in ascending order: they cannot cross."""

    kernel = "sort_scores"
    peers: ClassVar[Mapping[str, str]] = {}
    peers_of_several: ClassVar[Mapping[str, str]] = {}

    def predictions(self, scores: F64) -> F64:
        return _flat(np.sort(scores, axis=1))


class Softmax(Link):
    """The probability of each class."""

    kernel = "softmax_scores"
    is_logarithm = True
    peers: ClassVar[Mapping[str, str]] = {}
    peers_of_several = {"lightgbm": "multiclass", "xgboost": "multi:softprob"}  # noqa: RUF012

    def predictions(self, scores: F64) -> F64:
        return _shares(exact_exp(scores - scores.max(axis=1, keepdims=True)))


class OneVsAll(Sigmoid):
    """Each class's probability against the rest, scaled so that they add up to one."""

    kernel = "one_vs_all_scores"
    peers = {}  # noqa: RUF012
    peers_of_several = {"lightgbm": "multiclassova"}  # noqa: RUF012

    def predictions(self, scores: F64) -> F64:
        return _shares(exact_sigmoid(self.slope * scores))


def _shares(parts: F64) -> F64:
    """Each row's parts of their sum, which is added in a fixed order, as in the kernels."""
    total = parts[:, 0].copy()
    for k in range(1, parts.shape[1]):
        total = total + parts[:, k]
    return np.asarray(parts / total[:, None])


IDENTITY = Link()
EXP = Exp()
SORTED = Sorted()
SOFTMAX = Softmax()
