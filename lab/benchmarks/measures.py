"""What can be timed about one system on one task.

This room owns the clocks. A measure receives a system, a task and settings,
does once what must not be timed, and then returns named values each time it is
called; of repeated calls the smallest value of each name counts. `quality` is
the test metric of what it trained, so that no speed is bought with accuracy
unseen.
"""

from __future__ import annotations

import gc
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

import bitgrove
from lab.datasets.task import Task
from lab.scoring import scores
from lab.systems.base import Settings, System
from lab.systems.lineup import system

K = TypeVar("K")
_SINGLE_ROWS = 300
# Of whole fits and predictions: elapsed time, or on a busy machine the processor's (one thread).
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
clock = CLOCKS["wall"]


class Measure:
    """One system on one task; call it to measure once."""

    both_layouts = False  # is LightGBM measured row-wise and column-wise?

    def __init__(self, entry: System, task: Task, settings: Settings) -> None:
        self.system, self.task, self.settings = entry, task, settings
        self.quality: dict[str, float] = {}

    def __call__(self) -> dict[str, float]:
        raise NotImplementedError


class Training(Measure):
    """Milliseconds per tree without the binning, and seconds of binning."""

    both_layouts = True

    def __call__(self) -> dict[str, float]:
        gc.collect()
        prepared = self.system.prepare(self.task, self.settings)
        trained = self.system.train(prepared, self.settings)
        if not self.quality:
            predict = self.system.predictor(trained.model, self.task, self.settings.n_threads)
            self.quality = scores(self.task, predict(self.task.X_test))
        n_trees = self.settings.n_trees * self.task.n_classes
        return {"ms per tree": 1e3 * trained.seconds / n_trees, "s to bin": prepared.seconds}


class WholeFit(Measure):
    """Milliseconds of the library's own scikit-learn classifier's fit()."""

    both_layouts = True

    def fitted(self) -> Any:
        classifier = self.system.classifier(self.settings)
        return classifier.fit(self.task.X_train, self.task.y_train)

    def __call__(self) -> dict[str, float]:
        start = clock()
        classifier = self.fitted()
        elapsed = clock() - start
        if not self.quality:
            probability = classifier.predict_proba(self.task.X_test)[:, 1]
            self.quality = scores(self.task, probability)
        return {"ms per fit": 1e3 * elapsed}


class WatchedFit(WholeFit):
    """The same, with the AUC of the test rows after each tree."""

    def fitted(self) -> Any:
        return self.system.fit_watched(self.task, self.settings)


class Binning(Measure):
    """Seconds from a float32 table to the library's own binned form."""

    def __call__(self) -> dict[str, float]:
        gc.collect()
        return {"s to bin": self.system.prepare(self.task, self.settings).seconds}


class Prediction(Measure):
    """Milliseconds for all test rows, and microseconds for a single row on one thread."""

    def __init__(self, entry: System, task: Task, settings: Settings) -> None:
        super().__init__(entry, task, settings)
        self.model = entry.train(entry.prepare(task, settings), settings).model

    def __call__(self) -> dict[str, float]:
        rows = self.task.X_test
        predict = self.system.predictor(self.model, self.task, self.settings.n_threads)
        start = clock()
        prediction = predict(rows)
        batch = clock() - start
        self.quality = self.quality or scores(self.task, prediction)

        predict = self.system.predictor(self.model, self.task, 1)
        seconds = []
        with threadpool_limits(1, user_api="openmp"):
            for row in range(_SINGLE_ROWS):
                start = clock()
                predict(rows[row : row + 1])
                seconds.append(clock() - start)
        return {"ms for all rows": 1e3 * batch, "us for one row": 1e6 * median(seconds)}


class Memory(Measure):
    """Megabytes that binning and training add at their peak, in a process of their own."""

    def __call__(self) -> dict[str, float]:
        # The table travels through a file: the child never holds more than the table itself.
        with tempfile.TemporaryDirectory() as folder:
            np.save(f"{folder}/X.npy", self.task.X_train)
            np.save(f"{folder}/y.npy", self.task.y_train)
            order = {"system": self.system.name, "settings": vars(self.settings), "folder": folder}
            command = [sys.executable, "-m", "lab.benchmarks.measures", json.dumps(order)]
            answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return {"MB at peak": float(answer.splitlines()[-1])}


def best_ms_per_tree(
    trainings: Mapping[K, tuple[dict[str, Any], bitgrove.Dataset]], repeats: int
) -> dict[K, float]:
    """Of bitgrove, for each of several trainings (parameters, rows) that take turns."""
    best = dict.fromkeys(trainings, float("inf"))
    for _ in range(repeats):
        for key, (params, data) in trainings.items():
            model = bitgrove.train(params, data)
            assert model.info is not None
            ms = 1e3 * model.info.seconds["train"] / len(model.info.rounds_per_tree)
            best[key] = min(best[key], ms)
    return best


def added_at_peak(entry: System, task: Task, settings: Settings) -> float:
    """Megabytes that this process grew by at most while it trained."""
    few = Task("warm-up", task.objective, task.X_train[:500], task.y_train[:500],
               task.X_test[:500], task.y_test[:500])  # fmt: skip
    entry.train(entry.prepare(few, settings), settings)  # loads the library, starts its threads
    gc.collect()
    before = resident_mb()
    entry.train(entry.prepare(task, settings), settings)
    return peak_mb() - before


def resident_mb() -> float:
    """What this process holds now; its peak is counted from here on."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status_mb("VmRSS")


def peak_mb() -> float:
    """Not of getrusage: there a child starts with the peak of the process that started it."""
    return _status_mb("VmHWM")


def _status_mb(field: str) -> float:
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found.group(1)) / 1024


def _child(order: dict[str, Any]) -> None:
    X, y = (np.load(f"{order['folder']}/{name}.npy") for name in ("X", "y"))
    task = Task("memory", "binary", X, y, X[:1000], y[:1000])
    print(added_at_peak(system(order["system"]), task, Settings(**order["settings"])))


if __name__ == "__main__":
    _child(json.loads(sys.argv[1]))
