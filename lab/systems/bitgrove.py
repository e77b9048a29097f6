"""bitgrove as a system among others."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import bitgrove
from lab.datasets.task import Array, Task
from lab.internals import bin_rows
from lab.scoring import metric_of
from lab.systems.base import Prepared, Settings, System

# Experiments try on purpose what users are warned of.
warnings.filterwarnings("ignore", category=bitgrove.BitgroveWarning)


class Bitgrove(System):
    """more: any other parameters of train()."""

    package = "bitgrove"

    def __init__(self, name: str, bits: int | None = None, **more: Any) -> None:
        super().__init__(name, bits)
        self.more = more

    def parameters(self, settings: Settings, seed: int, task: Task | None = None) -> dict[str, Any]:
        """For train(); without a task, for an estimator."""
        objective: dict[str, Any] = {}
        if task is not None:
            objective["objective"] = task.objective
            if task.objective == "multiclass":
                objective["num_class"] = task.n_classes
        return {
            **objective,
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
        data = task.train.dataset()
        bin_rows(self.parameters(settings, 0, task), data)
        return data

    def _train(self, prepared: Prepared, settings: Settings, seed: int) -> Any:
        return bitgrove.train(self.parameters(settings, seed, prepared.task), prepared.data)

    def curve(self, prepared: Prepared, settings: Settings, seed: int = 0) -> list[float]:
        task, metric = prepared.task, metric_of(prepared.task)
        if prepared.test is None:
            prepared.test = task.test.dataset()
        params = {"eval_metric": metric, **self.parameters(settings, seed, task)}
        model = bitgrove.train(params, prepared.data, valid_sets=prepared.test)
        assert model.info is not None
        return model.info.evals_result["valid_0"][metric]

    def predictor(self, model: Any, task: Task, n_threads: int) -> Callable[[Array], Array]:
        return lambda X: model.predict(X, n_jobs=n_threads)

    def classifier(self, settings: Settings) -> Any:
        return bitgrove.BitGroveClassifier(**self.parameters(settings, 0))
