"""What metrics know of a validation set: its rows, and what is the same in every round.

Owns EvalSet (one rank's rows), EvalData (with their predictions) and SetFacts (counts and whole
weights over all ranks). Receives arrays and a Comm. Whole weights are int64 multiples of one power
of two, so small that no sum of them over all ranks reaches 2^61: they can be added in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.fixed_point import fixed_point_sums, to_units
from bitgrove.objectives.ranking import discounts

if TYPE_CHECKING:
    from bitgrove.distributed.comm import Comm
    from bitgrove.objectives.links import Link
    from bitgrove.objectives.metrics.queries import QueryMetric

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
_WHOLE_BITS = 61


class EvalSet(NamedTuple):
    """One rank's part of an evaluation set, and what scores mean there."""

    label: F64  # of each row, or (n_rows, n_outputs)
    weight: NDArray[np.float32] | None  # None: one for every row
    group: I64 | None
    label_gain: F64
    link: Link


@dataclass(frozen=True, eq=False)
class EvalData:
    """One rank's part of an evaluation set; label_gain is the gain of each grade, for ranking."""

    prediction: F64
    label: F64
    weight: F64
    group: I64 | None
    label_gain: F64

    @property
    def n_outputs(self) -> int:
        return 1 if self.prediction.ndim == 1 else self.prediction.shape[1]

    def label_of(self, output: int) -> F64:
        return self.label if self.label.ndim == 1 else self.label[:, output]

    def output(self, output: int) -> EvalData:
        """The rows with one of their outputs alone."""
        prediction = by_row(self.prediction)[:, output]
        label = self.label_of(output)
        return EvalData(prediction, label, self.weight, self.group, self.label_gain)


def by_row(values: F64) -> F64:
    """(n_rows, n): what has one number per row as a column."""
    return values[:, None] if values.ndim == 1 else values


class Sides(NamedTuple):
    """Whole weights of the rows of each class of one output; zero for those of the other."""

    positive: I64
    negative: I64


class QueryTables(NamedTuple):
    """What a metric of queries reads: a relevance per row, a discount per rank, a best per query"""

    relevance: F64
    offset: I64  # of each query's first row, and the end
    discount: F64
    best: F64


class SetFacts:
    """What does not change while a model grows; the ranks make one together."""

    def __init__(
        self, label: F64, weight: F64, group: I64 | None, label_gain: F64, comm: Comm
    ) -> None:
        self.label, self.weight, self.group, self.comm = label, weight, group, comm
        self.label_gain = label_gain
        n_queries = 0 if group is None else len(group)
        counts = comm.allreduce_sum(np.array([len(weight), n_queries], dtype=np.int64))
        self.n_rows, self.n_queries = map(int, counts)
        heaviest = comm.allreduce_max(np.array([weight.max(initial=0.0)]))[0]
        _, exponent = np.frexp(heaviest)
        self.unit = _WHOLE_BITS - int(exponent) - self.n_rows.bit_length()
        self.weight_total = float(fixed_point_sums([weight], comm)[0])
        self._sides: dict[int, Sides] = {}
        self._spread: dict[int, float] = {}
        self._queries: dict[str, QueryTables] = {}

    @classmethod
    def of(cls, data: EvalData, comm: Comm) -> SetFacts:
        return cls(data.label, data.weight, data.group, data.label_gain, comm)

    @classmethod
    def of_set(cls, given: EvalSet, comm: Comm) -> SetFacts:
        weight = given.weight
        weights = np.ones(len(given.label)) if weight is None else weight.astype(np.float64)
        return cls(given.label, weights, given.group, given.label_gain, comm)

    def label_of(self, output: int) -> F64:
        return self.label if self.label.ndim == 1 else self.label[:, output]

    @cached_property
    def whole(self) -> I64:
        """The weight of each row as a whole number."""
        return to_units(self.weight, self.unit)

    def sides(self, output: int) -> Sides:
        output = output if self.label.ndim > 1 else 0
        if output not in self._sides:
            is_positive = self.label_of(output) > 0
            parts = (np.where(side, self.whole, 0) for side in (is_positive, ~is_positive))
            self._sides[output] = Sides(*parts)
        return self._sides[output]

    def spread(self, output: int) -> float:
        """The weighted squares around the mean label, over all ranks."""
        output = output if self.label.ndim > 1 else 0
        if output not in self._spread:
            label = self.label_of(output)
            mean = fixed_point_sums([label * self.weight], self.comm)[0] / self.weight_total
            squares = [self.weight * np.square(label - mean)]
            self._spread[output] = float(fixed_point_sums(squares, self.comm)[0])
        return self._spread[output]

    def queries(self, metric: QueryMetric) -> QueryTables:
        if metric.name not in self._queries:
            assert self.group is not None
            relevance = metric.relevance(self.label, self.label_gain)
            offset = np.concatenate([[0], np.cumsum(self.group)]).astype(np.int64)
            best = metric.best(relevance, self.group)
            discount = discounts(int(self.group.max(initial=0)))
            self._queries[metric.name] = QueryTables(relevance, offset, discount, best)
        return self._queries[metric.name]
