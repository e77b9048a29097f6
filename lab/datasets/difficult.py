"""Made-up tables on which settings go wrong: rare classes, few rows, many classes, odd weights.

Each function receives the numbers of training and test rows and returns a Task, as in simple.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lab.datasets.simple import make_multiclass_like, make_ranking_like, make_regression_like
from lab.datasets.task import Array, Task
from lab.internals import make_higgs_like

_FLOW_SHARES = (0.89, 0.0948, 0.013, 0.002, 0.0002)
_FLOW_KINDS = (6, 5, 4, 3, 2)  # of traffic in each class
_LEVELS, _COUNTERS = 12, 18
_WRONG_LABELS = 0.0005


def flows(n_train: int, n_test: int) -> Task:
    """Network traffic in five classes, 89% down to 0.02%, whose labels the features all but tell.

    A class is a few kinds of traffic; a kind has its own log-normal levels and its own counters,
    which are mostly zero. One label in 2,000 is drawn anew.
    """
    shapes, rng = np.random.default_rng(99), np.random.default_rng(5)
    n_rows = n_train + n_test
    y = rng.choice(len(_FLOW_SHARES), n_rows, p=_FLOW_SHARES)
    X = np.empty((n_rows, _LEVELS + _COUNTERS), np.float32)
    for label, n_kinds in enumerate(_FLOW_KINDS):
        for rows in np.array_split(np.flatnonzero(y == label), n_kinds):
            level = shapes.normal(0, 2, _LEVELS)
            spread = np.exp(shapes.normal(-0.5, 0.7, _LEVELS))
            rate = shapes.random(_COUNTERS) ** 3
            normal = rng.normal(size=(len(rows), _LEVELS))
            counts = np.round(rng.exponential(1 + 3 * rate, (len(rows), _COUNTERS)), 1)
            X[rows, :_LEVELS] = np.exp(level + spread * normal)
            X[rows, _LEVELS:] = counts * (rng.random((len(rows), _COUNTERS)) < rate)
    wrong = rng.random(n_rows) < _WRONG_LABELS
    y[wrong] = rng.choice(len(_FLOW_SHARES), int(wrong.sum()), p=_FLOW_SHARES)
    order = rng.permutation(n_rows)
    X, y = X[order], y[order].astype(np.float32)
    return _made("flows", "multiclass", X, y, n_train, n_classes=len(_FLOW_SHARES))


def rare_positives(n_train: int, n_test: int) -> Task:
    """One row in a thousand is positive; a third of them cannot be told from the others."""
    X, y = make_regression_like(n_train + n_test, 20, 21)
    noise = np.random.default_rng(22).random(len(y))
    top = y > np.quantile(y, 1 - 0.0007)
    return _made("rare_positives", "binary", X, (top | (noise < 0.0003)) * 1.0, n_train)


def tiny_binary(n_train: int, n_test: int) -> Task:
    X, y = make_higgs_like(n_train + n_test, seed=23)
    return _made("tiny_binary", "binary", X, y, n_train)


def tiny_regression(n_train: int, n_test: int) -> Task:
    X, y = make_regression_like(n_train + n_test, 8, 24)
    return _made("tiny_regression", "regression", X, y, n_train)


def many_classes(n_train: int, n_test: int) -> Task:
    X, y = make_multiclass_like(n_train + n_test, 20, 25)
    return _made("many_classes", "multiclass", X, y, n_train, n_classes=20)


def light_weights(n_train: int, n_test: int) -> Task:
    """Weights that add up to 100, as survey weights do that are shares; labels as in higgs_like."""
    X, y = make_higgs_like(n_train + n_test, seed=26)
    weight = np.random.default_rng(27).exponential(100.0 / n_train, n_train).astype(np.float32)
    return _made("light_weights", "binary", X, y, n_train, weight_train=weight)


def counts(n_train: int, n_test: int) -> Task:
    """Counts of rare events (Poisson, mean 0.1 to 20), as a regression."""
    X, y = make_regression_like(n_train + n_test, 12, 28)
    rate = np.exp(np.clip((y - y.mean()) / y.std(), -2.0, 3.0))
    return _made("counts", "regression", X, np.random.default_rng(29).poisson(rate), n_train)


def tiny_ranking(n_train: int, n_test: int) -> Task:
    """A handful of queries of 32 rows or so."""
    n_queries = max(n_train // 32, 2)
    X, y, group = make_ranking_like(n_queries + max(n_test // 32, 1), 30)
    n = int(group[:n_queries].sum())
    sizes = {"group_train": group[:n_queries], "group_test": group[n_queries:]}
    return _made("tiny_ranking", "lambdarank", X, y, n, **sizes)


def _made(name: str, objective: str, X: Array, y: Array, n_train: int, **more: Any) -> Task:
    return Task.cut(name, objective, X, y.astype(np.float32), n_train, note="generated", **more)
