"""What a metric is, and the registry of all of them.

Owns Metric, METRICS (by name) and SYNONYMS (other spellings). A metric asks a Tally for sums over
rows and says what they mean: one float that is the same everywhere, so that early stopping is too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from bitgrove.objectives.base import OBJECTIVES, Objective, Prediction
from bitgrove.objectives.metrics.facts import F64, EvalData, EvalSet, SetFacts
from bitgrove.objectives.metrics.tally import Ledger, NumpyTally, Promise, Tally
from bitgrove.objectives.written import check_settings_of, name_and_settings

if TYPE_CHECKING:
    from typing_extensions import Self

    from bitgrove.distributed.comm import Comm


class Metric:
    """A judgement of predictions. Sums over rows are integer counts or in fixed point.

    One with an `argument` (its name in messages) is written `name@argument`, too, or as CatBoost
    has it: `Name:argument=value`.
    """

    base_name: ClassVar[str]
    synonyms: ClassVar[tuple[str, ...]] = ()
    judges: ClassVar[tuple[Prediction, ...]]  # every objective that predicts one of these
    higher_is_better: ClassVar[bool] = False
    argument: ClassVar[str | None] = None
    argument_synonyms: ClassVar[tuple[str, ...]] = ()
    needs: ClassVar[str] = "rows"  # see evidence

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

    def evidence(self, given: EvalSet) -> NDArray[np.bool_]:
        """Which of its needs this rank's rows meet. Where no rank's meet one of them, its value is
        the same whatever is predicted."""
        return np.zeros(0, dtype=np.bool_)

    def judge(self, tally: Tally) -> Promise[float]:
        """Its value, made of sums that the tally promises."""
        raise NotImplementedError

    def compute(self, data: EvalData, comm: Comm) -> float:
        """Its value in NumPy, at once."""
        ledger = Ledger(comm)
        value = self.judge(NumpyTally(data, SetFacts.of(data, comm), ledger))
        ledger.settle()
        return value()


class RowMetric(Metric):
    """The weighted mean of a term of each row; of several outputs, the mean of theirs.

    kernel: the struct of kernels/shared/metrics.h with the same term; None: it is made in NumPy.
    """

    kernel: ClassVar[str | None] = None
    class_kernel: ClassVar[str | None] = None  # where one label says which output is the true one

    def kernel_for(self, n_outputs: int, has_labels_by_output: bool) -> str | None:
        one_of_many = n_outputs > 1 and not has_labels_by_output
        return self.class_kernel if one_of_many and self.class_kernel else self.kernel

    def settings(self, n_outputs: int) -> tuple[float, ...]:
        """What its kernel reads beside prediction and label: a number for each output."""
        return (0.0,) * n_outputs

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

    def judge(self, tally: Tally) -> Promise[float]:
        total = tally.rows(self)
        return lambda: self.of_mean(total() / tally.facts.weight_total)


def mean_of_outputs(terms: Sequence[F64]) -> F64:
    """Added in the order of outputs: the same bits whatever the memory looks like."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return np.asarray(total / len(terms))


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


def own_name(text: str) -> str:
    """A synonym as the name, name:setting=value as name@value; other text as it is."""
    name, settings = name_and_settings(text)
    name = SYNONYMS.get(name, name)
    if name not in METRICS or not settings:
        return name
    metric = METRICS[name]
    known = [metric.argument, *metric.argument_synonyms] if metric.argument else []
    check_settings_of(f"metric {text!r}", name, settings, known)
    return f"{name}@{[*settings.values()][-1]}"


def make_metric(name: str) -> Metric:
    """The metric of a name, a synonym or a name@argument; KeyError if there is none."""
    base, at, argument = own_name(name).partition("@")
    metric = METRICS[SYNONYMS.get(base, base)]
    return metric.with_argument(argument) if at else metric()


def judged_by(metric: Metric) -> tuple[str, ...]:
    """Names of the objectives whose predictions the metric can judge."""
    return tuple(n for n, objective in OBJECTIVES.items() if objective.predicts in metric.judges)
