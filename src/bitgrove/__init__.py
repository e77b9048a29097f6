"""bitgrove: gradient boosted trees trained in integers, with the same bits everywhere."""

# ruff: noqa: E402 -- the core is loaded before anything imports it
from typing import TYPE_CHECKING, Any

from bitgrove.machine.openmp import load_core

load_core()

from bitgrove.callbacks import (
    checkpoint,
    early_stopping,
    log_evaluation,
    progress_bar,
    record_evaluation,
    reset_parameter,
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
from bitgrove.verification import Verification, verify
from bitgrove.version import __version__

if TYPE_CHECKING:
    from bitgrove.estimators import BitGroveClassifier, BitGroveRanker, BitGroveRegressor

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
    "train",
    "verify",
]


def __getattr__(name: str) -> Any:
    """The estimators, when they are first asked for: scikit-learn takes longer than all else."""
    if name not in ("BitGroveClassifier", "BitGroveRanker", "BitGroveRegressor"):
        raise AttributeError(f"module 'bitgrove' has no attribute {name!r}")
    from bitgrove import estimators

    return getattr(estimators, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
