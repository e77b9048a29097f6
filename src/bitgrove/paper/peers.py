"""The other libraries behind the same adapter, and the names of all systems.

This room owns the translation of the common Settings into each library's own
parameters, and system(), which makes an adapter from its name: the library,
then the gradient bits when they are not full precision ("bitgrove",
"bitgrove-3", "lightgbm-3", "xgboost").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from bitgrove.errors import ParameterError
from bitgrove.paper.systems import Bitgrove, Prepared, Settings, System, Trained
from bitgrove.paper.task import HIGHER_IS_BETTER, Array, Task, score


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

        task, curve = prepared.task, []

        def judge(prediction: Array, data: Any) -> tuple[str, float, bool]:
            curve.append(score(task, prediction))
            return task.metric, curve[-1], HIGHER_IS_BETTER[task.metric]

        if prepared.test is None:
            prepared.test = prepared.data.create_valid(
                task.X_test, task.y_test, group=task.group_test
            )
        params = {"objective": task.objective, "metric": "none", **self._params(settings, seed)}
        lightgbm.train(
            params, prepared.data, settings.n_trees, valid_sets=[prepared.test], feval=judge
        )
        return curve

    def classifier(self, settings: Settings) -> Any:
        from lightgbm import LGBMClassifier

        return LGBMClassifier(n_estimators=settings.n_trees, **self._params(settings, 0))


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
            return task.metric, curve[-1]

        if prepared.test is None:
            prepared.test = xgboost.DMatrix(task.X_test, task.y_test, group=task.group_test)
        params = self._params(settings, seed, task.objective)
        params["disable_default_eval_metric"] = True
        xgboost.train(
            params, prepared.data, settings.n_trees, evals=[(prepared.test, "test")],
            custom_metric=judge, verbose_eval=False,
        )  # fmt: skip
        return curve

    def classifier(self, settings: Settings) -> Any:
        from xgboost import XGBClassifier

        params = self._params(settings, 0, "binary")
        return XGBClassifier(n_estimators=settings.n_trees, **params)


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
            "depth": settings.num_leaves + 1,  # no limit of its own
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


class SklearnHGB(System):
    """scikit-learn bins inside fit(): its bin mapper is timed alone and taken off.

    Threads follow OpenMP's own limit, which the caller sets. There is no row
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


_LIBRARIES: dict[str, type[System]] = {
    "bitgrove": Bitgrove, "lightgbm": LightGBM, "xgboost": XGBoost,
    "catboost": CatBoost, "sklearn": SklearnHGB,
}  # fmt: skip


def system(name: str) -> System:
    """The system of that name, for example "bitgrove-3" or "xgboost"."""
    library, _, bits = name.partition("-")
    if library not in _LIBRARIES or (bits and library not in ("bitgrove", "lightgbm")):
        raise ParameterError(f"unknown system {name!r}; libraries: {', '.join(_LIBRARIES)}")
    # Above 7 bits LightGBM's quantized gradients overflow their int8 without a word.
    if bits and bits not in ("2345678" if library == "bitgrove" else "234567"):
        raise ParameterError(f"gradient bits out of range in {name!r}")
    return _LIBRARIES[library](name, int(bits) if bits else None)
