"""XGBoost, leaf-wise histograms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from lab.datasets.task import Array, Task
from lab.scoring import metric_of, score
from lab.systems.base import Prepared, Settings, System


class XGBoost(System):
    """XGBoost has no minimum of rows per leaf: min_child_weight stands in for it.

    With squared error every hessian is 1, so that is exact; elsewhere it is at
    least XGBoost's own default of 1. ranking: its objective for ranking tasks.
    """

    package = "xgboost"
    _objectives: ClassVar = {
        "binary": "binary:logistic", "regression": "reg:squarederror",
        "multiclass": "multi:softprob",
    }  # fmt: skip

    def __init__(self, name: str, bits: int | None = None, ranking: str = "rank:ndcg") -> None:
        super().__init__(name, bits)
        self.ranking = ranking

    def _params(self, settings: Settings, seed: int, objective: str) -> dict[str, Any]:
        least = settings.min_child_samples if objective == "regression" else 1.0
        params: dict[str, Any] = {
            "objective": self._objectives.get(objective, self.ranking),
            "device": settings.device,
            "tree_method": "hist",
            "grow_policy": "lossguide",
            "max_depth": 0,
            "max_leaves": settings.num_leaves,
            "max_bin": settings.max_bin,
            "learning_rate": settings.learning_rate,
            "min_child_weight": max(settings.min_child_weight, least),
            "reg_lambda": 0.0,
            "subsample": settings.subsample,
            "colsample_bytree": settings.colsample,
            "random_state": seed,
            "n_jobs": settings.n_threads,
            "verbosity": 0,
        }
        if objective == "lambdarank" and self.ranking == "rank:ndcg":  # LightGBM's truncation
            params |= {"lambdarank_pair_method": "topk", "lambdarank_num_pair_per_sample": 30}
        return params

    def _bin(self, task: Task, settings: Settings) -> Any:
        import xgboost

        return xgboost.QuantileDMatrix(
            task.X_train, task.y_train, weight=task.weight_train, group=task.group_train,
            max_bin=settings.max_bin, nthread=settings.n_threads,
        )  # fmt: skip

    def _train(self, prepared: Prepared, settings: Settings, seed: int) -> Any:
        import xgboost

        params = self._params(settings, seed, prepared.task.objective)
        if prepared.task.objective == "multiclass":
            params["num_class"] = prepared.task.n_classes
        return xgboost.train(params, prepared.data, settings.n_trees)

    def predictor(self, model: Any, task: Task, n_threads: int) -> Callable[[Array], Array]:
        model.set_param({"nthread": n_threads})
        return model.inplace_predict  # type: ignore[no-any-return]

    def curve(self, prepared: Prepared, settings: Settings, seed: int = 0) -> list[float]:
        import xgboost

        task, curve = prepared.task, []

        def judge(prediction: Array, data: Any) -> tuple[str, float]:
            curve.append(score(task, prediction))
            return metric_of(task), curve[-1]

        if prepared.test is None:
            prepared.test = xgboost.DMatrix(task.X_test, task.y_test, group=task.group_test)
        params = self._params(settings, seed, task.objective)
        params["disable_default_eval_metric"] = True
        xgboost.train(
            params, prepared.data, settings.n_trees, evals=[(prepared.test, "test")],
            custom_metric=judge, verbose_eval=False,
        )  # fmt: skip
        return curve

    def _n_iterations(self, model: Any) -> int:
        return int(model.num_boosted_rounds())

    def _slice_scores(self, model: Any, X: Array, trees: slice, n_threads: int) -> Array:
        model.set_param({"nthread": n_threads})

        def margin(rows: Array, first: int, last: int) -> Array:
            found: Array = model.inplace_predict(
                rows, iteration_range=(first, last), predict_type="margin"
            )
            return found

        if trees.start == 0:
            return margin(X, 0, trees.stop)
        # Every slice has the base score in it: two slices have it once more than both together.
        one = X[:1]
        middle = trees.start
        both = margin(one, 0, middle) + margin(one, middle, trees.stop)
        base = both - margin(one, 0, trees.stop)
        return margin(X, middle, trees.stop) - base

    def classifier(self, settings: Settings) -> Any:
        from xgboost import XGBClassifier

        params = self._params(settings, 0, "binary")
        return XGBClassifier(n_estimators=settings.n_trees, **params)

    def fit_watched(self, task: Task, settings: Settings) -> Any:
        classifier = self.classifier(settings).set_params(eval_metric="auc")
        watched = [(task.X_test, task.y_test)]
        return classifier.fit(task.X_train, task.y_train, eval_set=watched, verbose=False)
