"""Where cells are measured: in this process, or in several at the same time (--jobs).

Receives an experiment, a study and cells; returns what was measured for each, in the order in which
they are done. Each worker loads the data and writes its finished cells itself.
"""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from lab.reporting import machine
from lab.running.experiment import Cell, Experiment, Measured, Result, Store
from lab.running.study import Bench, Study
from lab.systems.lineup import is_peer


class Worker:
    """Measures the cells that are not on disk yet."""

    def __init__(self, experiment: Experiment, study: Study) -> None:
        self.experiment, self.study = experiment, study
        self.store = Store(study.out / experiment.name / "cells")
        self.bench = Bench(study)

    def has(self, cell: Cell) -> bool:
        fingerprint = self.experiment.fingerprint(cell, self.bench)
        return self.store.get(cell, fingerprint) is not None

    def measure(self, cell: Cell) -> Measured:
        fingerprint = self.experiment.fingerprint(cell, self.bench)
        found = self.store.get(cell, fingerprint)
        if found is None:
            found = Measured(self._result(cell), machine(self.study.device))
            self.store.put(cell, fingerprint, found)
        return found

    def _result(self, cell: Cell) -> Result:
        """A run of another library that fails is a result, too; most of ours must not fail."""
        try:
            return self.experiment.measure(cell, self.bench)
        except Exception as error:
            if not (is_peer(cell.system) or self.experiment.may_fail):
                raise
            text = str(error).strip() or type(error).__name__
            return {"failed": text.splitlines()[0][:200]}


def measure_all(
    experiment: Experiment, study: Study, cells: Sequence[Cell]
) -> Iterator[tuple[int, Measured]]:
    """(number of the cell, what was measured), as they are done, until --seconds are over."""
    deadline = time.monotonic() + (study.seconds or math.inf)
    if study.jobs == 1:
        worker = Worker(experiment, study)
        for number, cell in enumerate(cells):
            if time.monotonic() < deadline or worker.has(cell):
                yield number, worker.measure(cell)
        return
    # Not forked: neither CUDA nor OpenMP would survive that.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(study.jobs, context, _start, (experiment, study)) as pool:
        numbers = {pool.submit(_measure, cell): number for number, cell in enumerate(cells)}
        try:
            for future in as_completed(numbers):
                yield numbers[future], future.result()
        except BaseException:
            for process in multiprocessing.active_children():
                process.terminate()  # what is finished is on disk; the rest need not be waited for
            raise


_worker: Worker | None = None  # of a process that was started for measuring


def _start(experiment: Experiment, study: Study) -> None:
    global _worker
    _worker = Worker(experiment, study)


def _measure(cell: Cell) -> Measured:
    assert _worker is not None
    return _worker.measure(cell)
