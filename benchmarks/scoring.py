"""How well a prediction ranks, classifies or estimates.

This room owns the benchmarks' own metrics, so that every library is judged by
the same code. It receives a Task and predictions on its test rows (probability
of class 1, probabilities per class, values, or ranking scores) and returns
metrics by name, the objective's main metric first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks import Task

Array = NDArray[Any]

HIGHER_IS_BETTER = {
    "auc": True, "logloss": False, "multi_logloss": False, "error": False,
    "rmse": False, "ndcg@10": True,
}  # fmt: skip


def score(task: Task, prediction: Array) -> dict[str, float]:
    """Metrics of predictions on the task's test rows."""
    label = task.y_test
    if task.objective == "binary":
        return {"auc": auc(label, prediction), "logloss": logloss(label, prediction)}
    if task.objective == "multiclass":
        chosen = np.take_along_axis(prediction, label.astype(np.int64)[:, None], axis=1)
        wrong = prediction.argmax(axis=1) != label
        loss = -np.log(np.maximum(chosen, 1e-15)).mean()
        return {"multi_logloss": float(loss), "error": float(wrong.mean())}
    if task.objective == "regression":
        return {"rmse": float(np.sqrt(np.mean((prediction - label.astype(np.float64)) ** 2)))}
    assert task.group_test is not None
    return {"ndcg@10": ndcg(label, prediction, task.group_test, 10)}


def auc(label: Array, prediction: Array) -> float:
    """Area under the ROC curve; tied predictions count half."""
    values, place = np.unique(prediction, return_inverse=True)
    positive = np.bincount(place, weights=label, minlength=len(values))
    negative = np.bincount(place, weights=1 - label, minlength=len(values))
    below = np.cumsum(negative) - negative / 2
    return float(positive @ below / (positive.sum() * negative.sum()))


def logloss(label: Array, prediction: Array) -> float:
    probability = np.clip(prediction.astype(np.float64), 1e-15, 1 - 1e-15)
    return float(-np.mean(np.where(label > 0, np.log(probability), np.log1p(-probability))))


def ndcg(label: Array, prediction: Array, sizes: Array, top: int) -> float:
    """Mean NDCG with gain 2^grade - 1, over the queries that have a relevant document."""
    values = []
    stops = np.cumsum(sizes)
    for start, stop in zip(stops - sizes, stops, strict=True):
        gain = 2.0 ** label[start:stop] - 1
        if gain.max() == 0:
            continue  # any order is as good as another: 0/0
        discount = 1 / np.log2(np.arange(2, min(stop - start, top) + 2))
        order = np.argsort(-prediction[start:stop], kind="stable")[:top]
        values.append(gain[order] @ discount / (np.sort(gain)[::-1][:top] @ discount))
    return float(np.mean(values))
