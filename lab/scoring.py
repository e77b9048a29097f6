"""How well a prediction ranks, classifies or estimates: the one scorer, for every system alike.

Receives a Task and predictions on its test rows (probability of class 1, probabilities per class,
values, or ranking scores; for AUC any increasing function of them) and returns the library's own
metrics. NDCG counts a query without relevant rows as perfect (1.0), as the library and LightGBM do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lab.datasets.task import Array, Task
from lab.internals import evaluate

# The metrics of each objective, the paper's first.
METRICS = {
    "binary": ("auc", "logloss"),
    "regression": ("rmse",),
    "multiclass": ("multi_logloss", "multi_error"),
    "lambdarank": ("ndcg@10",),
}
HIGHER_IS_BETTER = {
    "auc": True, "logloss": False, "rmse": False, "multi_logloss": False, "multi_error": False,
    "ndcg@10": True,
}  # fmt: skip


def metric_of(task: Task) -> str:
    """The objective's main metric."""
    return METRICS[task.objective][0]


def score(task: Task, prediction: Array) -> float:
    """The main metric on the task's test rows."""
    return evaluate(metric_of(task), prediction, task.y_test, task.group_test)


def scores(task: Task, prediction: Array) -> dict[str, float]:
    """All metrics of the objective on the task's test rows, the main one first."""
    return {
        metric: evaluate(metric, prediction, task.y_test, task.group_test)
        for metric in METRICS[task.objective]
    }


def titled(dataset: str, metric: str) -> str:
    """A dataset and its metric, with an arrow to where better is."""
    return f"{dataset} {metric}{'↑' if HIGHER_IS_BETTER[metric] else '↓'}"


def best(curve: Sequence[float], metric: str) -> tuple[float, int]:
    """(best value, its iteration from 1) of a metric after each tree."""
    values = np.asarray(curve)
    at = int(np.argmax(values) if HIGHER_IS_BETTER[metric] else np.argmin(values))
    return float(values[at]), at + 1
