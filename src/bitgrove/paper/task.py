"""One problem to train on, and how predictions on it are judged.

Owns Task and score(): the library's own metrics, for every system alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.distributed.comm import SoloComm
from bitgrove.objectives import label_gains
from bitgrove.objectives.metrics import EvalData, make_metric
from bitgrove.params import TrainParams

Array = NDArray[Any]
# The paper's metric of each objective, and whether more of it is better.
METRIC = {
    "binary": "auc", "regression": "rmse", "multiclass": "multi_logloss", "lambdarank": "ndcg@10",
}  # fmt: skip
HIGHER_IS_BETTER = {"auc": True, "rmse": False, "multi_logloss": False, "ndcg@10": True}


@dataclass(frozen=True, eq=False)
class Task:
    """One problem, ready to train on: float32 features and labels, query sizes for ranking."""

    name: str
    objective: str
    X_train: Array
    y_train: Array
    X_test: Array
    y_test: Array
    group_train: Array | None = None
    group_test: Array | None = None
    n_classes: int = 1
    note: str = ""
    weight_train: Array | None = None

    @property
    def shape(self) -> str:
        return f"{len(self.X_train):,} x {self.X_train.shape[1]}, {len(self.X_test):,} test rows"

    @property
    def metric(self) -> str:
        return METRIC[self.objective]


def score(task: Task, prediction: Array) -> float:
    """The task's metric on its test rows; a query without relevant rows counts as perfect."""
    label = task.y_test.astype(np.float64)
    data = EvalData(
        np.asarray(prediction, dtype=np.float64),
        label,
        np.ones_like(label),
        None if task.group_test is None else task.group_test.astype(np.int64),
        label_gains(TrainParams()),
    )
    return make_metric(task.metric).compute(data, SoloComm())


def best(curve: list[float], metric: str) -> tuple[float, int]:
    """(best value, its iteration from 1) of a metric after each tree."""
    values = np.asarray(curve)
    at = int(np.argmax(values) if HIGHER_IS_BETTER[metric] else np.argmin(values))
    return float(values[at]), at + 1
