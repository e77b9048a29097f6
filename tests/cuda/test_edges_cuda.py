"""Edges and bins of tables that were sent to the GPU: the reference's, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import bitgrove as bg
from bitgrove.backends.cuda import edges, transfer
from cases import table
from verb_cases import REFERENCE
from verbs_of_data import bins_on, check_bins, columns_of_many_kinds, mapper_for


def check_sent(backend: Any, columns: list[NDArray[Any]], rows: Any, max_bin: int) -> None:
    """Sends the columns, finds their edges there and bins them."""
    sent = backend.send_columns(columns)
    assert not any(isinstance(column, np.ndarray) for column in sent)
    found = backend.find_edges(sent, rows, max_bin)
    expected = REFERENCE.find_edges(columns, rows, max_bin)
    assert [e.tobytes() for e in found] == [e.tobytes() for e in expected]
    mapper = mapper_for(columns, max_bin)
    there, here = backend.bin_columns(sent, mapper), REFERENCE.bin_columns(columns, mapper)
    np.testing.assert_array_equal(bins_on(backend, there), here.bins)
    np.testing.assert_array_equal(there.missing, here.missing)
    check_bins(backend, columns, mapper)  # and without sending them first


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("max_bin", [2, 16, 255])
def test_columns_of_many_kinds(backend: Any, max_bin: int, dtype: Any) -> None:
    """NaN, infinities, denormals, two zeros, few and many values, constants."""
    for n_rows in (1, 2, 300, 8191, 20_000):
        columns = columns_of_many_kinds(n_rows, dtype)
        check_sent(backend, columns, None, max_bin)
        check_sent(backend, columns, np.arange(0, n_rows, 3, dtype=np.int32), max_bin)


@pytest.mark.parametrize(
    "dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.real_gpu)]
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_wide_and_tall_tables(
    backend: Any, order: Any, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "BLOCK_BYTES", 1 << 18)  # several blocks
    monkeypatch.setattr(edges, "_MOST_BYTES", 1 << 22)  # several turns
    rng = np.random.default_rng(3)
    for shape in ((300_000, 3), (3000, 400), (700, 70)):
        made = np.asarray(rng.standard_cauchy(shape), dtype=dtype, order=order)
        listed = np.flatnonzero(rng.random(shape[0]) < 0.7).astype(np.int32)
        for view in (made, made[::2], made[:, 1::3]):
            rows = listed[listed < len(view)]
            check_sent(backend, list(view.T), rows, 255)


def test_both_types_side_by_side(backend: Any) -> None:
    columns = columns_of_many_kinds(5000, np.float64)
    for f in (0, 3, 4):
        columns[f] = columns[f].astype(np.float32)
    columns[1] = np.broadcast_to(2.5, 5000)
    check_sent(backend, columns, None, 63)


def test_heavy_values(backend: Any) -> None:
    rng, columns = np.random.default_rng(6), []
    for n_heavy in (1, 2, 5, 9, 20, 300):
        heavy = rng.integers(-3, 4 * n_heavy, n_heavy) * 0.5
        column = np.where(rng.random(50_000) < 0.8, rng.choice(heavy, 50_000), rng.random(50_000))
        columns += [column, np.maximum(column, heavy[0]), np.minimum(column, heavy[0])]
    for max_bin in (2, 3, 8, 21, 255):
        check_sent(backend, columns, None, max_bin)


def test_no_room(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that does not fit stays on the host, and gets the same edges and bins."""
    columns = columns_of_many_kinds(9000, np.float32)
    monkeypatch.setattr(backend.device, "free_bytes", lambda: 1000)
    assert backend.send_columns(columns) is columns
    found = backend.find_edges(columns, None, 255)
    expected = REFERENCE.find_edges(columns, None, 255)
    assert [e.tobytes() for e in found] == [e.tobytes() for e in expected]


@pytest.mark.parametrize("order", ["C", "F"])
def test_categories_among_numbers(backend: Any, order: Any) -> None:
    """Codes of levels, also of many, lie between columns of one table."""
    X = np.asarray(table(3000, 6, 9, missing=0.1), order=order)
    X[:, 2], X[:, 4] = np.arange(3000) % 7, np.arange(3000) % 900
    y = np.nan_to_num(X[:, 0]) + (X[:, 2] == 3)
    params = {"objective": "regression", "n_estimators": 3, "bin_sample_rows": 1000}
    models = [
        bg.train({**params, "device": d}, bg.Dataset(X, y, categorical_feature=[2, 4]))
        for d in ("cpu", backend.name)
    ]
    assert models[0].digest() == models[1].digest()
