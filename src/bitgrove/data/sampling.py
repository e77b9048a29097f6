"""Which rows and features a tree sees: by hash, so that it depends on no stream and no rank."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.exact_math import hash_key, longer_key, mix64
from bitgrove.params import TrainParams

_ROWS, _FEATURES, _ROUNDING, _KEPT, _DROPPED, _NODES = 2, 3, 4, 7, 8, 15


class Sample(NamedTuple):
    """A row is in iff row_hash(key, its id) < limit.

    ids and limits: of each row, on the backend, where they are not the row's own and one for all.
    """

    key: int
    limit: int
    ids: Any = None
    limits: Any = None


class KeepRule(NamedTuple):
    """A row of size sqrt(grad^2 + hess_share * hess^2) is kept by the hash of its id.

    Always if the size is at least `whole`, else with a chance of base + slope * size.
    """

    hess_share: float
    whole: float
    base: float
    slope: float
    key: int


@cache
def _purpose_key(seed: int, purpose: int) -> int:
    return hash_key(seed, purpose)


def rounding_key(seed: int, tree: int) -> int:
    """Key of a tree's rounding noise."""
    return longer_key(_purpose_key(seed, _ROUNDING), tree)


def node_key(seed: int, tree: int) -> int:
    """Key of what the nodes of a tree draw."""
    return longer_key(_purpose_key(seed, _NODES), tree)


def row_sample(params: TrainParams, iteration: int) -> Sample | None:
    """The rows of an iteration's trees. None: all rows."""
    if params.subsample >= 1.0 or params.subsample_freq == 0:
        return None
    return Sample(rows_key(params, iteration), share_limit(params.subsample))


def rows_key(params: TrainParams, iteration: int) -> int:
    """Key of an iteration's rows; the same until new ones are due."""
    return hash_key(params.random_state, _ROWS, iteration // params.subsample_freq)


def share_limit(share: float) -> int:
    """Below which a share of all hashes is."""
    return min(int(share * 2.0**64), 2**64 - 1)


def keep_key(seed: int, tree: int) -> int:
    """Key of the rows that a tree keeps by their gradients."""
    return hash_key(seed, _KEPT, tree)


def drop_draw(seed: int, iteration: int, tree: int) -> float:
    """A number in [0, 1) that decides whether an iteration drops a tree (-1: none at all)."""
    return hash_key(seed, _DROPPED, iteration, tree + 1) * 2.0**-64


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
