"""scikit-learn's histogram gradient boosting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from lab.datasets.task import Array, Task
from lab.systems.base import Prepared, Settings, System, Trained


class SklearnHGB(System):
    """scikit-learn bins inside fit(): its bin mapper is timed alone and taken off.

    Threads follow OpenMP's own limit, which is set here. There is no row
    sampling and no ranking; a minimum of rows stands in for that of hessians.
    """

    package = "scikit-learn"

    @property
    def installed(self) -> bool:
        return True  # bitgrove itself needs it

    def supports(self, task: Task) -> bool:
        return task.objective != "lambdarank"

    def _params(self, settings: Settings) -> dict[str, Any]:
        if settings.subsample < 1:
            raise ValueError("scikit-learn's histogram boosting cannot sample rows")
        return {
            "max_iter": settings.n_trees,
            "learning_rate": settings.learning_rate,
            "max_leaf_nodes": settings.num_leaves,
            "max_bins": settings.max_bin,
            "min_samples_leaf": max(settings.min_child_samples, int(settings.min_child_weight)),
            "max_features": settings.colsample,
            "early_stopping": False,
        }

    def _bin(self, task: Task, settings: Settings) -> Any:
        from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper

        mapper = _BinMapper(n_bins=settings.max_bin + 1, n_threads=settings.n_threads)
        mapper.fit_transform(task.X_train.astype(np.float64))

    def train(self, prepared: Prepared, settings: Settings, seed: int = 0) -> Trained:
        whole = super().train(prepared, settings, seed)
        return Trained(whole.model, max(whole.seconds - prepared.seconds, 0.0))

    def _train(self, prepared: Prepared, settings: Settings, seed: int) -> Any:
        from sklearn import ensemble

        regression = prepared.task.objective == "regression"
        kind = "Regressor" if regression else "Classifier"
        estimator = getattr(ensemble, f"HistGradientBoosting{kind}")
        estimator = estimator(**self._params(settings), random_state=seed)
        with threadpool_limits(settings.n_threads, user_api="openmp"):
            return estimator.fit(prepared.task.X_train, prepared.task.y_train)

    def predictor(self, model: Any, task: Task, n_threads: int) -> Callable[[Array], Array]:
        if task.objective == "binary":
            return lambda X: model.predict_proba(X)[:, 1]
        if task.objective == "multiclass":
            return model.predict_proba  # type: ignore[no-any-return]
        return model.predict  # type: ignore[no-any-return]

    def classifier(self, settings: Settings) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(**self._params(settings))
