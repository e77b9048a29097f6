"""Counts and amounts: losses whose score is the logarithm of the mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bitgrove.arithmetic.exact_math import exact_exp, exact_log, numpy_exp
from bitgrove.arithmetic.fixed_point import fixed_point_sums
from bitgrove.errors import ParameterError
from bitgrove.objectives.base import F32, F64, Objective, Tables, label_mean
from bitgrove.objectives.links import EXP, Link

if TYPE_CHECKING:
    from bitgrove.distributed.comm import Comm

# Where all labels are zero the mean is very small, not zero.
_LEAST_MEAN = 1e-15
# Labels above zero that a leaf counts as if it had seen them at its mean, where the rest are zero.
_UNSEEN_EVENTS = 10.0


class _LogMean(Objective):
    family = "elementwise"
    predicts = "value"
    takes_columns = True

    @property
    def link(self) -> Link:
        return EXP

    def check_labels(self, label: F64) -> None:
        self.require_labels(label >= 0.0, label, "labels of at least 0")

    def base_score(self, label: F64, weight: F32 | None, comm: Comm) -> F64:
        return exact_log(np.maximum(label_mean(label, weight, comm), _LEAST_MEAN))

    def penalty(self, label: F64, weight: F32 | None, comm: Comm) -> float:
        """Without one the mean of a small node, where no label is above zero, goes to zero tree by
        tree. So each has _UNSEEN_EVENTS more, as far as labels are zero; of columns the least."""
        columns = [label] if label.ndim == 1 else list(label.T)
        return min(self._penalty(column, weight, comm) for column in columns)

    def _penalty(self, label: F64, weight: F32 | None, comm: Comm) -> float:
        """An event has its share of all rows' hessians at the mean."""
        sizes = np.array([np.count_nonzero(label), len(label)], dtype=np.int64)
        n_events, n_rows = map(int, comm.allreduce_sum(sizes))
        if n_events in (0, n_rows):
            return 0.0
        weights = np.ones(len(label)) if weight is None else weight.astype(np.float64)
        mean = label_mean(label, weight, comm)
        hess = fixed_point_sums([weights], comm) * self.derivatives(exact_log(mean), mean, ())[1]
        return _UNSEEN_EVENTS * float(hess[0]) * (1.0 / n_events - 1.0 / n_rows)


@dataclass(frozen=True)
class Poisson(_LogMean):
    """Counts. `poisson_max_delta_step` raises the hessian against steps that overshoot."""

    name = "poisson"
    synonyms = ("count:poisson", "Poisson")
    kernel = "poisson"
    default_metric = "poisson"

    poisson_max_delta_step: float = 0.7

    @property
    def kernel_parameters(self) -> tuple[float, ...]:
        return (float(exact_exp(np.array([self.poisson_max_delta_step]))[0]),)

    def check_settings(self) -> None:
        if self.poisson_max_delta_step > 50.0:
            raise ParameterError(
                f"poisson_max_delta_step={self.poisson_max_delta_step!r}: must be at most 50"
            )

    def derivatives(self, scores: F64, label: F64, tables: Tables) -> tuple[F64, F64]:
        mean = numpy_exp(scores)
        return mean - label, mean * self.kernel_parameters[0]


@dataclass(frozen=True)
class Gamma(_LogMean):
    """Positive amounts with a constant relative spread."""

    name = "gamma"
    synonyms = ("reg:gamma",)
    kernel = "gamma"
    peers = {"lightgbm": "gamma", "xgboost": "reg:gamma"}  # noqa: RUF012
    default_metric = "gamma"

    def check_labels(self, label: F64) -> None:
        self.require_labels(label > 0.0, label, "labels greater than 0")

    def derivatives(self, scores: F64, label: F64, tables: Tables) -> tuple[F64, F64]:
        ratio = label * numpy_exp(-scores)
        return 1.0 - ratio, ratio


@dataclass(frozen=True)
class Tweedie(_LogMean):
    """Amounts that are often exactly zero; between Poisson (power 1) and gamma (2)."""

    name = "tweedie"
    synonyms = ("reg:tweedie", "Tweedie")
    spellings = {"variance_power": "tweedie_variance_power"}  # noqa: RUF012
    kernel = "tweedie"
    peers = {"lightgbm": "tweedie", "xgboost": "reg:tweedie"}  # noqa: RUF012
    default_metric = "tweedie"

    tweedie_variance_power: float = 1.5

    @property
    def kernel_parameters(self) -> tuple[float, ...]:
        return (1.0 - self.tweedie_variance_power, 2.0 - self.tweedie_variance_power)

    def check_settings(self) -> None:
        check_power(self.tweedie_variance_power)

    def derivatives(self, scores: F64, label: F64, tables: Tables) -> tuple[F64, F64]:
        first, second = self.kernel_parameters
        a, b = label * numpy_exp(first * scores), numpy_exp(second * scores)
        return b - a, second * b - first * a


def check_power(power: float) -> None:
    if not 1.0 < power < 2.0:
        raise ParameterError(
            f"tweedie_variance_power={power!r}: must be greater than 1 and less than 2"
        )
