"""Validation sets and their judges; in host memory by NumPy, or by the threads of the core.

Owns Panel (what every backend has), HostPanel, and the core's way of making the sums that metrics
ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.distributed.comm import Comm
from bitgrove.objectives.metrics import (
    EvalData,
    EvalSet,
    Ledger,
    Metric,
    NumpyTally,
    SetFacts,
)
from bitgrove.objectives.metrics.base import RowMetric
from bitgrove.objectives.metrics.facts import by_row
from bitgrove.objectives.metrics.order import core_order
from bitgrove.objectives.metrics.queries import QueryMetric
from bitgrove.objectives.metrics.tally import Promise

F64 = NDArray[np.float64]


class Panel(Protocol):
    """Judges the validation sets of a training, round by round."""

    def judge(self, metrics: Sequence[Metric], scores: Sequence[Any]) -> list[list[float]]:
        """The value of each metric on each set, from the sets' scores on the backend."""

    def host_data(self, number: int, scores: Any) -> EvalData:
        """A set with its predictions in host memory, for functions of the user's."""


class HostPanel:
    """With `how` (threads, instruction set), sums are the core's; without, NumPy's."""

    def __init__(
        self,
        sets: Sequence[EvalSet],
        comm: Comm,
        download: Callable[[Any], NDArray[Any]],
        how: tuple[int, int] | None = None,
    ) -> None:
        self._sets, self._comm, self._download, self._how = sets, comm, download, how
        self.facts = [SetFacts.of_set(given, comm) for given in sets]

    def host_data(self, number: int, scores: Any) -> EvalData:
        given, facts = self._sets[number], self.facts[number]
        by_row = np.ascontiguousarray(self._download(scores).T)
        prediction = given.link.predictions(by_row)
        return EvalData(prediction, given.label, facts.weight, given.group, given.label_gain)

    def judge(self, metrics: Sequence[Metric], scores: Sequence[Any]) -> list[list[float]]:
        ledger = Ledger(self._comm) if self._how is None else CoreLedger(self._comm, *self._how)
        promises = []
        for number, of_set in enumerate(scores):
            data, facts = self.host_data(number, of_set), self.facts[number]
            numpy_tally = NumpyTally(data, facts, ledger)
            tally = numpy_tally if self._how is None else CoreTally(numpy_tally, *self._how)
            promises.append([metric.judge(tally) for metric in metrics])
        ledger.settle()
        return [[value() for value in of_set] for of_set in promises]


class CoreLedger(Ledger):
    def __init__(self, comm: Comm, n_threads: int, simd: int) -> None:
        super().__init__(comm)
        self._how = (n_threads, simd)

    def local_sum(self, values: F64, exponent: int) -> int:
        return int(_core.sum_in_units(values, exponent, *self._how))


class CoreTally(NumpyTally):
    """By the threads of the core; a metric without a kernel is made in NumPy."""

    def __init__(self, plain: NumpyTally, n_threads: int, simd: int) -> None:
        super().__init__(plain.data, plain.facts, plain.ledger)
        self._n_threads, self._simd = n_threads, simd
        self.order_maker = core_order(n_threads)
        self._prediction = np.ascontiguousarray(by_row(self.data.prediction))
        self._label = np.ascontiguousarray(by_row(self.data.label))

    def rows(self, metric: RowMetric, output: int | None = None) -> Promise[float]:
        kernel = metric.kernel_for(self.n_outputs, self.has_labels_by_output)
        if kernel is None:
            return super().rows(metric, output)
        terms = np.empty(len(self._label))
        top = _core.metric_terms(
            kernel=kernel,
            prediction=self._prediction,
            label=self._label,
            weight=self.facts.weight,
            setting=np.array(metric.settings(self.n_outputs)),
            outputs=self._outputs(output),
            out=terms,
            n_threads=self._n_threads,
            simd=self._simd,
        )
        return self.ledger.add_terms(terms, self.facts.n_rows, top)

    def _outputs(self, output: int | None) -> tuple[int, int]:
        return (0, self.n_outputs) if output is None else (output, output + 1)

    def pairs(self, output: int | None = None) -> Promise[F64]:
        n_classes = self.n_outputs if output is None else 2
        sums = np.empty(n_classes * n_classes, dtype=np.int64)
        rows = (self._prediction, self._label, self.facts.whole)
        _core.cell_sums(*rows, self._outputs(output), sums, self._n_threads)
        return self.promise_pairs(sums, n_classes)

    def queries(self, metric: QueryMetric) -> Promise[float]:
        tables = self.facts.queries(metric)
        values = np.empty(len(tables.best))
        _core.metric_of_queries(
            metric.kernel, self._prediction[:, 0], *tables, metric.k, values, self._n_threads
        )
        return self.ledger.add_terms(values, self.facts.n_queries)
