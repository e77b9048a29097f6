"""The same model bytes from the GPU as from everywhere else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.errors import ParameterError
from cases import CASES, signal, table

DIGESTS = json.loads((Path(__file__).parents[1] / "golden" / "digests.json").read_text())
BINARY = {"objective": "binary", "n_estimators": 3, "num_leaves": 31, "random_state": 3}


@pytest.mark.parametrize("name", sorted(CASES))
def test_digest_is_the_committed_one(backend: Any, name: str) -> None:
    assert CASES[name]().train(device="cuda").digest() == DIGESTS[name]


@pytest.mark.parametrize("name", ["binary 3 bits nearest", "multiclass", "regression weighted"])
def test_settings_that_change_nothing(backend: Any, name: str) -> None:
    case = CASES[name]()
    digest = case.train().digest()
    for change in ({"frontier_alpha": 0.2}, {"packed": False}, {"device": backend.name}):
        assert case.train(**{"device": "cuda", **change}).digest() == digest


@pytest.mark.parametrize("n_ranks", [2, 3])
@pytest.mark.parametrize("name", ["binary 2 bits", "binary full precision", "ranking"])
def test_shards_on_one_gpu(backend: Any, name: str, n_ranks: int) -> None:
    case = CASES[name]()
    models = case.train_on_shards(n_ranks, device="cuda")
    assert {m.digest() for m in models} == {case.train().digest()}


def same(X: Any, y: Any, **params: Any) -> None:
    models = [
        bg.train({**BINARY, **params, "device": d}, bg.Dataset(X, y)) for d in ("cpu", "cuda")
    ]
    assert models[0].digest() == models[1].digest()
    assert models[0].trees


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 7, 8, None])
def test_bits(backend: Any, bits: int | None) -> None:
    """Enough rows that nodes take several blocks, in every width of accumulator."""
    X = table(20_000, 5, 1, missing=0.1)
    same(X, (signal(X, 1) > 0.75).astype(float), gradient_bits=bits, num_leaves=63)


@pytest.mark.parametrize(("n_rows", "n_features"), [(1, 1), (2, 1), (31, 3), (400, 33), (64, 300)])
def test_shapes(backend: Any, n_rows: int, n_features: int) -> None:
    X = table(n_rows, n_features, 2)
    y = (np.arange(n_rows) % 3 == 0).astype(float)
    same(X, y, min_child_samples=1)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layouts_of_the_table(backend: Any, order: Any, dtype: Any) -> None:
    X = np.asarray(table(500, 6, 3, missing=0.1), dtype=dtype, order=order)
    y = (np.nan_to_num(X[:, 0]) > 0).astype(float)
    same(X, y)
    same(X[::2, 1:], y[::2])


def test_second_training_on_one_dataset(backend: Any) -> None:
    X = table(800, 4, 4)
    data = bg.Dataset(X, (X[:, 0] > 0).astype(float))
    first, second = (bg.train({**BINARY, "device": "cuda"}, data) for _ in range(2))
    assert first.to_bytes() == second.to_bytes()


def test_no_such_device(backend: Any) -> None:
    with pytest.raises(ParameterError, match="numbered from 0"):
        bg.train({**BINARY, "device": "cuda:999"}, bg.Dataset([[0.0], [1.0]], [0, 1]))
