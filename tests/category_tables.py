"""Tables of categories that tests train on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def table_of_levels(n_rows: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Codes of 3, 12, 60 and 400 levels, two columns of numbers, and what depends on them."""
    rng = np.random.default_rng(14)
    worth = np.round(rng.normal(size=(4, 400)) * 1024) / 1024
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, n, size=n_rows) for n in (3, 12, 60, 400)], axis=1)
    X = np.concatenate([codes, np.round(rng.normal(size=(n_rows, 2)) * 1024) / 1024], axis=1)
    y = sum(worth[i, codes[:, i]] for i in range(4)) + 0.5 * X[:, 4]
    X[:, 1:4][rng.random((n_rows, 3)) < 0.05] = np.nan
    return X, y
