"""bitgrove: gradient boosted trees trained in integers, with the same bits everywhere."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bitgrove.callbacks import (
    checkpoint,
    early_stopping,
    log_evaluation,
    progress_bar,
    record_evaluation,
    reset_parameter,
    stop_on_interrupt,
)
from bitgrove.data.binned.dataset import open_dataset
from bitgrove.data.dataset import Dataset
from bitgrove.errors import (
    BitgroveError,
    BitgroveWarning,
    DataError,
    DataTypeError,
    ModelFormatError,
    ParameterError,
    TrainingError,
)
from bitgrove.model.exchange import import_model
from bitgrove.model.model import Model, load
from bitgrove.training.booster import TrainInfo
from bitgrove.training.cross_validation import CVResult, cv
from bitgrove.training.train import train
from bitgrove.version import __version__

if TYPE_CHECKING:
    from bitgrove.estimators import BitGroveClassifier, BitGroveRanker, BitGroveRegressor
    from bitgrove.verification import Verification, verify

__all__ = [
    "BitGroveClassifier",
    "BitGroveRanker",
    "BitGroveRegressor",
    "BitgroveError",
    "BitgroveWarning",
    "CVResult",
    "DataError",
    "DataTypeError",
    "Dataset",
    "Model",
    "ModelFormatError",
    "ParameterError",
    "TrainInfo",
    "TrainingError",
    "Verification",
    "__version__",
    "checkpoint",
    "cv",
    "early_stopping",
    "import_model",
    "load",
    "log_evaluation",
    "open_dataset",
    "progress_bar",
    "record_evaluation",
    "reset_parameter",
    "stop_on_interrupt",
    "train",
    "verify",
]

# What stands on scikit-learn, which takes longer to import than all else: when it is asked for.
_LATER = {
    "BitGroveClassifier": "estimators",
    "BitGroveRanker": "estimators",
    "BitGroveRegressor": "estimators",
    "Verification": "verification",
    "plot_importance": "plotting",
    "plot_metric": "plotting",
    "plot_split_value_histogram": "plotting",
    "plot_tree": "plotting",
    "verify": "verification",
}
_ROOMS = ("dask", "plotting", "theory")
# What LightGBM, XGBoost and CatBoost call it, for the error.
_ELSEWHERE = {
    "Pool": "Dataset",
    "DMatrix": "Dataset",
    "QuantileDMatrix": "Dataset",
    "ExtMemQuantileDMatrix": "Dataset.from_batches",
    "DataIter": "Dataset.from_batches",
    "Sequence": "Dataset.from_batches",
    "Booster": "Model, which train() returns and load(path) reads",
    "CVBooster": "CVResult, which cv() returns",
    "EarlyStopping": "early_stopping",
    "EvaluationMonitor": "log_evaluation",
    "LearningRateScheduler": "reset_parameter",
    "TrainingCheckPoint": "checkpoint",
    "create_tree_digraph": "plot_tree",
    "to_graphviz": "plot_tree",
    "LightGBMError": "BitgroveError",
    "CatBoostError": "BitgroveError",
    "LGBMModel": "BitGroveRegressor",
    "XGBModel": "BitGroveRegressor",
    "CatBoost": "BitGroveRegressor",
    **{
        f"{library}{kind}": f"{room}BitGrove{kind}"
        for kind in ("Classifier", "Regressor", "Ranker")
        for room, library in (
            ("", "LGBM"), ("", "XGB"), ("", "XGBRF"), ("", "CatBoost"),
            ("dask.", "DaskLGBM"), ("dask.", "DaskXGB"),
        )
    },
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"bitgrove.{name}")
    if name not in _LATER:
        here = f"; here it is {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
        raise AttributeError(f"module 'bitgrove' has no attribute {name!r}{here}")
    return getattr(import_module(f"bitgrove.{_LATER[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
