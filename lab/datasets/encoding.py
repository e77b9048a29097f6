"""Categories as numbers, as the paper does for Criteo: target encoding and count encoding.

Receives codes of categories and the label; the first rows are the training rows. Returns two
columns per category: the mean label of its level and the number of its training rows. A training
row's own label never enters its encoding (five folds by row number), and rare levels are drawn
towards the overall mean, so that the encoding is no leak.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FOLDS = 5
_PRIOR_ROWS = 20.0


def encode_categories(
    codes: Sequence[NDArray[np.int64]], label: NDArray[Any], n_train: int
) -> NDArray[np.float32]:
    """(n_rows, 2 * n_categories): target mean and count of each; codes are >= 0."""
    n_rows = len(label)
    encoded = np.empty((n_rows, 2 * len(codes)), np.float32)
    target = np.asarray(label[:n_train], np.float64)
    prior = float(target.mean())
    fold = np.arange(n_train) % _FOLDS
    for k, levels in enumerate(codes):
        n_levels = int(levels.max()) + 1
        seen = levels[:n_train]
        count = np.bincount(seen, minlength=n_levels)
        total = np.bincount(seen, weights=target, minlength=n_levels)
        for number in range(_FOLDS):
            mine = fold == number
            inside = seen[mine]
            others_total = total - np.bincount(inside, target[mine], minlength=n_levels)
            others_count = count - np.bincount(inside, minlength=n_levels)
            rows = np.flatnonzero(mine)
            encoded[rows, 2 * k] = _shrunk(others_total, others_count, prior)[inside]
        encoded[n_train:, 2 * k] = _shrunk(total, count, prior)[levels[n_train:]]
        encoded[:, 2 * k + 1] = count[levels]
    return encoded


def _shrunk(total: NDArray[Any], count: NDArray[Any], prior: float) -> NDArray[Any]:
    return (total + _PRIOR_ROWS * prior) / (count + _PRIOR_ROWS)
