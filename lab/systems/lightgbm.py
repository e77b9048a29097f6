"""LightGBM, with its quantized training and both histogram layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lab.datasets.task import Array, Task
from lab.scoring import HIGHER_IS_BETTER, metric_of, score
from lab.systems.base import Prepared, Settings, System


class LightGBM(System):
    """layout is "row", "col" or None: LightGBM times both at the start and keeps one."""

    package = "lightgbm"

    def __init__(self, name: str, bits: int | None = None, layout: str | None = None) -> None:
        super().__init__(name, bits)
        self.layout = layout

    @property
    def binned_form(self) -> str:
        return f"{self.package} {self.layout}"

    def _params(self, settings: Settings, seed: int) -> dict[str, Any]:
        params: dict[str, Any] = {
            "learning_rate": settings.learning_rate,
            "num_leaves": settings.num_leaves,
            "max_bin": settings.max_bin,
            "min_child_weight": settings.min_child_weight,
            "min_child_samples": settings.min_child_samples,
            "reg_lambda": 0.0,
            "subsample": settings.subsample,
            "subsample_freq": 1 if settings.subsample < 1 else 0,
            "colsample_bytree": settings.colsample,
            "random_state": seed,
            "data_random_seed": 1,  # the bins stay those of the shared Dataset
            "n_jobs": settings.n_threads,
            "verbosity": -1,
        }
        if self.layout is not None:
            params[f"force_{self.layout}_wise"] = True
        if self.bits is not None:
            params |= {
                "use_quantized_grad": True,
                "num_grad_quant_bins": 2**self.bits - 2,
                "quant_train_renew_leaf": True,
                "stochastic_rounding": True,
            }
        return params

    def _bin(self, task: Task, settings: Settings) -> Any:
        import lightgbm

        return lightgbm.Dataset(
            task.X_train, task.y_train, weight=task.weight_train, group=task.group_train,
            params=self._params(settings, 0),
        ).construct()  # fmt: skip

    def _train(self, prepared: Prepared, settings: Settings, seed: int) -> Any:
        import lightgbm

        params = {"objective": prepared.task.objective, **self._params(settings, seed)}
        if prepared.task.objective == "multiclass":
            params["num_class"] = prepared.task.n_classes
        return lightgbm.train(params, prepared.data, settings.n_trees)

    def predictor(self, model: Any, task: Task, n_threads: int) -> Callable[[Array], Array]:
        return lambda X: model.predict(X, num_threads=n_threads)

    def curve(self, prepared: Prepared, settings: Settings, seed: int = 0) -> list[float]:
        import lightgbm

        task, metric, curve = prepared.task, metric_of(prepared.task), []

        def judge(prediction: Array, data: Any) -> tuple[str, float, bool]:
            curve.append(score(task, prediction))
            return metric, curve[-1], HIGHER_IS_BETTER[metric]

        if prepared.test is None:
            prepared.test = prepared.data.create_valid(
                task.X_test, task.y_test, group=task.group_test
            )
        params = {"objective": task.objective, "metric": "none", **self._params(settings, seed)}
        lightgbm.train(
            params, prepared.data, settings.n_trees, valid_sets=[prepared.test], feval=judge
        )
        return curve

    def _n_iterations(self, model: Any) -> int:
        return int(model.num_trees())

    def _slice_scores(self, model: Any, X: Array, trees: slice, n_threads: int) -> Array:
        found: Array = model.predict(
            X, raw_score=True, start_iteration=trees.start,
            num_iteration=trees.stop - trees.start, num_threads=n_threads,
        )  # fmt: skip
        return found

    def classifier(self, settings: Settings) -> Any:
        from lightgbm import LGBMClassifier

        return LGBMClassifier(n_estimators=settings.n_trees, **self._params(settings, 0))
