"""The libraries of the comparison: the same few verbs for each, with its own estimators and files.

Everything else is left as the library has it: a user's first call, not a tuned one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from importlib.metadata import version
from typing import Any


class Library(ABC):
    package: str
    label: str
    formats: tuple[str, ...]  # endings of the files of its models
    poisson: str  # its name of that objective

    def __init__(self) -> None:
        self.module = import_module(self.package)
        self.estimator("Classifier")  # what is imported for it need not be in each fork

    @property
    def version(self) -> str:
        return version(self.package)

    @abstractmethod
    def estimator(self, kind: str, **params: Any) -> Any:
        """kind: Classifier, Regressor or Ranker."""

    @abstractmethod
    def model_of(self, estimator: Any) -> Any:
        """What load returns, too."""

    def save(self, model: Any, path: str) -> None:
        model.save_model(path)

    @abstractmethod
    def load(self, path: str) -> Any: ...

    @abstractmethod
    def raw_scores(self, model: Any, X: Any) -> Any: ...


class Bitgrove(Library):
    package = label = "bitgrove"
    formats = (".bitgrove",)
    poisson = "poisson"

    def estimator(self, kind: str, **params: Any) -> Any:
        return getattr(self.module, f"BitGrove{kind}")(**params)

    def model_of(self, estimator: Any) -> Any:
        return estimator.model_

    def save(self, model: Any, path: str) -> None:
        model.save(path)

    def load(self, path: str) -> Any:
        return self.module.load(path)

    def raw_scores(self, model: Any, X: Any) -> Any:
        return model.predict(X, raw_score=True)


class LightGBM(Library):
    package, label = "lightgbm", "LightGBM"
    formats = (".txt",)
    poisson = "poisson"

    def estimator(self, kind: str, **params: Any) -> Any:
        return getattr(self.module, f"LGBM{kind}")(**params)

    def model_of(self, estimator: Any) -> Any:
        return estimator.booster_

    def load(self, path: str) -> Any:
        return self.module.Booster(model_file=path)

    def raw_scores(self, model: Any, X: Any) -> Any:
        return model.predict(X, raw_score=True)


class XGBoost(Library):
    package, label = "xgboost", "XGBoost"
    formats = (".json", ".ubj")
    poisson = "count:poisson"

    def estimator(self, kind: str, **params: Any) -> Any:
        return getattr(self.module, f"XGB{kind}")(**params)

    def model_of(self, estimator: Any) -> Any:
        return estimator.get_booster()

    def load(self, path: str) -> Any:
        return self.module.Booster(model_file=path)

    def raw_scores(self, model: Any, X: Any) -> Any:
        return model.predict(self.module.DMatrix(X), output_margin=True)


class CatBoost(Library):
    package, label = "catboost", "CatBoost"
    formats = (".cbm", ".json")
    poisson = "Poisson"

    def estimator(self, kind: str, **params: Any) -> Any:
        return getattr(self.module, f"CatBoost{kind}")(allow_writing_files=False, **params)

    def model_of(self, estimator: Any) -> Any:
        return estimator

    def save(self, model: Any, path: str) -> None:
        model.save_model(path, format=path.rpartition(".")[2])

    def load(self, path: str) -> Any:
        return self.module.CatBoost().load_model(path, format=path.rpartition(".")[2])

    def raw_scores(self, model: Any, X: Any) -> Any:
        return model.predict(X, prediction_type="RawFormulaVal")


LIBRARIES: dict[str, type[Library]] = {
    kind.package: kind for kind in (Bitgrove, LightGBM, XGBoost, CatBoost)
}
