"""Made-up data of the shape and character of the paper's eight datasets.

Owns one generator per dataset. Each receives the numbers of train and test rows and returns a Task
with the real set's columns, missing values, imbalance, tails and query lengths, and a signal that
is neither trivial nor hopeless; nothing is downloaded. Rows come in blocks, each with its stream
keyed by (dataset, block), so that memory stays near that of the table itself.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from lab.datasets.encoding import encode_categories
from lab.datasets.task import Array, Task
from lab.internals import make_higgs_like

F64 = NDArray[np.float64]
Rng = np.random.Generator
_BLOCK = 1 << 16


def _stream(*key: int) -> Rng:
    return np.random.Generator(np.random.PCG64([2022, *key]))


def _in_blocks(
    n_rows: int, n_features: int, key: int, make: Callable[[Rng, int], tuple[F64, F64]]
) -> tuple[Array, Array]:
    """(X, y), float32, from make(stream, rows) -> (features, label)."""
    X, y = np.empty((n_rows, n_features), np.float32), np.empty(n_rows, np.float32)
    for block, start in enumerate(range(0, n_rows, _BLOCK)):
        size = min(_BLOCK, n_rows - start)
        X[start : start + size], y[start : start + size] = make(_stream(key, block), size)
    return X, y


def _draw(rng: Rng, logit: F64) -> F64:
    """Labels 0 or 1 with these log-odds."""
    return (rng.random(len(logit)) < 1.0 / (1.0 + np.exp(-logit))).astype(np.float64)


def higgs(n_train: int, n_test: int) -> Task:
    """28 columns of collision events; see the library's demo."""
    X, y = make_higgs_like(n_train + n_test, seed=2022)
    return Task.cut("higgs", "binary", X, y, n_train, note="generated")


def epsilon(n_train: int, n_test: int) -> Task:
    """2,000 dense columns, rows of unit length; many weak features that share 60 causes."""
    shape = _stream(1)
    mixing = shape.standard_normal((60, 2000)) * (shape.random((60, 2000)) < 0.3)
    weights = shape.standard_normal(60)

    def block(rng: Rng, n: int) -> tuple[F64, F64]:
        causes = rng.standard_normal((n, 60))
        X = causes @ mixing + 2.0 * rng.standard_normal((n, 2000))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        return X, _draw(rng, 0.9 * causes @ weights)

    X, y = _in_blocks(n_train + n_test, 2000, 1, block)
    return Task.cut("epsilon", "binary", X, y, n_train, note="generated")


def kitsune(n_train: int, n_test: int) -> Task:
    """115 damped statistics of network traffic, 8 captures; train and test are first and last."""
    parts = [_capture(k, n_train // 8, n_test // 8) for k in range(7)]
    parts.append(_capture(7, n_train - 7 * (n_train // 8), n_test - 7 * (n_test // 8)))
    X_train, y_train, X_test, y_test = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Task("kitsune", "binary", X_train, y_train, X_test, y_test, note="generated")


def _capture(number: int, n_train: int, n_test: int) -> tuple[Array, Array, Array, Array]:
    """One attack: calm traffic, then bursts of malicious packets among the calm ones."""
    rng, n = _stream(2, number), n_train + n_test
    calm = lfilter([1.0], [1.0, -0.995], rng.standard_normal((n, 5)), axis=0) * 0.1
    begin = rng.uniform(0.2, 0.5) * n
    wave = lfilter([1.0], [1.0, -0.99], rng.standard_normal(n)) * 0.14
    attack = (np.arange(n) > begin) & (wave + 0.6 * rng.standard_normal(n) > 0.2)
    pattern = 2.2 * rng.standard_normal(5)
    packets = calm + attack[:, None] * pattern + rng.standard_normal((n, 5))
    mixing = _stream(2).standard_normal((5, 23)) * 0.6
    X = np.empty((n, 115), np.float32)
    for window, decay in enumerate((0.2, 0.5, 0.8, 0.9, 0.97)):
        smooth = lfilter([1.0 - decay], [1.0, -decay], packets, axis=0)
        noise = 0.3 * rng.standard_normal((n, 23))
        # Counts, sizes and their variances: positive, with tails over orders of magnitude.
        X[:, 23 * window : 23 * (window + 1)] = np.exp(1.5 * (smooth @ mixing + noise))
    y = attack.astype(np.float32)
    return X[:n_train], y[:n_train], X[n_train:], y[n_train:]


def criteo(n_train: int, n_test: int) -> Task:
    """13 counts with missing values and 26 categories, encoded as the paper does; 26% clicks."""
    n, shape = n_train + n_test, _stream(3)
    levels = np.geomspace(4, max(n // 8, 8), 26).astype(np.int64)
    effects = [0.45 * shape.standard_normal(level) for level in levels]
    counts, label = np.empty((n, 13), np.float32), np.empty(n, np.float32)
    codes = np.empty((26, n), np.int64)
    for block, start in enumerate(range(0, n, _BLOCK)):
        rng, rows = _stream(3, block), slice(start, min(start + _BLOCK, n))
        size = rows.stop - rows.start
        latent = rng.standard_normal((size, 13))
        logit = 0.35 * latent[:, :6].sum(axis=1) - 0.5 * latent[:, 0] * latent[:, 1] - 1.6
        for k, level in enumerate(levels):
            # A few levels have most of the rows, as in any log.
            codes[k, rows] = (level * rng.random(size) ** 4).astype(np.int64)
            logit += effects[k][codes[k, rows]]
        block_counts = np.floor(np.exp(1.3 * latent + 1.0))
        block_counts[rng.random((size, 13)) < np.linspace(0.0, 0.7, 13)] = np.nan
        counts[rows], label[rows] = block_counts, _draw(rng, logit)
    encoded = encode_categories(list(codes), label, n_train)
    return Task.cut(
        "criteo", "binary", np.hstack([counts, encoded]), label, n_train, note="generated"
    )


def bosch(n_train: int, n_test: int) -> Task:
    """968 measurements of parts that pass through some of 52 stations; 0.6% fail."""
    shape = _stream(4)
    station = np.sort(shape.integers(0, 52, 968))
    chance = shape.beta(0.4, 1.6, 52)
    guilty = np.flatnonzero(chance[station] > 0.3)[:40]

    def block(rng: Rng, n: int) -> tuple[F64, F64]:
        visited = rng.random((n, 52)) < chance
        visited[:, 0] = True
        X = np.round(0.15 * rng.standard_normal((n, 968)), 2)
        X[~visited[:, station]] = np.nan
        bad = np.nansum(np.abs(X[:, guilty]) > 0.3, axis=1)
        return X, _draw(rng, 0.85 * bad + 1.2 * ~visited[:, 1] - 7.4)

    X, y = _in_blocks(n_train + n_test, 968, 4, block)
    return Task.cut("bosch", "binary", X, y, n_train, note="generated")


def year(n_train: int, n_test: int) -> Task:
    """90 columns: 12 timbres of a song and 78 products of them; its year, mostly after 1990."""
    first, second = np.triu_indices(12)
    loading = _stream(5).standard_normal((12, 78))

    def block(rng: Rng, n: int) -> tuple[F64, F64]:
        timbre = rng.standard_normal((n, 12)) * np.linspace(2.0, 0.6, 12)
        products = timbre[:, first] * timbre[:, second]
        noise = 4.0 * rng.standard_normal((n, 78))
        age = (
            1.9 + 0.22 * timbre[:, 0] - 0.1 * timbre[:, 1] * timbre[:, 2]
            + 0.35 * np.tanh(products[:, 40]) + 0.25 * (timbre[:, 5] > 1.0)
            + 0.62 * rng.standard_normal(n)
        )  # fmt: skip
        X = np.hstack([10.0 * timbre, 30.0 * (products + timbre @ loading + noise)])
        return X, np.clip(np.round(2011.0 - np.exp(age)), 1922.0, 2011.0)

    X, y = _in_blocks(n_train + n_test, 90, 5, block)
    return Task.cut("year", "regression", X, y, n_train, note="generated")


def yahoo(n_train: int, n_test: int) -> Task:
    """700 columns in [0, 1], more than half of them zero; about 24 documents per query."""
    shares = (0.26, 0.36, 0.28, 0.08, 0.02)
    return _ranking("yahoo", 6, 700, (5, 43), 0.55, shares, n_train, n_test)


def letor(n_train: int, n_test: int) -> Task:
    """136 columns with heavy tails; about 120 documents per query, half of them irrelevant."""
    shares = (0.52, 0.32, 0.13, 0.02, 0.01)
    return _ranking("letor", 7, 136, (40, 200), 0.2, shares, n_train, n_test)


def _ranking(
    name: str, key: int, n_features: int, documents: tuple[int, int], zeros: float,
    shares: tuple[float, ...], n_train: int, n_test: int,
) -> Task:  # fmt: skip
    sizes = [
        _query_sizes(_stream(key, part), n, documents) for part, n in ((0, n_train), (1, n_test))
    ]
    shape = _stream(key)
    informative = min(n_features, 60)
    weights = shape.standard_normal(informative) / np.sqrt(informative)
    normal = np.sort(_stream(key, 2).standard_normal(100_000))
    cuts = normal[(np.cumsum(shares)[:-1] * len(normal)).astype(int)] * 1.45
    parts = []
    for part, group in enumerate(sizes):
        rng, n = _stream(key, 3, part), int(group.sum())
        query = np.repeat(rng.standard_normal((len(group), 3)), group, axis=0)
        X, y = np.empty((n, n_features), np.float32), np.empty(n, np.float32)
        for start in range(0, n, _BLOCK):
            rows = slice(start, min(start + _BLOCK, n))
            X[rows], relevance = _documents(rng, query[rows], weights, n_features, zeros)
            y[rows] = np.searchsorted(cuts, relevance)
        parts.append((X, y, group))
    (X, y, group), (X_test, y_test, group_test) = parts
    return Task(name, "lambdarank", X, y, X_test, y_test, group, group_test, note="generated")


def _documents(
    rng: Rng, query: F64, weights: F64, n_features: int, zeros: float
) -> tuple[F64, F64]:
    """Features of documents and their relevance to their queries (standard deviation 1.45)."""
    n, informative = len(query), len(weights)
    latent = rng.standard_normal((n, n_features))
    match = np.tanh(latent[:, :informative]) @ weights * 1.6
    interaction = 0.4 * latent[:, 0] * (query[:, 0] > 0) - 0.3 * np.abs(latent[:, 1] - query[:, 1])
    relevance = match + interaction + 0.3 + 0.3 * query[:, 2] + 0.9 * rng.standard_normal(n)
    X = np.exp(latent)
    X[rng.random((n, n_features)) < zeros] = 0.0
    X[:, -3:] = query
    return X / (1.0 + X) if n_features > 200 else X, relevance


def _query_sizes(rng: Rng, n_rows: int, documents: tuple[int, int]) -> NDArray[np.int64]:
    """Sizes that add up to n_rows exactly."""
    sizes = rng.integers(*documents, n_rows // documents[0] + 1)
    ends = np.minimum(np.cumsum(sizes), n_rows)
    found = np.diff(np.concatenate([[0], ends]))
    return np.asarray(found[found > 0], np.int64)
