"""CatBoost, leaf-wise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from lab.datasets.task import Array, Task
from lab.scoring import score
from lab.systems.base import Prepared, Settings, System


class CatBoost(System):
    """The paper's CatBoost settings: plain boosting, lossguide, no score noise.

    CatBoost has no minimum of hessians per leaf: a minimum of rows stands in for it.
    """

    package = "catboost"
    _losses: ClassVar = {
        "binary": "Logloss", "regression": "RMSE",
        "multiclass": "MultiClass", "lambdarank": "YetiRank",
    }  # fmt: skip

    def _params(self, settings: Settings, seed: int, objective: str) -> dict[str, Any]:
        params: dict[str, Any] = {
            "loss_function": self._losses[objective],
            "iterations": settings.n_trees,
            "learning_rate": settings.learning_rate,
            "grow_policy": "Lossguide",
            "boosting_type": "Plain",
            "max_leaves": settings.num_leaves,
            "depth": settings.num_leaves + 1,  # never reached: num_leaves is the only limit
            "border_count": settings.max_bin - 1,
            "min_data_in_leaf": max(settings.min_child_samples, int(settings.min_child_weight)),
            "l2_leaf_reg": 0.0,
            "random_strength": 0.0,
            "rsm": settings.colsample,
            "bootstrap_type": "No",
            "leaf_estimation_iterations": 1,
            "random_seed": seed,
            "thread_count": settings.n_threads,
            "task_type": "GPU" if settings.device == "cuda" else "CPU",
            "allow_writing_files": False,
            "logging_level": "Silent",
        }
        if settings.subsample < 1:
            params |= {"bootstrap_type": "Bernoulli", "subsample": settings.subsample}
        if objective == "binary":  # as the others do; CatBoost would start at probability 1/2
            params["boost_from_average"] = True
        return params

    def _bin(self, task: Task, settings: Settings) -> Any:
        import catboost

        query = None
        if task.group_train is not None:
            query = np.repeat(np.arange(len(task.group_train)), task.group_train)
        pool = catboost.Pool(
            task.X_train, task.y_train, weight=task.weight_train, group_id=query,
            thread_count=settings.n_threads,
        )  # fmt: skip
        pool.quantize(border_count=settings.max_bin - 1)
        return pool

    def _train(self, prepared: Prepared, settings: Settings, seed: int) -> Any:
        import catboost

        params = self._params(settings, seed, prepared.task.objective)
        return catboost.CatBoost(params).fit(prepared.data)

    def predictor(self, model: Any, task: Task, n_threads: int) -> Callable[[Array], Array]:
        kind = "Probability" if task.objective in ("binary", "multiclass") else "RawFormulaVal"

        def predict(X: Array) -> Array:
            output: Array = model.predict(X, prediction_type=kind, thread_count=n_threads)
            return output[:, 1] if task.objective == "binary" else output

        return predict

    def curve(self, prepared: Prepared, settings: Settings, seed: int = 0) -> list[float]:
        model, task = self._train(prepared, settings, seed), prepared.task
        stages = model.staged_predict(
            task.X_test, prediction_type="RawFormulaVal", thread_count=settings.n_threads
        )
        return [score(task, scores) for scores in stages]

    def classifier(self, settings: Settings) -> Any:
        from catboost import CatBoostClassifier

        return CatBoostClassifier(**self._params(settings, 0, "binary"))
