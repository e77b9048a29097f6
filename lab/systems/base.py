"""What a system is that trains on a Task.

This room owns the common Settings and the contract of an adapter: a system
receives a Task and returns what it binned (Prepared), what it learnt (Trained),
a function that predicts and the test metric after each tree (curve), and it
knows its library's own scikit-learn classifier. Libraries are imported when
first used, so that a benchmark of two systems needs only those two.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np

from lab.datasets.task import Array, Task


@dataclass(frozen=True)
class Settings:
    """What every library is told; the defaults are LightGBM's."""

    n_trees: int = 100
    learning_rate: float = 0.1
    num_leaves: int = 31
    max_bin: int = 255
    min_child_weight: float = 1e-3
    min_child_samples: int = 20
    subsample: float = 1.0
    colsample: float = 1.0
    n_threads: int = 1
    device: str = "cpu"  # or "cuda"


@dataclass(eq=False)
class Prepared:
    """A task in a library's own binned form; the test rows follow when a curve asks for them."""

    task: Task
    data: Any
    seconds: float
    test: Any = None


@dataclass(frozen=True)
class Trained:
    model: Any
    seconds: float  # without the binning


class System(ABC):
    """A library with its options."""

    package: str  # its name on the package index

    def __init__(self, name: str, bits: int | None = None) -> None:
        self.name = name
        self.bits = bits

    @property
    def version(self) -> str:
        return version(self.package)

    @property
    def installed(self) -> bool:
        return find_spec(self.package) is not None

    @property
    def binned_form(self) -> str:
        """Systems of equal form can train on each other's binned rows."""
        return self.package

    def supports(self, task: Task) -> bool:
        return True

    def prepare(self, task: Task, settings: Settings) -> Prepared:
        """Bin the training rows."""
        start = time.perf_counter()
        data = self._bin(task, settings)
        return Prepared(task, data, time.perf_counter() - start)

    def train(self, prepared: Prepared, settings: Settings, seed: int = 0) -> Trained:
        """Train on binned rows."""
        start = time.perf_counter()
        model = self._train(prepared, settings, seed)
        return Trained(model, time.perf_counter() - start)

    @abstractmethod
    def _bin(self, task: Task, settings: Settings) -> Any: ...

    @abstractmethod
    def _train(self, prepared: Prepared, settings: Settings, seed: int) -> Any: ...

    @abstractmethod
    def predictor(self, model: Any, task: Task, n_threads: int) -> Callable[[Array], Array]:
        """A function from rows to probabilities, values or ranking scores."""

    def curve(self, prepared: Prepared, settings: Settings, seed: int = 0) -> list[float]:
        """Train, and return the task's metric on the test rows after each tree."""
        raise NotImplementedError(f"{self.name} cannot predict tree by tree")

    def scores_along(
        self, model: Any, X: Array, n_threads: int, every: int
    ) -> Iterator[tuple[int, Array]]:
        """(iteration, raw scores) after every so many iterations; each tree is walked once."""
        n_trees, scores = self._n_iterations(model), np.zeros(len(X))
        for first in range(0, n_trees, every):
            last = min(first + every, n_trees)
            scores = scores + self._slice_scores(model, X, slice(first, last), n_threads)
            yield last, scores

    def _n_iterations(self, model: Any) -> int:
        raise NotImplementedError(f"{self.name} cannot predict by slices")

    def _slice_scores(self, model: Any, X: Array, trees: slice, n_threads: int) -> Array:
        """What these iterations add to the scores; the first ones with the base score."""
        raise NotImplementedError(f"{self.name} cannot predict by slices")

    @abstractmethod
    def classifier(self, settings: Settings) -> Any:
        """The library's own scikit-learn classifier, not fitted."""

    def fit_watched(self, task: Task, settings: Settings) -> Any:
        """That classifier, fitted while the AUC of the test rows is computed after each tree."""
        watched = [(task.X_test, task.y_test)]
        classifier = self.classifier(settings)
        return classifier.fit(task.X_train, task.y_train, eval_set=watched, eval_metric="auc")
