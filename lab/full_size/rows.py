"""Rows of the shape and character of the paper's sets, made on the device that trains on them.

Receives a name, the numbers of training, validation and test rows, and the array module (NumPy or
CuPy); returns a FullTask. The recipes are those of lab.datasets.paper_like as operations on whole
columns. Random numbers are hashes of a counter (draws): both array modules make the same rows, but
for the last bit of exp, log and cos.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lab.full_size.draws import Draws, Xp
from lab.internals import import_cupy

Columns = Any  # (n_features, n_rows) float32
_BLOCK_VALUES = 1 << 26
_SHAPE_SEED = 2022
Recipe = Callable[[Xp, Draws, int], tuple[Columns, Any]]


@dataclass(frozen=True, eq=False)
class Part:
    """X: (n_rows, n_features) on the device, columns contiguous; y and group on the host."""

    X: Any
    y: np.ndarray[Any, Any]
    group: np.ndarray[Any, Any] | None = None


@dataclass(frozen=True, eq=False)
class FullTask:
    train: Part
    valid: Part
    test: Part

    @property
    def shape(self) -> str:
        rows, features = self.train.X.shape
        return f"{rows:,} x {features}, {len(self.valid.y):,} validation, {len(self.test.y):,} test"


def arrays_on(device: str) -> Xp:
    return import_cupy() if device == "cuda" else np


def on_host(array: Any) -> np.ndarray[Any, Any]:
    return np.asarray(array if isinstance(array, np.ndarray) else array.get())


def make(name: str, sizes: tuple[int, int, int], xp: Xp) -> FullTask:
    """sizes: training, validation and test rows."""
    if name in _RANKING:
        return _ranking(name, sizes, xp)
    if name == "kitsune":
        table, y = _kitsune(xp, sizes)
    elif name == "criteo":
        table, y = _criteo(xp, sizes)
    else:
        n_features, recipe = _RECIPES[name]
        table, y = _in_blocks(xp, sum(sizes), n_features, _seed(name), recipe)
    return FullTask(*_cut(table, on_host(y), sizes))


def _cut(table: Columns, y: Any, sizes: tuple[int, ...], groups: Any = (None,) * 3) -> list[Part]:
    ends = np.cumsum(sizes)
    return [
        Part(table[:, end - n : end].T, y[end - n : end], group)
        for n, end, group in zip(sizes, ends.tolist(), groups, strict=True)
    ]


def _seed(name: str, part: int = 0) -> int:
    return _SHAPE_SEED * 1000 + 10 * sum(map(ord, name)) + part


def _in_blocks(
    xp: Xp, n_rows: int, n_features: int, seed: int, recipe: Recipe
) -> tuple[Columns, Any]:
    """Block by block: what is drawn on the way would not fit beside the table."""
    table, y = xp.empty((n_features, n_rows), np.float32), xp.empty(n_rows, np.float32)
    rng = Draws(xp, seed)
    step = max(1, _BLOCK_VALUES // n_features)
    for first in range(0, n_rows, step):
        rows = slice(first, min(first + step, n_rows))
        table[:, rows], y[rows] = recipe(xp, rng, rows.stop - first)
    return table, y


def _drawn(xp: Xp, rng: Draws, logit: Any) -> Any:
    """Labels 0 or 1 with these log-odds."""
    return (rng.uniform(*logit.shape) < 1.0 / (1.0 + xp.exp(-logit))).astype(np.float32)


def _mixed(xp: Xp, weights: np.ndarray[Any, Any], values: Any) -> Any:
    """weights @ values, added up in the same order by every array module."""
    mixed = xp.zeros((len(weights), values.shape[1]), np.float32)
    for k, column in enumerate(weights.T.astype(np.float32)):
        mixed += xp.asarray(column)[:, None] * values[k]
    return mixed


def _shape(key: int) -> np.random.Generator:
    """What all rows of a set share, the same on every device."""
    return np.random.default_rng([_SHAPE_SEED, key])


def _higgs(xp: Xp, rng: Draws, n: int) -> tuple[Columns, Any]:
    """A lepton, missing momentum and four jets; seven masses of sums of their four-vectors."""
    hard = 0.25 * rng.normal(n)
    pt = xp.exp(hard + 0.5 * rng.normal(6, n) - 0.15)  # jets, lepton, missing momentum
    eta, phi = xp.clip(rng.normal(6, n), -2.5, 2.5), 2 * np.pi * rng.uniform(6, n) - np.pi
    eta[5] = 0.0
    odds = rng.uniform(4, n) + 0.08 * (pt[:4] - 1.0)
    tags = 1.087 * (odds > 0.5) + 1.086 * (odds > 0.78)
    vectors = xp.stack([pt * xp.cosh(eta), pt * xp.cos(phi), pt * xp.sin(phi), pt * xp.sinh(eta)])

    def mass(*members: int) -> Any:
        e, x, y, z = sum(vectors[:, k] for k in members)
        return xp.sqrt(xp.maximum(e * e - x * x - y * y - z * z, 0.0))

    jj, jjj, lv = mass(2, 3) / 1.5, mass(1, 2, 3) / 3.0, mass(4, 5) / 1.9
    jlv, bb = mass(4, 5, 0) / 4.0, mass(0, 1) / 2.8
    wbb, wwbb = mass(0, 1, 4, 5) / 6.0, mass(0, 1, 2, 3, 4, 5) / 9.0
    logit = 1.4 * (
        1.5 * xp.exp(-(((bb - 0.9) / 0.3) ** 2)) + xp.exp(-(((jj - 0.8) / 0.4) ** 2))
        + 0.8 * xp.exp(-(((lv - 0.9) / 0.35) ** 2)) - 1.2 * xp.tanh(1.5 * (wwbb - 1))
        - 0.8 * xp.tanh(2 * (wbb - jlv))
        + 0.3 * (tags[0] + tags[1] - tags[2] - tags[3]) * (bb < 1.3)
        + 0.9 * xp.sin(3 * xp.log((jjj + 0.1) / (jlv + 0.1)))
        + 0.7 * xp.cos(phi[4] - phi[5]) * xp.tanh(pt[4] * pt[5])
        + 0.7 * xp.cos(phi[0] - phi[1]) * xp.tanh(eta[0] * eta[1]) - 1.65
    )  # fmt: skip
    low = [pt[4:], eta[4:5], phi[4:], pt[:4], eta[:4], phi[:4], tags]
    masses = xp.stack([jj, jjj, lv, jlv, bb, wbb, wwbb])
    return xp.concatenate([*low, masses]), _drawn(xp, rng, logit)


def _epsilon(xp: Xp, rng: Draws, n: int) -> tuple[Columns, Any]:
    """2,000 weak columns that share 60 causes; rows of unit length."""
    shape = _shape(1)
    mixing = shape.standard_normal((2000, 60)) * (shape.random((2000, 60)) < 0.3)
    weights = shape.standard_normal((1, 60))
    causes = rng.normal(60, n)
    X = _mixed(xp, mixing, causes) + 2.0 * rng.normal(2000, n)
    X /= xp.sqrt((X * X).sum(axis=0))
    return X, _drawn(xp, rng, 0.9 * _mixed(xp, weights, causes)[0])


def _bosch(xp: Xp, rng: Draws, n: int) -> tuple[Columns, Any]:
    """968 measurements of parts that pass through some of 52 stations; 0.6% fail."""
    shape = _shape(4)
    station, chance = np.sort(shape.integers(0, 52, 968)), shape.beta(0.4, 1.6, 52)
    guilty = np.flatnonzero(chance[station] > 0.3)[:40]
    visited = rng.uniform(52, n) < xp.asarray(chance, np.float32)[:, None]
    visited[0] = True
    X = xp.around(0.15 * rng.normal(968, n), 2)
    X = xp.where(visited[xp.asarray(station)], X, np.float32(np.nan))
    bad = (xp.abs(X[xp.asarray(guilty)]) > 0.3).sum(axis=0)
    return X, _drawn(xp, rng, 0.85 * bad + 1.2 * ~visited[1] - 7.4)


def _year(xp: Xp, rng: Draws, n: int) -> tuple[Columns, Any]:
    """12 timbres of a song and 78 products of them; its year, mostly after 1990."""
    first, second = (xp.asarray(index) for index in np.triu_indices(12))
    loading = _shape(5).standard_normal((78, 12))
    timbre = rng.normal(12, n) * xp.asarray(np.linspace(2.0, 0.6, 12), np.float32)[:, None]
    products = timbre[first] * timbre[second]
    age = (
        1.9 + 0.22 * timbre[0] - 0.1 * timbre[1] * timbre[2] + 0.35 * xp.tanh(products[40])
        + 0.25 * (timbre[5] > 1.0) + 0.62 * rng.normal(n)
    )  # fmt: skip
    noisy = products + _mixed(xp, loading, timbre) + 4.0 * rng.normal(78, n)
    label = xp.clip(xp.rint(2011.0 - xp.exp(age)), 1922.0, 2011.0)
    return xp.concatenate([10.0 * timbre, 30.0 * noisy]), label


_RECIPES: dict[str, tuple[int, Recipe]] = {
    "higgs": (28, _higgs), "epsilon": (2000, _epsilon), "bosch": (968, _bosch), "year": (90, _year),
}  # fmt: skip


# ---------------------------------------------------------------- traffic: rows that follow in time


def _kitsune(xp: Xp, sizes: tuple[int, int, int]) -> tuple[Columns, Any]:
    """Eight captures; the first rows of each train, the next validate, the last test."""
    table, y = xp.empty((115, sum(sizes)), np.float32), xp.empty(sum(sizes), np.float32)
    begins, firsts = np.concatenate([[0], np.cumsum(sizes)[:-1]]), np.zeros(3, np.int64)
    for number in range(8):
        own = [n // 8 + (number < n % 8) for n in sizes]
        X, label = _capture(xp, number, sum(own))
        done = 0
        for part, n in enumerate(own):
            to = int(begins[part] + firsts[part])
            table[:, to : to + n], y[to : to + n] = X[:, done : done + n], label[done : done + n]
            firsts[part], done = firsts[part] + n, done + n
    return table, y


def _capture(xp: Xp, number: int, n: int) -> tuple[Columns, Any]:
    """One attack: calm traffic, then bursts of malicious packets among the calm ones."""
    rng, shape = Draws(xp, _seed("kitsune", number)), _shape(200 + number)
    calm, wave = _window(xp, rng.normal(5, n), 200, 0.5), _window(xp, rng.normal(1, n), 100, 0.5)[0]
    late = xp.arange(n) > shape.uniform(0.2, 0.5) * n
    attack = late & (wave + 0.6 * rng.normal(n) > 0.2)
    pattern = xp.asarray(2.2 * shape.standard_normal((5, 1)), np.float32)
    packets = calm + attack * pattern + rng.normal(5, n)
    mixing = _shape(2).standard_normal((23, 5)) * 0.6
    X = xp.empty((115, n), np.float32)
    for k, length in enumerate((1, 2, 5, 10, 33)):
        means = _mixed(xp, mixing, _window(xp, packets, length))
        # Counts, sizes and their variances: positive, with tails over orders of magnitude.
        X[23 * k : 23 * (k + 1)] = xp.exp(1.5 * (means + 0.3 * rng.normal(23, n)))
    return X, attack.astype(np.float32)


def _window(xp: Xp, values: Any, length: int, power: float = 1.0) -> Any:
    """Sums of the last `length` values (fewer at the start) over a power of their number.

    1: means; 1/2: of white noise, noise of the same spread.
    """
    sums = xp.cumsum(values.astype(np.float64), axis=1)
    sums[:, length:] -= sums[:, :-length].copy()
    n = xp.minimum(xp.arange(1, values.shape[1] + 1), length)
    return (sums / n**power).astype(np.float32)


# ---------------------------------------------------------------- clicks: categories are encoded

_FOLDS, _PRIOR_ROWS = 5, 20.0


def _criteo(xp: Xp, sizes: tuple[int, int, int]) -> tuple[Columns, Any]:
    """13 counts with missing values and 26 categories; 26% clicks."""
    n, rng, shape = sum(sizes), Draws(xp, _seed("criteo")), _shape(3)
    levels = np.geomspace(4, max(min(n // 8, 1_000_000), 8), 26).astype(np.int64)
    missing = xp.asarray(np.linspace(0.0, 0.7, 13), np.float32)[:, None]
    table, logit = xp.empty((65, n), np.float32), xp.empty(n, np.float32)
    step = _BLOCK_VALUES // 65
    for first in range(0, n, step):
        rows = slice(first, min(first + step, n))
        size = rows.stop - first
        latent = rng.normal(13, size)
        logit[rows] = 0.35 * latent[:6].sum(axis=0) - 0.5 * latent[0] * latent[1] - 1.6
        counts = xp.floor(xp.exp(1.3 * latent + 1.0))
        table[:13, rows] = xp.where(rng.uniform(13, size) < missing, np.float32(np.nan), counts)
    codes = []
    for level in levels.tolist():
        effect = xp.asarray(0.45 * shape.standard_normal(level), np.float32)
        # A few levels have most of the rows, as in any log.
        codes.append(xp.minimum(level * rng.uniform(n) ** 4, level - 1).astype(np.int32))
        logit += effect[codes[-1]]
    y = _drawn(xp, rng, logit)
    for k, level in enumerate(levels.tolist()):
        pair = slice(13 + 2 * k, 15 + 2 * k)
        table[pair] = _encoded(xp, codes[k], y, sizes[0], level)
    return table, y


def _encoded(xp: Xp, code: Any, y: Any, n_train: int, n_levels: int) -> Any:
    """(2, n): target mean without the row's own fold, drawn to the overall mean, and count."""
    fold = xp.arange(len(code), dtype=np.int32) % _FOLDS
    both = (code * _FOLDS + fold)[:n_train]
    shape = (n_levels, _FOLDS)
    count = xp.bincount(both, minlength=n_levels * _FOLDS).reshape(shape).astype(np.float64)
    total = xp.bincount(both, weights=y[:n_train], minlength=n_levels * _FOLDS).reshape(shape)
    all_count, all_total, prior = count.sum(axis=1), total.sum(axis=1), float(y[:n_train].mean())
    # Column 5: what rows see that did not train.
    others = (xp.concatenate([side, xp.zeros((n_levels, 1))], axis=1) for side in (total, count))
    rest = [whole[:, None] - own for whole, own in zip((all_total, all_count), others, strict=True)]
    means = (rest[0] + _PRIOR_ROWS * prior) / (rest[1] + _PRIOR_ROWS)
    fold[n_train:] = _FOLDS
    return xp.stack([means[code, fold], all_count[code]]).astype(np.float32)


# ---------------------------------------------------------------- ranking: rows come in queries

# Features, documents of a query, share of zeros, shares of the grades.
_RANKING: dict[str, tuple[int, tuple[int, int], float, tuple[float, ...]]] = {
    "yahoo": (700, (5, 43), 0.55, (0.26, 0.36, 0.28, 0.08, 0.02)),
    "letor": (136, (40, 200), 0.2, (0.52, 0.32, 0.13, 0.02, 0.01)),
}


def _ranking(name: str, sizes: tuple[int, int, int], xp: Xp) -> FullTask:
    n_features, documents, zeros, shares = _RANKING[name]
    shape = _shape(sum(map(ord, name)))
    groups = [_query_sizes(shape, n, documents) for n in sizes]
    weights = shape.standard_normal((1, 60)) / 60**0.5
    normal = np.sort(shape.standard_normal(100_000))
    cuts = normal[(np.cumsum(shares)[:-1] * len(normal)).astype(int)] * 1.45
    lengths = np.concatenate(groups)
    query_of = xp.asarray(np.repeat(np.arange(len(lengths)), lengths))
    rng = Draws(xp, _seed(name, 1))
    queries, at = rng.normal(3, len(lengths)), 0

    def block(xp: Xp, rng: Draws, n: int) -> tuple[Columns, Any]:
        nonlocal at
        query, at = queries[:, query_of[at : at + n]], at + n
        latent = rng.normal(n_features, n)
        relevance = 1.6 * _mixed(xp, weights, xp.tanh(latent[:60]))[0] + 0.4 * latent[0] * (
            query[0] > 0
        )
        relevance += 0.3 * (1.0 + query[2] - xp.abs(latent[1] - query[1]))
        relevance += 0.9 * rng.normal(n)
        X = xp.exp(latent)
        X[rng.uniform(n_features, n) < zeros] = 0.0
        X[-3:] = query
        grade = sum((relevance > cut).astype(np.float32) for cut in cuts.tolist())
        return X / (1.0 + X) if n_features > 200 else X, grade

    table, y = _in_blocks(xp, sum(sizes), n_features, _seed(name), block)
    return FullTask(*_cut(table, on_host(y), sizes, groups))


def _query_sizes(rng: np.random.Generator, n_rows: int, documents: tuple[int, int]) -> Any:
    """Sizes that add up to n_rows exactly."""
    sizes = rng.integers(*documents, n_rows // documents[0] + 1)
    found = np.diff(np.concatenate([[0], np.minimum(np.cumsum(sizes), n_rows)]))
    return np.asarray(found[found > 0], np.int64)
