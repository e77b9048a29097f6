"""What a metric is, and the registry of all of them.

Owns Metric, METRICS (by name), SYNONYMS (other spellings) and EvalData. Receives predictions,
labels, weights and query sizes of this rank and a Comm; returns one float that is the same
everywhere, so that early stopping is too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.fixed_point import fixed_point_sums
from bitgrove.objectives.base import OBJECTIVES, Objective, Prediction

if TYPE_CHECKING:
    from typing_extensions import Self

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

    @property
    def n_outputs(self) -> int:
        return 1 if self.prediction.ndim == 1 else self.prediction.shape[1]

    def label_of(self, output: int) -> F64:
        return self.label if self.label.ndim == 1 else self.label[:, output]


class Metric:
    """A judgement of predictions. Sums over rows are integer counts or in fixed point.

    One with an `argument` (its name in messages) is written `name@argument`, too.
    """

    base_name: ClassVar[str]
    synonyms: ClassVar[tuple[str, ...]] = ()
    judges: ClassVar[tuple[Prediction, ...]]  # every objective that predicts one of these
    higher_is_better: ClassVar[bool] = False
    argument: ClassVar[str | None] = None

    @property
    def name(self) -> str:
        return self.base_name

    @classmethod
    def with_argument(cls, text: str) -> Self:
        """The metric of name@text; KeyError if there is none."""
        raise KeyError(text)

    def for_objective(self, objective: Objective) -> Metric:
        """The metric with the objective's own settings, where none were given."""
        return self

    def compute(self, data: EvalData, comm: Comm) -> float:
        raise NotImplementedError


class RowMetric(Metric):
    """The weighted mean of a term of each row; of several outputs, the mean of theirs."""

    def term(self, prediction: F64, label: F64) -> F64:
        """Of each row of one output."""
        raise NotImplementedError

    def terms(self, data: EvalData) -> F64:
        if data.prediction.ndim == 1:
            return self.term(data.prediction, data.label)
        return mean_of_outputs(
            [self.term(data.prediction[:, k], data.label_of(k)) for k in range(data.n_outputs)]
        )

    def of_mean(self, mean: float) -> float:
        return mean

    def compute(self, data: EvalData, comm: Comm) -> float:
        return self.of_mean(weighted_mean(self.terms(data), data.weight, comm))


def mean_of_outputs(terms: Sequence[F64]) -> F64:
    """Added in the order of outputs: the same bits whatever the memory looks like."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return np.asarray(total / len(terms))


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
    """The metric of a name, a synonym or a name@argument; KeyError if there is none."""
    base, at, argument = name.partition("@")
    metric = METRICS[SYNONYMS.get(base, base)]
    return metric.with_argument(argument) if at else metric()


def judged_by(metric: Metric) -> tuple[str, ...]:
    """Names of the objectives whose predictions the metric can judge."""
    return tuple(n for n, objective in OBJECTIVES.items() if objective.predicts in metric.judges)
