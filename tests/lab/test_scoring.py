"""The one scorer, against plain formulas."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss, ndcg_score, roc_auc_score

import bitgrove as bg
from lab.datasets import simple
from lab.datasets.task import Task
from lab.scoring import HIGHER_IS_BETTER, METRICS, best, score, scores


def _task(objective: str, label: list[float], group: list[int] | None = None) -> Task:
    X, y = np.zeros((len(label), 1), np.float32), np.array(label, np.float32)
    sizes = None if group is None else np.array(group)
    return Task("t", objective, X, y, X, y, sizes, sizes)


def test_a_query_without_relevant_rows_is_perfect() -> None:
    """As in the library's own metric and in LightGBM; a mean without it would be another number."""
    task = _task("lambdarank", [0, 0, 0, 1, 0], group=[3, 2])
    wrong_way = np.array([1.0, 2.0, 3.0, 1.0, 2.0])
    second = 1 / np.log2(3)
    assert score(task, wrong_way) == pytest.approx((1.0 + second) / 2)
    assert score(_task("lambdarank", [0, 0], group=[2]), np.array([1.0, 2.0])) == 1.0


def test_the_scorer_and_a_training_agree_on_such_queries() -> None:
    task = simple.ranking_like(640, 640)
    task.y_test[: task.group_test[0]] = 0.0
    params = {"objective": "lambdarank", "n_estimators": 3, "eval_metric": "ndcg@10"}
    model = bg.train(params, task.train.dataset(), valid_sets=task.test.dataset())
    told = model.info.evals_result["valid_0"]["ndcg@10"][-1]
    assert score(task, model.predict(task.X_test)) == pytest.approx(told, abs=1e-12)


def test_metrics_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    label, prediction = rng.integers(0, 2, 200), rng.random(200)
    found = scores(_task("binary", label.tolist()), prediction)
    assert found["auc"] == pytest.approx(roc_auc_score(label, prediction))
    assert found["logloss"] == pytest.approx(log_loss(label, prediction))
    grades = rng.integers(0, 5, 40)
    gains, ranks = 2.0**grades - 1, rng.random(40)
    expected = ndcg_score([gains], [ranks], k=10)
    task = _task("lambdarank", grades.tolist(), group=[40])
    assert score(task, ranks) == pytest.approx(expected)
    values = rng.normal(size=40)
    rmse = np.sqrt(np.mean((values - grades) ** 2))
    assert score(_task("regression", grades.tolist()), values) == pytest.approx(rmse)


def test_every_metric_knows_where_better_is() -> None:
    assert set(HIGHER_IS_BETTER) == {name for names in METRICS.values() for name in names}
    assert best([0.5, 0.75, 0.7], "auc") == (0.75, 2)
    assert best([3.0, 2.0, 2.5], "rmse") == (2.0, 2)
