"""Validation sets judged on the GPU: predictions, terms and sums stay there.

Owns CudaPanel. Per round one small array of sums comes back, for all metrics of all sets; over
ranks also the largest terms, before the sums. The kernels are kernels/cuda/metrics.cu.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.arithmetic.fixed_point import value_bits
from bitgrove.backends.cuda.device import Device, blocks_of, on_device
from bitgrove.backends.cuda.memory import address_of
from bitgrove.backends.cuda.order import sort_and_sum
from bitgrove.backends.panel import CoreTally, HostPanel
from bitgrove.distributed.comm import Comm
from bitgrove.objectives.metrics import EvalData, EvalSet, Ledger, Metric, NumpyTally, SetFacts
from bitgrove.objectives.metrics.base import RowMetric
from bitgrove.objectives.metrics.facts import by_row
from bitgrove.objectives.metrics.order import OrderSums
from bitgrove.objectives.metrics.queries import QueryMetric
from bitgrove.objectives.metrics.tally import Promise, Tally, pair_weights

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
_WARP = 32
# Told where on the device its result goes.
Job = Callable[[int], None]


class CudaSet:
    """What a set's metrics read in every round, sent to the device when it is first wanted."""

    def __init__(self, device: Device, given: EvalSet, facts: SetFacts) -> None:
        self.device, self.given, self.facts = device, given, facts
        self.n_rows = len(given.label)
        self._kept: dict[Any, Any] = {}

    def kept(self, key: Any, make: Callable[[], NDArray[Any]]) -> Any:
        if key not in self._kept:
            self._kept[key] = self.device.memory.upload(make())
        return self._kept[key]

    def kept_all(self, name: str, tables: tuple[NDArray[Any], ...]) -> list[Any]:
        return [
            self.kept(f"{name} {i}", partial(np.asarray, table)) for i, table in enumerate(tables)
        ]

    @property
    def label(self) -> Any:
        return self.kept("label", lambda: by_row(self.given.label))

    @property
    def weight(self) -> Any:
        return None if self.given.weight is None else self.kept("weight", lambda: self.facts.weight)

    def predictions(self, scores: Any) -> Any:
        """(n_rows, n_outputs): what the link makes of the scores."""
        n_outputs, device, link = len(scores), self.device, self.given.link
        if link.kernel is None and n_outputs == 1:
            return scores.T
        found = device.memory.empty((self.n_rows, n_outputs), np.float64)
        where, sizes = address_of(found), (self.n_rows, n_outputs)
        grid = (blocks_of(self.n_rows), 1)
        device.launch("metrics", "scores_by_row", grid, address_of(scores), *sizes, where)
        if link.kernel is not None:
            device.launch("predict", link.kernel, grid, where, *sizes, float(link.slope))
        return found


class CudaPanel:
    """how: threads and instruction set of the host, for what ranks do there."""

    def __init__(
        self, device: Device, sets: Sequence[EvalSet], comm: Comm, how: tuple[int, int]
    ) -> None:
        self.device, self._comm, self._how = device, comm, how
        self._host = HostPanel(sets, comm, device.cupy.asnumpy, how)
        facts = self._host.facts
        self._sets = [CudaSet(device, s, f) for s, f in zip(sets, facts, strict=True)]

    @on_device
    def host_data(self, number: int, scores: Any) -> EvalData:
        return self._host.host_data(number, scores)

    @on_device
    def judge(self, metrics: Sequence[Metric], scores: Sequence[Any]) -> list[list[float]]:
        ledger, promises = CudaLedger(self.device, self._comm), []
        for number, (own, of_set) in enumerate(zip(self._sets, scores, strict=True)):
            host = partial(self._host_tally, number, of_set, ledger)
            tally = CudaTally(own, own.predictions(of_set), ledger, host)
            promises.append([metric.judge(tally) for metric in metrics])
        ledger.settle()
        return [[value() for value in of_set] for of_set in promises]

    def _host_tally(self, number: int, scores: Any, ledger: Ledger) -> CoreTally:
        data = self._host.host_data(number, scores)
        return CoreTally(NumpyTally(data, self._host.facts[number], ledger), *self._how)


class CudaLedger(Ledger):
    """Terms and sums are made on the device when the ledger is settled."""

    def __init__(self, device: Device, comm: Comm) -> None:
        super().__init__(comm)
        self.device = device
        self._term_jobs: list[tuple[Any, Job]] = []  # an array, and what fills it and its top
        self._sum_jobs: list[tuple[int, Job]] = []  # among whole sums: the place of the first

    def terms(
        self, n_terms: int, n_values: int, fill: Callable[[int, int], None]
    ) -> Promise[float]:
        """fill(array, top) writes this rank's terms and their largest magnitude."""
        values = self.device.memory.empty(n_terms, np.float64)
        self._term_jobs.append((values, lambda top: fill(address_of(values), top)))
        return self._promise_terms(0.0, n_values)

    def add_terms(self, values: F64, n_values: int, top: float | None = None) -> Promise[float]:
        """Terms from the host."""
        device, sent = self.device, self.device.memory.upload(values)

        def fill(top: int) -> None:
            grid = device.grid(len(values))
            device.launch("metrics", "largest_term", grid, address_of(sent), len(values), top)

        self._term_jobs.append((sent, fill))
        return self._promise_terms(0.0, n_values)

    def whole(self, n_sums: int, job: Job) -> Promise[I64]:
        """Whole numbers that the device adds to zeros."""
        self._sum_jobs.append((sum(map(len, self._whole)), job))
        return self.add_whole(np.zeros(n_sums, dtype=np.int64))

    def settle(self) -> None:
        if self.is_empty:
            return
        n_tops, mailbox = len(self._tops), self.device.mailbox
        sums = np.concatenate([np.zeros(n_tops, dtype=np.int64), *self._whole])
        tops = np.zeros(n_tops, dtype=np.int64)
        is_solo = self.comm.size == 1
        if n_tops and not is_solo:
            (tops_at,) = mailbox.send(tops)
            self._fill_terms(tops_at)
            tops = mailbox.fetch(tops_at, tops.shape, np.int64)
            tops = self.comm.allreduce_max(tops.view(np.float64)).view(np.int64)
        (tops_at,) = mailbox.send(np.concatenate([tops, sums]))
        if is_solo:
            self._fill_terms(tops_at)
        self._add_sums(tops_at, tops_at + 8 * n_tops)
        found = mailbox.fetch(tops_at, (n_tops + len(sums),), np.int64)
        self._bounds = found[:n_tops].view(np.float64)
        self._totals = self.comm.allreduce_sum(found[n_tops:])
        self._term_jobs.clear()

    def _fill_terms(self, tops_at: int) -> None:
        for at, (_, fill) in enumerate(self._term_jobs):
            fill(tops_at + 8 * at)

    def _add_sums(self, tops_at: int, sums_at: int) -> None:
        device, n_tops = self.device, len(self._tops)
        for at, (values, _) in enumerate(self._term_jobs):
            terms = (address_of(values), len(values), value_bits(self._n_values[at]))
            places = (tops_at + 8 * at, sums_at + 8 * at)
            device.launch("metrics", "sum_in_units", device.grid(len(values)), *terms, *places)
        for at, job in self._sum_jobs:
            job(sums_at + 8 * (n_tops + at))


class CudaTally(Tally):
    """One set in one round; host() makes the tally of a copy on the host."""

    def __init__(
        self, own: CudaSet, prediction: Any, ledger: CudaLedger, host: Callable[[], CoreTally]
    ) -> None:
        super().__init__(own.facts, prediction.shape[1])
        self._set, self._prediction, self._ledger = own, prediction, ledger
        self._device, self._make_host = own.device, host
        self._host: CoreTally | None = None

    def _on_host(self) -> CoreTally:
        self._host = self._host or self._make_host()
        return self._host

    def _rows(self, output: int | None) -> tuple[int, ...]:
        """Numbers of outputs and labels, the outputs that count, and the number of rows."""
        outputs = (0, self.n_outputs) if output is None else (output, output + 1)
        return (self.n_outputs, self._set.label.shape[1], *outputs, self._set.n_rows)

    def rows(self, metric: RowMetric, output: int | None = None) -> Promise[float]:
        kernel = metric.kernel_for(self.n_outputs, self.has_labels_by_output)
        if kernel is None:
            return self._on_host().rows(metric, output)
        settings = metric.settings(self.n_outputs)
        setting = self._set.kept(settings, lambda: np.array(settings))
        arrays = (self._prediction, self._set.label, setting, self._set.weight)
        args = (*map(address_of, arrays), *self._rows(output))
        grid, device = self._device.grid(self._set.n_rows), self._device

        def fill(values: int, top: int) -> None:
            device.launch("metrics", f"{kernel}_terms", grid, *args, values, top)

        return self._ledger.terms(self._set.n_rows, self.facts.n_rows, fill)

    def pairs(self, output: int | None = None) -> Promise[F64]:
        n_classes = self.n_outputs if output is None else 2
        whole = self._set.kept("whole", lambda: self.facts.whole)
        arrays = map(address_of, (self._prediction, self._set.label, whole))
        args = (*arrays, *self._rows(output), n_classes**2)
        grid, device = self._device.grid(self._set.n_rows), self._device

        def job(sums: int) -> None:
            device.launch("metrics", "cell_sums", grid, *args, sums)

        total = self._ledger.whole(n_classes**2, job)
        return lambda: pair_weights(total(), n_classes, self.facts)

    def sum_order(self, output: int) -> Promise[OrderSums]:
        if self.facts.comm.size > 1:  # ranges of predictions travel through the host
            return self._on_host().sum_order(output)
        column = output if self.has_labels_by_output else 0
        sides = self._set.kept_all(f"side {column}", self.facts.sides(column))

        def job(sums: int) -> None:
            sort_and_sum(self._device, self._prediction[:, output:], sides, sums)

        total = self._ledger.whole(_core.N_ORDER_SUMS, job)
        return lambda: OrderSums.of(total())

    def queries(self, metric: QueryMetric) -> Promise[float]:
        tables, device = self.facts.queries(metric), self._device
        sent = self._set.kept_all(metric.name, tables)
        n_queries = len(tables.best)
        args = (*map(address_of, (self._prediction, *sent)), n_queries, metric.k)
        grid = (blocks_of(n_queries * _WARP), 1)

        def fill(values: int, top: int) -> None:
            device.launch("metrics", f"{metric.kernel}_of_queries", grid, *args, values, top)

        return self._ledger.terms(n_queries, self.facts.n_queries, fill)
