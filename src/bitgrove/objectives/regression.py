"""Values: the squared error, and losses that grow more slowly or unevenly.

Their leaves are Newton steps; losses whose leaves are quantiles are in quantiles.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bitgrove.arithmetic.exact_math import numpy_exp
from bitgrove.arithmetic.fixed_point import fixed_point_sums
from bitgrove.arithmetic.selection import weighted_quantile
from bitgrove.objectives.base import F32, F64, Objective, Tables, check_level, label_mean

if TYPE_CHECKING:
    from bitgrove.distributed.comm import Comm

_EXPECTILE_STEPS = 64
_LEAST_GAP = 1e-4  # below it LogCosh's slope cannot be divided by the gap


class Values(Objective):
    """Any labels, one or several columns; the score is the value itself."""

    family = "elementwise"
    predicts = "value"
    takes_columns = True


@dataclass(frozen=True)
class Regression(Values):
    """The squared error."""

    name = "regression"
    synonyms = (
        "regression_l2", "l2", "mse", "rmse", "l2_root", "root_mean_squared_error",
        "mean_squared_error", "squared_error", "reg:squarederror", "reg:linear", "RMSE",
    )  # fmt: skip
    kernel = "squared"
    default_metric = "rmse"
    unit_hessian = True

    def base_score(self, label: F64, weight: F32 | None, comm: Comm) -> F64:
        return label_mean(label, weight, comm)

    def derivatives(self, scores: F64, label: F64, tables: Tables) -> tuple[F64, F64]:
        return scores - label, np.ones_like(scores)


class _Robust(Values):
    """A loss that few far labels do not decide: training starts at the median.

    Far from the label its own curvature is nearly zero, and a step by it goes anywhere. The hessian
    is slope / gap instead, that of the parabola that lies on the loss: its steps never go too far.
    """

    def base_score(self, label: F64, weight: F32 | None, comm: Comm) -> F64:
        return np.array([weighted_quantile(label, weight, 0.5, comm)])


@dataclass(frozen=True)
class Huber(_Robust):
    """A square near the label, a line from `huber_delta` on."""

    name = "huber"
    synonyms = ("regression_huber", "huber_loss", "Huber")
    spellings = {"alpha": "huber_delta", "delta": "huber_delta"}  # noqa: RUF012
    kernel = "huber"
    peers = {"lightgbm": "huber", "xgboost": "reg:squarederror"}  # noqa: RUF012
    default_metric = "huber"

    huber_delta: float = 0.9

    @property
    def kernel_parameters(self) -> tuple[float, ...]:
        return (self.huber_delta,)

    def derivatives(self, scores: F64, label: F64, tables: Tables) -> tuple[F64, F64]:
        gap, delta = scores - label, self.huber_delta
        far = np.abs(gap)
        size = np.minimum(far, delta)
        hess = np.where(far < delta, 1.0, delta / np.maximum(far, delta))
        return np.where(gap < 0.0, -size, size), hess


@dataclass(frozen=True)
class PseudoHuber(_Robust):
    """A smooth Huber loss."""

    name = "pseudo_huber"
    synonyms = ("reg:pseudohubererror", "pseudohuber", "mphe")
    kernel = "pseudo_huber"
    peers = {"lightgbm": "huber", "xgboost": "reg:pseudohubererror"}  # noqa: RUF012
    default_metric = "mae"

    huber_delta: float = 0.9

    @property
    def kernel_parameters(self) -> tuple[float, ...]:
        return (self.huber_delta,)

    def derivatives(self, scores: F64, label: F64, tables: Tables) -> tuple[F64, F64]:
        gap = scores - label
        ratio = gap / self.huber_delta
        root = np.sqrt(1.0 + ratio * ratio)
        return gap / root, 1.0 / root


@dataclass(frozen=True)
class Fair(_Robust):
    """c^2 (|gap| / c - log(1 + |gap| / c))."""

    name = "fair"
    synonyms = ("regression_fair",)
    kernel = "fair"
    peers = {"lightgbm": "fair", "xgboost": "reg:squarederror"}  # noqa: RUF012
    default_metric = "fair"

    fair_c: float = 1.0

    @property
    def kernel_parameters(self) -> tuple[float, ...]:
        return (self.fair_c,)

    def derivatives(self, scores: F64, label: F64, tables: Tables) -> tuple[F64, F64]:
        gap, c = scores - label, self.fair_c
        total = np.abs(gap) + c
        return (c * gap) / total, c / total


@dataclass(frozen=True)
class LogCosh(_Robust):
    """log(cosh(gap)): a square near the label, a line far from it."""

    name = "log_cosh"
    synonyms = ("logcosh", "reg:logcosh", "LogCosh")
    kernel = "log_cosh"
    default_metric = "mae"

    def derivatives(self, scores: F64, label: F64, tables: Tables) -> tuple[F64, F64]:
        gap = scores - label
        far = np.abs(gap)
        power = numpy_exp(-2.0 * far)
        size = (1.0 - power) / (1.0 + power)
        curve = np.where(far < _LEAST_GAP, 1.0, size / np.maximum(far, _LEAST_GAP))
        return np.where(gap < 0.0, -size, size), curve


@dataclass(frozen=True)
class Expectile(Values):
    """A square whose two sides weigh expectile_alpha (above the score) and one minus it."""

    name = "expectile"
    synonyms = ("reg:expectileerror",)
    spellings = {"alpha": "expectile_alpha"}  # noqa: RUF012
    shorthands = {"Expectile": {"expectile_alpha": 0.5}}  # noqa: RUF012
    kernel = "expectile"
    default_metric = "expectile"

    expectile_alpha: float = 0.9

    @property
    def kernel_parameters(self) -> tuple[float, ...]:
        return (self.expectile_alpha,)

    def check_settings(self) -> None:
        check_level("expectile_alpha", self.expectile_alpha)

    def base_score(self, label: F64, weight: F32 | None, comm: Comm) -> F64:
        """The mean whose weights depend on the side of it: repeated until it stays."""
        weights = np.ones(len(label)) if weight is None else weight.astype(np.float64)
        mean, level = float(label_mean(label, weight, comm)[0]), self.expectile_alpha
        for _ in range(_EXPECTILE_STEPS):
            sided = np.where(label > mean, level, 1.0 - level) * weights
            total, of_weights = fixed_point_sums([label * sided, sided], comm)
            if total / of_weights == mean:
                break
            mean = total / of_weights
        return np.array([mean])

    def derivatives(self, scores: F64, label: F64, tables: Tables) -> tuple[F64, F64]:
        gap = scores - label
        side = np.where(gap >= 0.0, 1.0 - self.expectile_alpha, self.expectile_alpha)
        return (2.0 * side) * gap, 2.0 * side
