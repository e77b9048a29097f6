"""What a metric is, and the registry of all of them.

Owns Metric, METRICS (by name), SYNONYMS (other spellings) and EvalData. Receives predictions,
labels, weights and query sizes of this rank and a Comm; returns one float that is the same
everywhere, so that early stopping is too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.fixed_point import fixed_point_sums
from bitgrove.objectives.base import OBJECTIVES, Prediction

if TYPE_CHECKING:
    from bitgrove.distributed.comm import Comm

F64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EvalData:
    """One rank's part of an evaluation set; label_gain is the gain of each grade, for ranking."""

    prediction: F64
    label: F64
    weight: F64
    group: NDArray[np.int64] | None
    label_gain: F64


class Metric:
    """A judgement of predictions. Sums over rows are integer counts or in fixed point.

    One that `takes_rank` has a subclass with a field k and is written `name@k`.
    """

    base_name: ClassVar[str]
    synonyms: ClassVar[tuple[str, ...]] = ()
    judges: ClassVar[Prediction]  # every objective that predicts this
    higher_is_better: ClassVar[bool] = False
    takes_rank: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return self.base_name

    def compute(self, data: EvalData, comm: Comm) -> float:
        raise NotImplementedError


class RowMetric(Metric):
    """The weighted mean of a term of each row."""

    def term(self, data: EvalData) -> F64:
        raise NotImplementedError

    def of_mean(self, mean: float) -> float:
        return mean

    def compute(self, data: EvalData, comm: Comm) -> float:
        return self.of_mean(weighted_mean(self.term(data), data.weight, comm))


def weighted_mean(values: F64, weight: F64, comm: Comm) -> float:
    total, weights = fixed_point_sums([values * weight, weight], comm)
    return float(total / weights)


METRICS: dict[str, type[Metric]] = {}
SYNONYMS: dict[str, str] = {}
AnyMetric = TypeVar("AnyMetric", bound=type[Metric])


def register(metric: AnyMetric) -> AnyMetric:
    """Makes a metric known to parameters, training and documentation."""
    taken = [n for n in (metric.base_name, *metric.synonyms) if n in METRICS or n in SYNONYMS]
    if taken:
        raise ValueError(f"metric {metric.base_name!r}: {taken[0]!r} is taken")
    METRICS[metric.base_name] = metric
    SYNONYMS.update(dict.fromkeys(metric.synonyms, metric.base_name))
    return metric


def make_metric(name: str) -> Metric:
    """The metric of a name, a synonym or a name@k; KeyError if there is none."""
    base, at, k = SYNONYMS.get(name, name).partition("@")
    metric = METRICS[base]
    if not at:
        return metric()
    if not (metric.takes_rank and k.isascii() and k.isdecimal() and k[0] != "0"):
        raise KeyError(name)
    return metric(int(k))  # type: ignore[call-arg]


def judged_by(metric: Metric) -> tuple[str, ...]:
    """Names of the objectives whose predictions the metric can judge."""
    return tuple(n for n, objective in OBJECTIVES.items() if objective.predicts == metric.judges)
