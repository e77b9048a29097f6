"""Which rows and features a tree sees: by hash, so that it depends on no stream and no rank."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.exact_math import hash_key, longer_key, mix64
from bitgrove.params import TrainParams

_ROWS, _FEATURES, _ROUNDING, _NODES = 2, 3, 4, 15


@cache
def _purpose_key(seed: int, purpose: int) -> int:
    return hash_key(seed, purpose)


def rounding_key(seed: int, tree: int) -> int:
    """Key of a tree's rounding noise."""
    return longer_key(_purpose_key(seed, _ROUNDING), tree)


def node_key(seed: int, tree: int) -> int:
    """Key of what the nodes of a tree draw."""
    return longer_key(_purpose_key(seed, _NODES), tree)


def row_sample(params: TrainParams, iteration: int) -> tuple[int, int] | None:
    """(key, threshold): a row is in iff row_hash(key, row) < threshold. None: all rows are in."""
    if params.subsample >= 1.0 or params.subsample_freq == 0:
        return None
    key = hash_key(params.random_state, _ROWS, iteration // params.subsample_freq)
    return key, int(params.subsample * 2.0**64)


@cache
def _all_features(n_features: int) -> NDArray[np.uint8]:
    return np.ones(n_features, dtype=np.uint8)


def feature_sample(params: TrainParams, tree: int, n_features: int) -> NDArray[np.uint8]:
    """1 for each feature the tree may use: the ones with the smallest hashes."""
    if params.colsample_bytree >= 1.0:
        return _all_features(n_features)
    n_kept = max(1, round(params.colsample_bytree * n_features))
    key = hash_key(params.random_state, _FEATURES, tree)
    order = sorted(
        range(n_features), key=lambda feature: (mix64(key ^ mix64(feature + 1)), feature)
    )
    allowed = np.zeros(n_features, dtype=np.uint8)
    allowed[order[:n_kept]] = 1
    return allowed
