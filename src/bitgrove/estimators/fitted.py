"""What a fitted estimator can do, wherever its model comes from.

Owns prediction, model files, and the fitted attributes and tags of scikit-learn. Receives tables;
returns arrays. How a model is fitted is base.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from bitgrove.data.dataset import Dataset
from bitgrove.data.device_tables import is_on_gpu, on_host
from bitgrove.data.given_values import not_masked, refuse_text
from bitgrove.data.tables import collected, column_names, refuse_twice
from bitgrove.errors import ParameterError
from bitgrove.machine.files import PathLike
from bitgrove.model.exchange import import_model
from bitgrove.model.model import Model
from bitgrove.objectives import OBJECTIVES, Objective
from bitgrove.params import Parameter
from bitgrove.training.booster import TrainInfo

if TYPE_CHECKING:
    from typing_extensions import Self

Array = npt.NDArray[Any]


class Fitted(BaseEstimator):  # type: ignore[misc]
    """A model and what it says about tables."""

    parameters: ClassVar[Mapping[str, Parameter]] = {}

    importance_type: str
    n_jobs: int | None

    def _repr_html_inner(self) -> str:
        """scikit-learn's diagram, and below it the model once there is one."""
        return str(super()._repr_html_inner()) + self._summary()

    def _repr_mimebundle_(self, **how: Any) -> dict[str, str]:
        found: dict[str, str] = super()._repr_mimebundle_(**how)
        if "text/html" in found:
            found["text/html"] += self._summary()
        return found

    def _summary(self) -> str:
        model = getattr(self, "model_", None)
        return "" if model is None else str(model._repr_html_())

    @classmethod
    def takes(cls, objective: type[Objective]) -> bool:
        """Whether it can train with this objective."""
        raise NotImplementedError

    @classmethod
    def from_model(cls, model: Model | PathLike) -> Self:
        """A fitted estimator of a trained Model, or of a file that `import_model` reads."""
        return cls().load_model(model)

    def load_model(self, model: Model | PathLike) -> Self:
        """Become fitted, by a Model or a model file; the parameters become those of the model."""
        found = model if isinstance(model, Model) else import_model(model)
        if not self.takes(OBJECTIVES[found.objective]):
            raise ParameterError(
                f"a model of objective {found.objective!r} cannot become a {type(self).__name__}"
            )
        known = {name: v for name, v in found.params.items() if name in self.parameters}
        self.set_params(**known)
        self.n_features_in_ = found.n_features
        if found.has_names:
            self.feature_names_in_ = np.array(found.feature_names, dtype=object)
        self._learn_model(found)
        self._keep(found)
        return self

    def save_model(self, path: PathLike) -> None:
        """Write the model file; `from_model` and `bitgrove.load` read it."""
        check_is_fitted(self)
        self.model_.save(path)

    def export(self, path: PathLike, format: str | None = None, *, raw_score: bool = False) -> None:
        """Write the model for another library; see `Model.export`."""
        check_is_fitted(self)
        self.model_.export(path, format, raw_score=raw_score)

    def report(self, path: PathLike, X: Any = None, y: Any = None, **more: Any) -> None:
        """Write an HTML page about the model, and about its predictions for X, whose truth is y.

        The keywords are those of `Model.report`."""
        check_is_fitted(self)
        if X is not None and not isinstance(X, Dataset):
            X = self._table(X, self._known_categories(), reset=False)
        # An estimator keeps its curves when it is pickled, a model does not.
        self.model_.report(path, X, y, **{"evals_result": self.evals_result_, **more})

    def explain(self, X: Any, **how: Any) -> Any:
        """Shapley values with the rows they are about, for `shap.plots`; see `Model.explain`."""
        return self._asked("explain", X, how)

    def shap_values(self, X: Any, **how: Any) -> Array:
        """Shapley values in the shapes of the package shap; see `Model.shap_values`."""
        return np.asarray(on_host(self._asked("shap_values", X, how)))

    def shap_interaction_values(self, X: Any, **how: Any) -> Array:
        """What pairs of features add; see `Model.shap_interaction_values`."""
        return np.asarray(self._asked("shap_interaction_values", X, how))

    def _asked(self, method: str, X: Any, how: Mapping[str, Any]) -> Any:
        """An explaining method of the model, about a checked table."""
        check_is_fitted(self)
        table = self._table(X, self._known_categories(), reset=False)
        return getattr(self.model_, method)(table, **{"n_jobs": self.n_jobs, **how})

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """What `predict` says after each iteration."""
        raise NotImplementedError

    def _keep(self, model: Model) -> None:
        """Sets the fitted attributes."""
        info = model.info or TrainInfo()
        self.model_ = self._named_outputs(model)
        self.n_iter_ = model.n_iterations
        self.best_iteration_ = model.best_iteration
        self.best_score_ = info.best_score
        self.evals_result_ = info.evals_result

    def _learn_model(self, model: Model) -> None:
        """What fit would have learnt from y, from a model that was trained elsewhere."""

    def _named_outputs(self, model: Model) -> Model:
        return model

    def _known_categories(self) -> list[int]:
        encoder = self.model_.encoder
        return [] if encoder is None else list(encoder.levels)

    def _table(self, X: Any, categories: Any, *, reset: bool) -> Any:
        """Names and number of features checked; Dataset reads frames and GPU arrays itself."""
        X = not_masked("X", X) if isinstance(X, np.ndarray) else collected(X)
        names = None if is_on_gpu(X) else column_names(X)
        refuse_twice(names or ())
        if names is not None and not hasattr(
            X, "iloc"
        ):  # some versions of scikit-learn know the names of pandas alone
            if reset:
                self.n_features_in_ = len(names)
                self.feature_names_in_ = np.array(names, dtype=object)
            return X
        if (
            hasattr(X, "columns")
            or is_on_gpu(X)
            or _holds_categories(X, categories)
            or _is_table_of_floats(X)
        ):
            return validate_data(self, X, reset=reset, skip_check_array=True)
        sparse = ("csr", "csc")
        try:
            return validate_data(
                self, X, reset=reset, accept_sparse=sparse, ensure_all_finite=False
            )
        except ValueError:
            refuse_text("X", X)
            raise

    def _predict(self, X: Any, **how: Any) -> Array:
        """`how`: keywords of Model.predict."""
        check_is_fitted(self)
        table = self._table(X, self._known_categories(), reset=False)
        return np.asarray(on_host(self.model_.predict(table, n_jobs=self.n_jobs, **how)))

    def _staged(self, X: Any, *, raw_score: bool = False) -> Iterator[Array]:
        check_is_fitted(self)
        table = self._table(X, self._known_categories(), reset=False)
        return self.model_.staged_predict(table, raw_score=raw_score, n_jobs=self.n_jobs)

    @property
    def feature_importances_(self) -> npt.NDArray[np.float64]:
        """Each feature's share of the total, of gain, splits or cover; see `importance_type`."""
        check_is_fitted(self)
        importance = self.model_.feature_importance(self.importance_type)
        total = importance.sum()
        return importance / total if total > 0 else importance

    @property
    def booster_(self) -> Model:
        """LightGBM's name of `model_`."""
        check_is_fitted(self)
        return self.model_

    def get_booster(self) -> Model:
        """XGBoost's name of `model_`."""
        return self.booster_

    @property
    def feature_name_(self) -> list[str]:
        """LightGBM's names of the features."""
        return self.booster_.feature_name()

    def evals_result(self) -> dict[str, dict[str, list[float]]]:
        """XGBoost's name of `evals_result_`."""
        check_is_fitted(self)
        return self.evals_result_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags


def is_prediction(how: Mapping[str, Any]) -> bool:
    """Whether keywords of Model.predict ask for predictions, not for leaves or contributions."""
    return not any(how.get(f"pred_{what}") for what in ("leaf", "contrib", "interactions"))


def _is_table_of_floats(X: Any) -> bool:
    """An array in which scikit-learn would find nothing wrong, nor to convert."""
    is_table = type(X) is np.ndarray and X.ndim == 2 and X.size > 0
    return is_table and X.dtype in (np.float32, np.float64)


def _holds_categories(X: Any, listed: Any) -> bool:
    """An array of objects, some columns of which are listed as categories."""
    is_listed = listed is not None and not isinstance(listed, str) and len(listed) > 0
    return is_listed and getattr(getattr(X, "dtype", None), "kind", "") in ("O", "U", "T")
