"""Made-up tables that stand for no real set: one of each objective, two with heavy tails, any size.

The make_ functions receive sizes and a seed and return float32 features with labels (and query
sizes); rows come in blocks with streams of their own, as in the library's demo, so that a
shorter call is a prefix of a longer one and the relation of features and labels is that of every
seed. The others receive the numbers of training and test rows and return a Task.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lab.datasets.task import Array, Task
from lab.internals import blocks, make_higgs_like

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]
_BLOCK = 1 << 14
_RANKING_FEATURES = 24
_MULTICLASS_FEATURES = 20


def make_regression_like(
    n_rows: int, n_features: int = 20, seed: int = 0
) -> tuple[Float32, Float32]:
    """A regression problem: X float32 (n_rows, n_features), y float32.

    Columns take turns between uniform, normal, log-normal and ten-valued. The
    first five carry the label: a sine of a product, a square, a step, a
    threshold interaction and a linear term. The noise grows with the second
    column; a good model explains roughly 95% of the variance.
    """
    if n_features < 5:
        raise ValueError(f"n_features must be at least 5, got {n_features}")
    features = np.empty((n_rows, n_features), np.float32)
    label = np.empty(n_rows, np.float32)
    for rows, rng in blocks(n_rows, seed, _BLOCK):
        block = rng.standard_normal((_BLOCK, n_features))
        noise = rng.standard_normal(_BLOCK)
        block[:, 0::4] = rng.random(block[:, 0::4].shape)
        np.exp(0.75 * block[:, 2::4], out=block[:, 2::4])
        block[:, 3::4] = rng.integers(0, 10, block[:, 3::4].shape)
        target = (
            10 * np.sin(np.pi * block[:, 0] * block[:, 4])
            + 2 * block[:, 1] ** 2
            + 4 * (block[:, 2] > 1.5)
            + np.where(block[:, 3] >= 6, 3 * block[:, 1], -block[:, 2])
            + 5 * block[:, 4]
            + (0.8 + 0.4 * np.abs(block[:, 1])) * noise
        )
        features[rows] = block[: rows.stop - rows.start]
        label[rows] = target[: rows.stop - rows.start]
    return features, label


def make_multiclass_like(n_rows: int, n_classes: int = 5, seed: int = 0) -> tuple[Float32, Float32]:
    """A multiclass problem: X float32 (n_rows, 20), y float32 holding 0 .. n_classes - 1.

    Each class scores a row through its own mixture of bent projections and
    pairwise products; the label is drawn from the softmax of the scores, so
    even a perfect model errs on some rows.
    """
    if n_classes < 2:
        raise ValueError(f"n_classes must be at least 2, got {n_classes}")
    # The classes' shapes come from their own stream: they are the same for every seed.
    shapes = np.random.Generator(np.random.PCG64([2022, n_classes]))
    bent = shapes.standard_normal((8, n_classes))
    paired = shapes.standard_normal((6, n_classes))
    features = np.empty((n_rows, _MULTICLASS_FEATURES), np.float32)
    label = np.empty(n_rows, np.float32)
    for rows, rng in blocks(n_rows, seed, _BLOCK):
        block = rng.standard_normal((_BLOCK, _MULTICLASS_FEATURES))
        scores = 1.6 * np.tanh(2 * block[:, :8]) @ bent + (block[:, 8:14] * block[:, :6]) @ paired
        drawn = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
        features[rows] = block[: rows.stop - rows.start]
        label[rows] = drawn[: rows.stop - rows.start]
    return features, label


def make_ranking_like(n_queries: int, seed: int = 0) -> tuple[Float32, Float32, Int64]:
    """A ranking problem: X float32 (n, 24), y float32 grades 0-4, group int64 (n_queries,).

    A query has 5 to 60 rows, which are contiguous. The first four columns describe the
    query (equal on all of its rows), the others the document. Half of the
    documents are irrelevant and few have the highest grade, as in web search logs.
    """
    features, grades, sizes = [], [], []
    for queries, rng in blocks(n_queries, seed, block=256):
        size = rng.integers(5, 61, 256)[: queries.stop - queries.start]
        n_documents = 256 * 60  # drawn for the largest block, so that a shorter call is a prefix
        query = rng.standard_normal((256, 4))[np.repeat(np.arange(len(size)), size)]
        document = rng.standard_normal((n_documents, _RANKING_FEATURES - 4))[: len(query)]
        noise = rng.standard_normal(n_documents)[: len(query)]
        relevance = (
            1.2 * document[:, 0]
            + np.tanh(2 * document[:, 1]) * (query[:, 0] > 0)
            + 0.8 * document[:, 2] * document[:, 3]
            - 0.6 * np.abs(document[:, 4] - query[:, 1])
            + 0.5 * query[:, 2]
            + 0.9 * noise
        )
        features.append(np.hstack([query, document]).astype(np.float32))
        grades.append(np.searchsorted([-0.65, 0.75, 2.0, 3.1], relevance).astype(np.float32))
        sizes.append(size)
    return np.concatenate(features), np.concatenate(grades), np.concatenate(sizes)


# ---------------------------------------------------------------- tasks


def _two_seeds(
    name: str, objective: str, make: Callable[..., tuple[Array, ...]], n_train: int, n_test: int,
    n_classes: int = 1,
) -> Task:  # fmt: skip
    """Training rows from seed 0, test rows from seed 1."""
    (X, y, *group), (X_test, y_test, *group_test) = make(n_train, seed=0), make(n_test, seed=1)
    return Task(
        name, objective, X, y, X_test, y_test,
        group[0] if group else None, group_test[0] if group else None, n_classes, "generated",
    )  # fmt: skip


def higgs_like(n_train: int, n_test: int) -> Task:
    return _two_seeds("higgs_like", "binary", make_higgs_like, n_train, n_test)


def regression_like(n_train: int, n_test: int) -> Task:
    return _two_seeds("regression_like", "regression", make_regression_like, n_train, n_test)


def multiclass_like(n_train: int, n_test: int) -> Task:
    return _two_seeds("multiclass_like", "multiclass", make_multiclass_like, n_train, n_test, 5)


def ranking_like(n_train: int, n_test: int) -> Task:
    """About so many rows: a query has 32 or so."""
    n_queries = max(n_train // 32, 2), max(n_test // 32, 1)
    return _two_seeds("ranking_like", "lambdarank", make_ranking_like, *n_queries)


def wide_binary(n_train: int, n_test: int, n_features: int) -> Task:
    """The regression cut at its median: any number of features, binary."""
    X, y = make_regression_like(n_train + n_test, n_features, 0)
    label = (y > np.median(y[:n_train])).astype(np.float32)
    name = f"binary_{n_features}"
    return Task.cut(name, "binary", X, label, n_train, note="generated")


def wide_normal(n_train: int, n_test: int, n_features: int) -> Task:
    """Independent normal columns, of which 40 carry the label; quick to make at any size."""
    rng = np.random.Generator(np.random.SFC64(0))
    X = rng.standard_normal((n_features, n_train + n_test), dtype=np.float32).T
    logit = X[:, :40] @ np.linspace(-0.5, 0.5, 40, dtype=np.float32) + X[:, 0] * X[:, 1]
    y = (logit + rng.standard_normal(len(X), dtype=np.float32) > 0).astype(np.float32)
    return Task.cut("wide", "binary", X, y, n_train, note="generated")


def long_queries(n_train: int, n_test: int, n_features: int) -> Task:
    """So many queries of 50 to 150 rows with grades 0 to 4; quick to make at any size."""
    rng = np.random.Generator(np.random.SFC64(1))
    group = rng.integers(50, 151, n_train + n_test)
    X = rng.standard_normal((int(group.sum()), n_features), dtype=np.float32)
    relevance = X[:, 0] + np.tanh(2 * X[:, 1]) + X[:, 2] * X[:, 3]
    relevance += rng.standard_normal(len(X), dtype=np.float32)
    y = np.searchsorted([0.5, 1.5, 2.5, 3.5], relevance).astype(np.float32)
    n = int(group[:n_train].sum())
    sizes = group[:n_train], group[n_train:]
    return Task("ranking", "lambdarank", X[:n], y[:n], X[n:], y[n:], *sizes, note="generated")


def pareto(n_train: int, n_test: int) -> Task:
    """A smooth signal with Pareto noise (exponent 1.3, so no variance); tested without noise."""
    rng = np.random.default_rng(13)
    X = rng.normal(size=(n_train + n_test, 10)).astype(np.float32)
    signal = 10.0 * np.sin(X[:, 0]) + 5.0 * X[:, 1] * X[:, 2] + 3.0 * np.abs(X[:, 3])
    tail = rng.pareto(1.3, len(X)) * rng.choice([-1.0, 1.0], len(X))
    y = np.where(np.arange(len(X)) < n_train, signal + tail, signal).astype(np.float32)
    return Task.cut("pareto", "regression", X, y, n_train, note="generated")


def weights(n_train: int, n_test: int) -> Task:
    """The regression; one row in a thousand counts ten thousand times. Unweighted test."""
    X, y = make_regression_like(n_train + n_test, 20, 13)
    heavy = np.random.default_rng(14).random(n_train) < 1e-3
    weight = np.where(heavy, 1e4, 1.0).astype(np.float32)
    return Task.cut("weights", "regression", X, y, n_train, note="generated", weight_train=weight)
