"""Arrays of a forest as nobody should hand them to the core: a ValueError, or leaves of its trees.

Bytes of a case: six small numbers (_Sizes), then each array as its length and a byte for each item.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from model_cases import random_tree
from tests.fuzz.mutations import FLOATS, chosen

_THRESHOLDS = np.array([*FLOATS, 0.5, 1.5, -2.0, 3.25, 4.0, 100.0])
_ARRAYS = ("split_offset", "leaf_offset", "feature", "threshold", "default_left", "left_bins",
           "left", "right", "leaf_value", "leaf_cover", "player_of")  # fmt: skip
Array = NDArray[Any]


class _Sizes(NamedTuple):
    n_features: int
    simd: int
    n_trees_used: int
    n_outputs: int
    n_players: int
    n_columns: int


class _Parts:
    """Numbers and arrays out of bytes; what they do not have is zero."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, n: int) -> Array:
        found = np.zeros(n, np.int8)
        piece = np.frombuffer(self.data, np.int8)[self.at : self.at + n]
        found[: len(piece)] = piece
        self.at += n
        return found

    def array(self) -> Array:
        return self.take(int(self.take(1)[0]) % 128)


def _written(sizes: _Sizes, arrays: list[Array]) -> bytes:
    parts = [np.array(sizes, np.int8).tobytes()]
    for array in arrays:
        parts.append(bytes([len(array)]) + array.astype(np.int8).tobytes())
    return b"".join(parts)


@cache
def seeds() -> list[bytes]:
    return [_seed(np.random.default_rng(number)) for number in range(60)]


def _seed(rng: np.random.Generator) -> bytes:
    n_features, n_outputs, n_players = (int(rng.integers(1, 5)) for _ in range(3))
    n_trees = n_outputs * int(rng.integers(0, 4))
    trees = [random_tree(rng, int(rng.integers(0, 10)), n_features) for _ in range(n_trees)]
    split_offset = np.cumsum([0, *(tree.n_splits for tree in trees)])
    leaf_offset = np.cumsum([0, *(tree.n_leaves for tree in trees)])
    n_splits, n_leaves = int(split_offset[-1]), int(leaf_offset[-1])

    def all_of(name: str) -> Array:
        return np.concatenate([np.zeros(0, np.int8), *(getattr(tree, name) for tree in trees)])

    sets = rng.integers(0, 3, n_splits if rng.random() < 0.5 else 0)
    arrays = [
        split_offset, leaf_offset, all_of("feature"), rng.integers(0, 16, n_splits),
        all_of("default_left"), sets, all_of("left"), all_of("right"),
        rng.integers(-9, 9, n_leaves), rng.integers(0, 9, n_leaves),
        rng.integers(0, n_players, n_features),
    ]  # fmt: skip
    return _written(
        _Sizes(n_features, int(rng.integers(0, 3)), n_trees, n_outputs, n_players, n_features),
        arrays,
    )


def mutant(rng: np.random.Generator, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        at, kind = int(rng.integers(len(changed))), int(rng.integers(4))
        if kind == 0:
            changed[at] = chosen(rng, [0, 1, 127, 128, 255, int(rng.integers(256))])
        elif kind == 1:
            changed[at] = (changed[at] + int(rng.integers(-2, 3))) % 256
        elif kind == 2:
            changed[at] = chosen(rng, changed)
        else:  # of the sizes, or of what they lead to
            changed[int(rng.integers(len(_Sizes._fields)))] = int(rng.integers(0, 6))
    return bytes(changed)


def check(data: bytes, rng: np.random.Generator) -> bool:
    """Whether the core took the arrays."""
    parts = _Parts(data)
    sizes = _Sizes(*parts.take(len(_Sizes._fields)).tolist())
    given = {name: parts.array() for name in _ARRAYS}
    try:
        forest = _forest(sizes, given)
    except ValueError as error:
        assert "bitgrove core: " in str(error)
        return False
    _predict(forest, sizes, given, rng)
    return True


def _forest(sizes: _Sizes, given: dict[str, Array]) -> Any:
    sets = np.zeros((len(given["left_bins"]), 4), np.uint64)
    sets[:, 0] = given["left_bins"].view(np.uint8)
    return _core.make_forest(
        split_offset=given["split_offset"].astype(np.int64),
        leaf_offset=given["leaf_offset"].astype(np.int64),
        feature=given["feature"].astype(np.int32),
        threshold=_THRESHOLDS[given["threshold"] % len(_THRESHOLDS)],
        default_left=given["default_left"].view(np.uint8),
        left_bins=sets,
        left=given["left"].astype(np.int32),
        right=given["right"].astype(np.int32),
        leaf_value=given["leaf_value"].astype(np.float64),
        n_features=sizes.n_features,
        simd=min(max(sizes.simd, 0), _core.best_simd()),
    )


def _predict(forest: Any, sizes: _Sizes, given: dict[str, Array], rng: np.random.Generator) -> None:
    """Each verb that walks a forest, with whatever sizes there are."""
    n_outputs, n_players, n_columns = (max(0, n) for n in sizes[3:])
    rows = rng.choice([*FLOATS, 1.0, 2.5, 3.0], size=(40, n_columns))
    leaves = np.full((len(rows), forest.n_trees), -1, dtype=np.int32)
    if _taken(lambda: _core.predict_leaves(forest, rows, leaves, 1)):
        n_leaves = np.diff(given["leaf_offset"])
        assert ((leaves >= 0) & (leaves < n_leaves)).all()
    scores = np.zeros((len(rows), n_outputs))
    _taken(lambda: _core.predict_scores(forest, sizes.n_trees_used, rows, scores, 1))
    players = given["player_of"].astype(np.int32)
    values = np.zeros((len(rows), n_outputs * (n_players + 1)))
    _taken(
        lambda: _core.interventional_values(
            forest, sizes.n_trees_used, players, n_players, rows, rows[:3], n_outputs, values, 1
        )
    )
    cover = given["leaf_cover"].astype(np.float64)
    made: list[Any] = []
    if _taken(lambda: made.append(_core.make_shap_forest(forest, cover, players, n_players))):
        _taken(lambda: _core.shap_values(made[0], sizes.n_trees_used, rows, n_outputs, values, 1))
        pairs = np.zeros((len(rows), n_outputs * (n_players + 1) ** 2))
        _taken(
            lambda: _core.shap_interactions(made[0], sizes.n_trees_used, rows, n_outputs, pairs, 1)
        )


def _taken(call: Any) -> bool:
    try:
        call()
    except ValueError as error:
        assert "bitgrove core: " in str(error)
        return False
    return True
