"""What a benchmarked system is, and bitgrove as one.

This room owns the common Settings and the contract of an adapter: a system
receives a Task and returns what it binned (Prepared), what it learnt (Trained),
a function that predicts and the test metric after each tree (curve), and it
knows its library's own scikit-learn classifier. Libraries are imported when
first used, so that a benchmark of two systems needs only those two.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from bitgrove.paper.task import Array, Task


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

    @abstractmethod
    def classifier(self, settings: Settings) -> Any:
        """The library's own scikit-learn classifier, not fitted."""


class Bitgrove(System):
    """more: any other parameters of train()."""

    package = "bitgrove"

    def __init__(self, name: str, bits: int | None = None, **more: Any) -> None:
        super().__init__(name, bits)
        self.more = more

    def parameters(self, settings: Settings, seed: int) -> dict[str, Any]:
        """For train(), without the objective."""
        return {
            "n_estimators": settings.n_trees,
            "learning_rate": settings.learning_rate,
            "num_leaves": settings.num_leaves,
            "max_bin": settings.max_bin,
            "min_child_weight": settings.min_child_weight,
            "min_child_samples": settings.min_child_samples,
            "subsample": settings.subsample,
            "colsample_bytree": settings.colsample,
            "gradient_bits": self.bits,
            "random_state": seed,
            "n_jobs": settings.n_threads,
            "device": settings.device,
            **self.more,
        }

    def _bin(self, task: Task, settings: Settings) -> Any:
        """train() bins a Dataset that is not binned yet; here that happens before it."""
        import bitgrove
        from bitgrove.backends import make_backend
        from bitgrove.data.row_ids import one_run
        from bitgrove.distributed import SoloComm
        from bitgrove.params import resolve
        from bitgrove.training.booster import bin_training_set

        data = bitgrove.Dataset(
            task.X_train, task.y_train, weight=task.weight_train, group=task.group_train
        )
        params = resolve({"objective": task.objective, **self.parameters(settings, 0)})
        runs = one_run(data.n_rows)
        bin_training_set(data, make_backend(params), params, SoloComm(), runs)
        return data

    def _train(self, prepared: Prepared, settings: Settings, seed: int) -> Any:
        import bitgrove

        params = {"objective": prepared.task.objective, **self.parameters(settings, seed)}
        if prepared.task.objective == "multiclass":
            params["num_class"] = prepared.task.n_classes
        return bitgrove.train(params, prepared.data)

    def curve(self, prepared: Prepared, settings: Settings, seed: int = 0) -> list[float]:
        import bitgrove

        task = prepared.task
        if prepared.test is None:
            prepared.test = bitgrove.Dataset(task.X_test, task.y_test, group=task.group_test)
        params = {"objective": task.objective, "eval_metric": task.metric}
        params |= self.parameters(settings, seed)
        model = bitgrove.train(params, prepared.data, valid_sets=prepared.test)
        assert model.info is not None
        return model.info.evals_result["valid_0"][task.metric]

    def predictor(self, model: Any, task: Task, n_threads: int) -> Callable[[Array], Array]:
        return lambda X: model.predict(X, n_jobs=n_threads)

    def classifier(self, settings: Settings) -> Any:
        from bitgrove import BitGroveClassifier

        return BitGroveClassifier(**self.parameters(settings, 0))
