"""Labels that some losses find hard: mostly zero, of any size, or far away in the tails.

Owns Table: an objective, how rows are made from a seed, and the loss of a prediction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import mean_tweedie_deviance

F64 = NDArray[np.float64]
_LEAST = 1e-12  # of a predicted mean
_DELTA = 0.9  # where Huber's line begins


@dataclass(frozen=True)
class Table:
    name: str
    objective: str
    make: Callable[[np.random.Generator, int], tuple[F64, F64]]  # rows and labels
    loss: Callable[[F64, F64], float]  # of labels and predictions


def _rows(rng: np.random.Generator, n_rows: int) -> tuple[F64, F64]:
    X = rng.normal(size=(n_rows, 10))
    f = 0.6 * X[:, 0] - 0.4 * X[:, 1] + 0.5 * X[:, 3] * X[:, 4] + 0.5 * np.sin(3 * X[:, 5])
    return X, f


def _counts(spread: bool, rate: float) -> Any:
    def make(rng: np.random.Generator, n_rows: int) -> tuple[F64, F64]:
        X, f = _rows(rng, n_rows)
        own = rng.gamma(0.5, 2.0, n_rows) if spread else 1.0
        return X, rng.poisson(rate * np.exp(f) * own).astype(np.float64)

    return make


def _claims(heavy: bool, rate: float) -> Any:
    def make(rng: np.random.Generator, n_rows: int) -> tuple[F64, F64]:
        X, f = _rows(rng, n_rows)
        is_claim = rng.random(n_rows) < np.minimum(rate * np.exp(f), 1.0)
        size = rng.pareto(2.2, n_rows) + 0.1 if heavy else rng.gamma(2.0, 1.0, n_rows)
        return X, is_claim * 100.0 * np.exp(0.5 * X[:, 2] + 0.3 * f) * size

    return make


def _values(heavy: bool, size: float) -> Any:
    def make(rng: np.random.Generator, n_rows: int) -> tuple[F64, F64]:
        X, f = _rows(rng, n_rows)
        noise = rng.standard_t(2, n_rows) if heavy else rng.normal(size=n_rows)
        return X, size * (f + 0.3 * noise)

    return make


def deviance(power: float) -> Callable[[F64, F64], float]:
    return lambda y, p: float(mean_tweedie_deviance(y, np.maximum(p, _LEAST), power=power))


def huber(y: F64, prediction: F64) -> float:
    far = np.abs(y - prediction)
    return float(np.where(far < _DELTA, far**2 / 2, _DELTA * (far - _DELTA / 2)).mean())


TABLES = {
    table.name: table
    for table in (
        *(Table(f"counts of {rate}", "poisson", _counts(False, rate), deviance(1.0))
          for rate in (0.005, 0.03, 0.2, 1.0, 5.0)),
        *(Table(f"spread counts of {rate}", "poisson", _counts(True, rate), deviance(1.0))
          for rate in (0.005, 0.2, 5.0)),
        *(Table(f"claims of {rate}", "tweedie", _claims(False, rate), deviance(1.5))
          for rate in (0.005, 0.03, 0.2)),
        *(Table(f"heavy claims of {rate}", "tweedie", _claims(True, rate), deviance(1.5))
          for rate in (0.005, 0.03, 0.2)),
        *(Table(f"{objective}, values of {size}", objective, _values(True, size), huber)
          for objective in ("huber", "fair", "log_cosh") for size in (1.0, 30.0)),
    )
}  # fmt: skip
