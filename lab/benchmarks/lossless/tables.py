"""The tables of the study of lossless defaults: tails from bounded to Pareto 1.3, and real ones.

Owns Table, which a seed splits into training and test rows, and how each is made or loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import make_classification

from lab.datasets.entry import Wanted, data_folder
from lab.datasets.table import known
from lab.datasets.task import Array

TEST_SHARE = 0.25
_FEATURES = 16


class Part(NamedTuple):
    X: Array
    y: Array
    weight: Array | None


@dataclass(frozen=True, eq=False)
class Table:
    name: str
    objective: str
    X: Array
    y: Array
    weight: Array | None = None

    def split(self, seed: int) -> tuple[Part, Part]:
        """Training and test rows; test rows are not weighted."""
        test = np.random.default_rng(seed).random(len(self.y)) < TEST_SHARE
        weight = None if self.weight is None else self.weight[~test]
        return Part(self.X[~test], self.y[~test], weight), Part(self.X[test], self.y[test], None)


Noise = Callable[[np.random.Generator, int], Array]


def _signal(X: Array) -> Array:
    """Smooth terms, steps and mild interactions, of variance about 1.5."""
    return (
        np.sin(2 * X[:, 0]) + 0.5 * np.abs(X[:, 1]) + np.where(X[:, 2] > 0.5, 0.8, 0.0)
        + 0.4 * X[:, 3:7].sum(axis=1) * (1 + 0.5 * (X[:, 7] > 0)) + 0.3 * np.maximum(X[:, 8], 0)
    )  # fmt: skip


def _rows(n_rows: int) -> tuple[np.random.Generator, Array, Array]:
    rng = np.random.default_rng(20260)
    X = rng.standard_normal((n_rows, _FEATURES)).astype(np.float32)
    return rng, X, _signal(X)


def _noisy(name: str, noise: Noise) -> Callable[[int], Table]:
    def made(n_rows: int) -> Table:
        rng, X, f = _rows(n_rows)
        return Table(name, "regression", X, f + noise(rng, n_rows))

    return made


def _pareto(index: float) -> Noise:
    return lambda rng, n: 0.5 * rng.pareto(index, n) * np.where(rng.random(n) < 0.5, 1.0, -1.0)


def _house_prices(n_rows: int) -> Table:
    """Log-normal targets, and one 78 standard deviations out."""
    rng, X, f = _rows(n_rows)
    y = np.exp(0.6 * f + 0.4 * rng.standard_normal(n_rows))
    y[n_rows // 3] = y.mean() + 78 * y.std()
    return Table("house_prices", "regression", X, y)


Weights = Callable[[np.random.Generator, int], Array]


def _weighted(name: str, weights: Weights) -> Callable[[int], Table]:
    def made(n_rows: int) -> Table:
        rng, X, f = _rows(n_rows)
        weight = weights(rng, n_rows)
        return Table(name, "regression", X, f + rng.standard_normal(n_rows), weight)

    return made


def _binary(name: str, above: float, weighted: bool = False) -> Callable[[int], Table]:
    def made(n_rows: int) -> Table:
        rng, X, f = _rows(n_rows)
        y = (2 * f + rng.logistic(size=n_rows) > above).astype(np.float64)
        return Table(name, "binary", X, y, rng.pareto(1.5, n_rows) + 0.1 if weighted else None)

    return made


def _classes(
    name: str, n_classes: int, class_sep: float = 2.0, flip_y: float = 0.0
) -> Callable[[int], Table]:
    """Two clusters for each class; far from the others, few rows are hard to tell."""
    objective = "binary" if n_classes == 2 else "multiclass"

    def made(n_rows: int) -> Table:
        X, y = make_classification(
            n_rows, 30, n_informative=12 if n_classes < 20 else 16, n_classes=n_classes,
            flip_y=flip_y, class_sep=class_sep, random_state=101,
        )  # fmt: skip
        return Table(name, objective, X.astype(np.float32), y.astype(np.float64))

    return made


_MADE: dict[str, Callable[[int], Table]] = {
    "uniform": _noisy("uniform", lambda rng, n: rng.uniform(-2, 2, n)),
    "normal": _noisy("normal", lambda rng, n: rng.standard_normal(n)),
    "student_3": _noisy("student_3", lambda rng, n: rng.standard_t(3, n)),
    "pareto_2.5": _noisy("pareto_2.5", _pareto(2.5)),
    "pareto_1.7": _noisy("pareto_1.7", _pareto(1.7)),
    "pareto_1.3": _noisy("pareto_1.3", _pareto(1.3)),
    "house_prices": _house_prices,
    "heavy_weights": _weighted("heavy_weights", lambda rng, n: rng.pareto(1.5, n) + 0.1),
    "huge_weights": _weighted(
        "huge_weights", lambda rng, n: np.where(rng.random(n) < 0.001, 1e4, 1.0)
    ),
    "balanced": _binary("balanced", 1.0),
    "rare": _binary("rare", 12.0),
    "weighted_classes": _binary("weighted_classes", 1.0, weighted=True),
    "two_classes": _classes("two_classes", 2),
    "two_near_classes": _classes("two_near_classes", 2, class_sep=1.5),
    "two_mixed_classes": _classes("two_mixed_classes", 2, class_sep=1.0),
    "two_mislabelled_classes": _classes("two_mislabelled_classes", 2, flip_y=0.01),
    "three_classes": _classes("three_classes", 3),
    "four_classes": _classes("four_classes", 4),
    "six_mixed_classes": _classes("six_mixed_classes", 6, class_sep=1.0),
    "ten_classes": _classes("ten_classes", 10),
    "ten_near_classes": _classes("ten_near_classes", 10, class_sep=1.5),
    "twenty_classes": _classes("twenty_classes", 20),
    "twenty_near_classes": _classes("twenty_near_classes", 20, class_sep=1.5),
    "thirty_classes": _classes("thirty_classes", 30),
    "thirty_near_classes": _classes("thirty_near_classes", 30, class_sep=1.5),
}
_REAL = ("nycflights13", "household_power", "census_kdd", "kddcup04_bio", "covtype", "adult",
         "higgs_11k", "breast_cancer", "digits")  # fmt: skip
TABLES = (*_MADE, *_REAL)


def load(name: str, n_rows: int, folder: str | None, npz: Path | None) -> Table | None:
    """A table of at most n_rows; None where a real one is not found."""
    if name in _MADE:
        return _MADE[name](n_rows)
    kept = None if npz is None else npz / f"{name}.npz"
    if kept is not None and kept.exists():
        with np.load(kept) as file:
            return Table(name, str(file["objective"]), file["X"], file["y"])
    where = data_folder(folder)
    entry = known(name)
    if not entry.found(where):
        return None
    task = entry.load(Wanted(where))
    X, y = np.concatenate([task.X_train, task.X_test]), np.append(task.y_train, task.y_test)
    if len(y) > n_rows:
        chosen = np.random.default_rng(0).permutation(len(y))[:n_rows]
        X, y = X[chosen], y[chosen]
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(kept, X=X, y=y, objective=np.array(task.objective))
    return Table(name, task.objective, X, y)
