"""The scikit-learn estimators.

Owns scikit-learn's conventions: checks of X and y, class labels, fitted attributes, tags. Receives
tables and targets; returns fitted estimators whose `model_` is the Model that `train` returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bitgrove.callbacks import Callback
from bitgrove.data.dataset import Dataset
from bitgrove.data.device_tables import is_on_gpu, on_host
from bitgrove.data.given_rows import Queries, Rows, pairs_of, with_each
from bitgrove.errors import DataError, ParameterError
from bitgrove.machine.files import PathLike
from bitgrove.model.model import Model
from bitgrove.objectives import Binary, LambdaRank, Multiclass, Objective, Regression
from bitgrove.params import BY_NAME, TrainParams, resolve
from bitgrove.training.booster import TrainInfo
from bitgrove.training.train import train

if TYPE_CHECKING:
    from typing_extensions import Self

    RandomState = int | np.random.RandomState | np.random.Generator | None
    Metrics = str | Sequence[str] | None

Array = npt.NDArray[Any]


class _Estimator(BaseEstimator):  # type: ignore[misc]
    """What the estimators share: from tables and targets to a model and its fitted attributes."""

    importance_type: str
    categorical_features: Any
    random_state: RandomState
    n_jobs: int | None

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        eval_set: Any = None,
        eval_sample_weight: Any = None,
        eval_names: Sequence[str] | None = None,
        callbacks: Sequence[Callback] | None = None,
        resume_from: Model | PathLike | None = None,
    ) -> Self:
        """Train on X (any table; NaN is a missing value) and y, with optional row weights.

        `eval_set` is one (X, y) or a list of them, judged after each iteration and used for early
        stopping; `eval_sample_weight` and `eval_names` hold one weight array and one name each.
        `resume_from` is a checkpoint of the same fit, see `train`.
        """
        valid = [
            Rows(pair[0], pair[1], weight)
            for pair, weight in with_each(pairs_of(eval_set), eval_sample_weight=eval_sample_weight)
        ]
        how = {"valid_names": eval_names, "callbacks": callbacks, "resume_from": resume_from}
        return self._fit(Rows(X, y, sample_weight), valid, how)

    def _store(self, given: dict[str, Any]) -> None:
        """Keep the arguments of __init__ untouched, as scikit-learn asks; fit checks them."""
        self.__dict__.update({name: value for name, value in given.items() if name != "self"})

    def _fit(self, rows: Rows, valid: Sequence[Rows], how: dict[str, Any]) -> Self:
        """`how` are arguments of train()."""
        train_set = self._dataset(rows)
        valid_sets = [self._dataset(others, train_set.feature_names) for others in valid]
        params = self._params(has_valid=bool(valid_sets))
        self._keep(train(params, train_set, valid_sets=valid_sets, **how))
        return self

    def _params(self, *, has_valid: bool) -> TrainParams:
        """The checked parameters, for the classes that were learnt."""
        if self.importance_type not in ("gain", "split"):
            raise ParameterError(
                f"importance_type={self.importance_type!r}: must be one of 'gain', 'split'"
            )
        seed = {"random_state": _seed(self.random_state)}
        params = resolve({**self._given(), **seed, **self._objective()})
        if params.early_stopping_rounds is not None and not has_valid:
            raise ParameterError(
                f"early_stopping_rounds={params.early_stopping_rounds} needs validation data: "
                "give fit an eval_set=(X, y)"
            )
        return params

    def _given(self) -> dict[str, Any]:
        """The parameters that train() knows."""
        given = self.get_params(deep=False)
        return {name: value for name, value in given.items() if name in BY_NAME}

    def _keep(self, model: Model) -> None:
        """Sets the fitted attributes."""
        info = model.info or TrainInfo()
        self.model_ = self._named_outputs(model)
        self.n_iter_ = model.n_iterations
        self.best_iteration_ = model.best_iteration
        self.best_score_ = info.best_score
        self.evals_result_ = info.evals_result

    def _dataset(self, rows: Rows, names: list[str] | None = None) -> Dataset:
        """The training data, or with the `names` of its features: validation data."""
        table = self._table(rows.X, reset=names is None)
        assert_all_finite(target := column_or_1d(on_host(rows.y), warn=True), input_name="y")
        weight = None if rows.weight is None else column_or_1d(on_host(rows.weight))
        if weight is not None and weight.dtype.kind not in "biuf":
            raise DataError(f"sample_weight must hold numbers, got {weight.dtype}")
        check_consistent_length(table, target, weight)
        label = self._label(target) if names else self._learn_label(target, weight)
        group = None if rows.queries is None else rows.queries.sizes(target)
        names_and_kinds = {"feature_names": names, "categorical_feature": self.categorical_features}
        return Dataset(table, label, weight=weight, group=group, **names_and_kinds)

    def _table(self, X: Any, *, reset: bool) -> Any:
        """Names and number of features checked; Dataset reads frames and GPU arrays itself."""
        if hasattr(X, "columns") or is_on_gpu(X) or self._holds_categories(X):
            return validate_data(self, X, reset=reset, skip_check_array=True)
        sparse = ("csr", "csc")
        return validate_data(self, X, reset=reset, accept_sparse=sparse, ensure_all_finite=False)

    def _holds_categories(self, X: Any) -> bool:
        """An array of objects, some columns of which are listed as categories."""
        listed = self.categorical_features
        is_listed = listed is not None and not isinstance(listed, str)
        return is_listed and getattr(getattr(X, "dtype", None), "kind", "") in ("O", "U", "T")

    def _learn_label(self, target: Array, weight: Array | None) -> Array:
        return self._label(target)

    def _label(self, target: Array) -> Array:
        if target.dtype.kind not in "biufO":
            raise DataError(f"y must hold numbers, got {target.dtype}")
        try:
            return target.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"y must hold numbers: {error}") from None

    def _objective(self) -> dict[str, object]:
        raise NotImplementedError

    def _named_outputs(self, model: Model) -> Model:
        return model

    def _predict(self, predict: str, X: Any) -> Array:
        check_is_fitted(self)
        table = self._table(X, reset=False)
        return np.asarray(on_host(getattr(self.model_, predict)(table, n_jobs=self.n_jobs)))

    @property
    def feature_importances_(self) -> npt.NDArray[np.float64]:
        """Each feature's share of the total gain, or of the splits; see `importance_type`."""
        check_is_fitted(self)
        importance = self.model_.feature_importance(self.importance_type)
        total = importance.sum()
        return importance / total if total > 0 else importance

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags


class BitGroveClassifier(ClassifierMixin, _Estimator):  # type: ignore[misc]
    """Gradient boosted trees, trained in integers, for two or more classes.

    The parameters are explained in docs/parameters.md; `importance_type` ("gain" or "split") says
    what `feature_importances_` measures. Labels may be of any type that can be sorted.
    """

    # fmt: off
    def __init__(
        self, *, n_estimators: int = 100, learning_rate: float = 0.1,
        random_state: RandomState = 0, num_leaves: int = 31, max_depth: int | None = -1,
        min_child_samples: int = 20, min_child_weight: float = 1e-3, min_split_gain: float = 0.0,
        reg_lambda: float = 0.0, reg_alpha: float = 0.0, subsample: float = 1.0,
        subsample_freq: int = 1, colsample_bytree: float = 1.0, max_bin: int = 255,
        bin_sample_rows: int = 200_000, cat_smooth: float = 10.0, cat_l2: float = 10.0,
        max_cat_threshold: int = 32, max_cat_to_onehot: int = 4, min_data_per_group: int = 100,
        gradient_bits: int | None = 4, rounding: str = "stochastic",
        refit_leaves: bool = True, gradient_scale: str = "max", packed: bool = True,
        scale_pos_weight: float = 1.0, sigmoid: float = 1.0, eval_metric: Metrics = None,
        early_stopping_rounds: int | None = None, first_metric_only: bool = False,
        n_jobs: int | None = None, device: str = "cpu", histogram_pool_mb: int | None = None,
        frontier_alpha: float = 0.75, verbosity: int = 0, progress: bool = False,
        distributed: str = "data", top_k: int = 20, distributed_timeout: float = 60.0,
        importance_type: str = "gain",
        categorical_features: Any = "auto",
    ) -> None:
        self._store(locals())
    # fmt: on

    def predict(self, X: Any) -> Array:
        """The most probable class of each row."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[codes]

    def predict_proba(self, X: Any) -> Array:
        """(n_rows, n_classes) probabilities, in the order of `classes_`."""
        found = self._predict("predict", X)
        return np.column_stack((1 - found, found)) if found.ndim == 1 else found

    def decision_function(self, X: Any) -> Array:
        """Raw scores: (n_rows,), above 0 for `classes_[1]`; (n_rows, n_classes) beyond two."""
        return self._predict("predict_raw", X)

    def _learn_label(self, target: Array, weight: Array | None) -> Array:
        check_classification_targets(target)
        # Rows without weight count as absent: a class that only they have is left out.
        classes = np.unique(target if weight is None else target[weight > 0])
        if len(classes) == 0:
            raise DataError("all sample weights are zero")
        if len(classes) == 1:
            raise DataError("y holds 1 class (weights of 0 aside); 2 are needed")
        if classes.dtype.kind not in "biufUO":
            raise DataError(f"y has labels of type {classes.dtype}; use strings or numbers")
        if classes.dtype.kind == "O":  # strings, but maybe of NumPy's own type
            classes = np.array([*map(str, classes)], dtype=object)
        self.classes_, self.n_classes_ = classes, len(classes)
        return self._codes(target)

    def _label(self, target: Array) -> Array:
        strange = set(target.tolist()) - set(self.classes_.tolist())
        if strange:
            names = ", ".join(sorted(map(repr, strange))[:5])
            raise DataError(f"eval_set has classes that the training data has not: {names}")
        return self._codes(target)

    def _codes(self, target: Array) -> Array:
        return np.minimum(np.searchsorted(self.classes_, target), self.n_classes_ - 1)

    def _objective(self) -> dict[str, object]:
        objective: type[Objective] = Binary if self.n_classes_ == 2 else Multiclass
        return {"objective": objective.name, **objective.class_settings(self.n_classes_)}

    def _named_outputs(self, model: Model) -> Model:
        return model.with_classes(self.classes_)


class BitGroveRegressor(RegressorMixin, _Estimator):  # type: ignore[misc]
    """Gradient boosted trees, trained in integers, for squared error.

    The parameters are explained in docs/parameters.md; `importance_type` ("gain" or "split") says
    what `feature_importances_` measures.
    """

    # fmt: off
    def __init__(
        self, *, n_estimators: int = 100, learning_rate: float = 0.1,
        random_state: RandomState = 0, num_leaves: int = 31, max_depth: int | None = -1,
        min_child_samples: int = 20, min_child_weight: float = 1e-3, min_split_gain: float = 0.0,
        reg_lambda: float = 0.0, reg_alpha: float = 0.0, subsample: float = 1.0,
        subsample_freq: int = 1, colsample_bytree: float = 1.0, max_bin: int = 255,
        bin_sample_rows: int = 200_000, cat_smooth: float = 10.0, cat_l2: float = 10.0,
        max_cat_threshold: int = 32, max_cat_to_onehot: int = 4, min_data_per_group: int = 100,
        gradient_bits: int | None = 4, rounding: str = "stochastic",
        refit_leaves: bool = True, gradient_scale: str = "max", packed: bool = True,
        eval_metric: Metrics = None, early_stopping_rounds: int | None = None,
        first_metric_only: bool = False, n_jobs: int | None = None, device: str = "cpu",
        histogram_pool_mb: int | None = None, frontier_alpha: float = 0.75, verbosity: int = 0,
        progress: bool = False, distributed: str = "data", top_k: int = 20,
        distributed_timeout: float = 60.0, importance_type: str = "gain",
        categorical_features: Any = "auto",
    ) -> None:
        self._store(locals())
    # fmt: on

    def predict(self, X: Any) -> Array:
        """The predicted value of each row."""
        return self._predict("predict", X)

    def _objective(self) -> dict[str, object]:
        return {"objective": Regression.name}


class BitGroveRanker(_Estimator):
    """Gradient boosted trees, trained in integers, that rank the rows of each query (LambdaRank).

    y holds relevance grades: 0, 1, 2, ... The parameters are explained in docs/parameters.md;
    `importance_type` ("gain" or "split") says what `feature_importances_` measures.
    """

    # fmt: off
    def __init__(
        self, *, n_estimators: int = 100, learning_rate: float = 0.1,
        random_state: RandomState = 0, num_leaves: int = 31, max_depth: int | None = -1,
        min_child_samples: int = 20, min_child_weight: float = 1e-3, min_split_gain: float = 0.0,
        reg_lambda: float = 0.0, reg_alpha: float = 0.0, subsample: float = 1.0,
        subsample_freq: int = 1, colsample_bytree: float = 1.0, max_bin: int = 255,
        bin_sample_rows: int = 200_000, cat_smooth: float = 10.0, cat_l2: float = 10.0,
        max_cat_threshold: int = 32, max_cat_to_onehot: int = 4, min_data_per_group: int = 100,
        gradient_bits: int | None = 4, rounding: str = "stochastic",
        refit_leaves: bool = True, gradient_scale: str = "max", packed: bool = True,
        sigmoid: float = 1.0, lambdarank_truncation_level: int = 30, lambdarank_norm: bool = True,
        label_gain: Sequence[float] | None = None, eval_metric: Metrics = None,
        early_stopping_rounds: int | None = None, first_metric_only: bool = False,
        n_jobs: int | None = None, device: str = "cpu", histogram_pool_mb: int | None = None,
        frontier_alpha: float = 0.75, verbosity: int = 0, progress: bool = False,
        distributed: str = "data", top_k: int = 20, distributed_timeout: float = 60.0,
        importance_type: str = "gain",
        categorical_features: Any = "auto",
    ) -> None:
        self._store(locals())
    # fmt: on

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        group: Any = None,
        qid: Any = None,
        eval_set: Any = None,
        eval_sample_weight: Any = None,
        eval_group: Any = None,
        eval_qid: Any = None,
        eval_names: Sequence[str] | None = None,
        callbacks: Sequence[Callback] | None = None,
        resume_from: Model | PathLike | None = None,
    ) -> Self:
        """Train on X and y, whose rows are sorted by query.

        `group` holds the number of rows of each query, or `qid` a query id for each row; without
        either all rows are one query. The `eval_` arguments hold the same for each `eval_set`.
        """
        each = with_each(
            pairs_of(eval_set),
            eval_sample_weight=eval_sample_weight,
            eval_group=eval_group,
            eval_qid=eval_qid,
        )
        valid = [
            Rows(pair[0], pair[1], weight, Queries(sizes, ids)) for pair, weight, sizes, ids in each
        ]
        rows = Rows(X, y, sample_weight, Queries(group, qid))
        how = {"valid_names": eval_names, "callbacks": callbacks, "resume_from": resume_from}
        return self._fit(rows, valid, how)

    def predict(self, X: Any) -> Array:
        """A score for each row; within a query, higher means more relevant."""
        return self._predict("predict", X)

    def _objective(self) -> dict[str, object]:
        return {"objective": LambdaRank.name}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


def _seed(random_state: RandomState) -> int | None:
    """A seed drawn from a generator; anything else is left for `resolve` to judge."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return random_state
