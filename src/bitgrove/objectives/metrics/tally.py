"""How metrics get their sums: what they may ask for, and the NumPy way that others must equal.

A metric asks a Tally for sums over the rows of one validation set, and gets promises: functions
that give the sum over all ranks once the round's Ledger is settled. So all metrics of all sets
share two messages between ranks, and one read-back from a device. Every backend's ledger sends the
same messages: ranks may be on different devices.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from bitgrove.arithmetic.fixed_point import sum_in_units, to_float, unit_exponent
from bitgrove.objectives.metrics.facts import F64, I64, EvalData, SetFacts
from bitgrove.objectives.metrics.order import NUMPY_ORDER, OrderSums, range_sums

if TYPE_CHECKING:
    from bitgrove.distributed.comm import Comm
    from bitgrove.objectives.metrics.base import RowMetric
    from bitgrove.objectives.metrics.queries import QueryMetric

T = TypeVar("T")
Promise = Callable[[], T]


class Tally(ABC):
    """Sums over one set's rows; with `output`, of that one alone."""

    def __init__(self, facts: SetFacts, n_outputs: int) -> None:
        self.facts, self.n_outputs = facts, n_outputs
        self._orders: dict[int, Promise[OrderSums]] = {}

    @property
    def has_labels_by_output(self) -> bool:
        return self.facts.label.ndim > 1

    @abstractmethod
    def rows(self, metric: RowMetric, output: int | None = None) -> Promise[float]:
        """Of each row's term times its weight."""

    @abstractmethod
    def pairs(self, output: int | None = None) -> Promise[F64]:
        """Weights of each (true class, predicted class); of one output: no and yes."""

    def order(self, output: int) -> Promise[OrderSums]:
        """What the areas under an output's curves are made of; sorted once for all of them."""
        if output not in self._orders:
            self._orders[output] = self.sum_order(output)
        return self._orders[output]

    @abstractmethod
    def sum_order(self, output: int) -> Promise[OrderSums]:
        """See order."""

    @abstractmethod
    def queries(self, metric: QueryMetric) -> Promise[float]:
        """Of the value of each query."""


class Ledger:
    """The sums of a round. Terms are in host memory; other backends keep them elsewhere."""

    def __init__(self, comm: Comm) -> None:
        self.comm = comm
        self._tops: list[float] = []
        self._n_values: list[int] = []
        self._terms: list[F64] = []
        self._whole: list[I64] = []
        self._bounds = np.zeros(0)
        self._totals = np.zeros(0, dtype=np.int64)

    def add_terms(self, values: F64, n_values: int, top: float | None = None) -> Promise[float]:
        """The sum of terms over all ranks, which have n_values; top: their largest magnitude."""
        self._terms.append(values)
        if top is None:
            top = max(values.max(initial=0.0), -values.min(initial=0.0))
        return self._promise_terms(float(top), n_values)

    def _promise_terms(self, top: float, n_values: int) -> Promise[float]:
        at = len(self._tops)
        self._tops.append(top)
        self._n_values.append(n_values)

        def total() -> float:
            bound = float(self._bounds[at])
            if not math.isfinite(bound):
                return bound
            return to_float(int(self._totals[at]), unit_exponent(bound, n_values))

        return total

    def add_whole(self, sums: I64) -> Promise[I64]:
        """The sum of whole numbers over all ranks."""
        at = sum(map(len, self._whole))
        self._whole.append(sums)

        def total() -> I64:
            begin = len(self._tops) + at
            return self._totals[begin : begin + len(sums)]

        return total

    @property
    def is_empty(self) -> bool:
        return not self._tops and not self._whole

    def settle(self) -> None:
        """Keeps all promises."""
        if self.is_empty:
            return
        if self._tops:
            self._bounds = self.comm.allreduce_max(np.array(self._tops, dtype=np.float64))
        bounds = zip(self._terms, self._bounds, self._n_values, strict=True)
        sums = [
            self.local_sum(values, unit_exponent(float(bound), n)) if math.isfinite(bound) else 0
            for values, bound, n in bounds
        ]
        local = np.concatenate([np.array(sums, dtype=np.int64), *self._whole])
        self._totals = self.comm.allreduce_sum(local)
        self._terms.clear()

    def local_sum(self, values: F64, exponent: int) -> int:
        return sum_in_units(values, exponent)


class NumpyTally(Tally):
    """In NumPy: plain enough to be checked against the formula."""

    order_maker = NUMPY_ORDER

    def __init__(self, data: EvalData, facts: SetFacts, ledger: Ledger) -> None:
        super().__init__(facts, data.n_outputs)
        self.data, self.ledger = data, ledger

    def rows(self, metric: RowMetric, output: int | None = None) -> Promise[float]:
        data = self.data if output is None else self.data.output(output)
        return self.ledger.add_terms(metric.terms(data) * data.weight, self.facts.n_rows)

    def pairs(self, output: int | None = None) -> Promise[F64]:
        if output is None:
            n_classes, found = self.n_outputs, self.data.prediction.argmax(axis=1)
            cell = n_classes * self.data.label.astype(np.int64) + found
        else:
            n_classes, one = 2, self.data.output(output)
            cell = 2 * (one.label > 0).astype(np.int64) + (one.prediction > 0.5)
        sums = [self.facts.whole[cell == i].sum() for i in range(n_classes**2)]
        return self.promise_pairs(np.array(sums, dtype=np.int64), n_classes)

    def promise_pairs(self, sums: I64, n_classes: int) -> Promise[F64]:
        total = self.ledger.add_whole(sums)
        return lambda: pair_weights(total(), n_classes, self.facts)

    def sum_order(self, output: int) -> Promise[OrderSums]:
        prediction = np.ascontiguousarray(self.data.output(output).prediction)
        sides, comm = self.facts.sides(output), self.facts.comm
        total = self.ledger.add_whole(range_sums(prediction, *sides, comm, self.order_maker))
        return lambda: OrderSums.of(total())

    def queries(self, metric: QueryMetric) -> Promise[float]:
        return self.ledger.add_terms(metric.of_queries(self.data), self.facts.n_queries)


def pair_weights(sums: I64, n_classes: int, facts: SetFacts) -> F64:
    weights = [to_float(int(total), facts.unit) for total in sums]
    return np.array(weights).reshape(n_classes, n_classes)
