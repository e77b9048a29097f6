"""The columns of data frames: of few rows they are read together, else one by one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bitgrove as bg
from bitgrove.data.categories import CategoryChoice
from bitgrove.data.tables import frame_columns, to_columns
from bitgrove.errors import DataError


@pytest.mark.parametrize("n_rows", [0, 3, 2000])  # few rows are copied as a whole
@pytest.mark.parametrize("kind", ["one array", "by column", "mixed", "float32"])
def test_columns_of_a_frame(kind: str, n_rows: int) -> None:
    """They are what each Series says, of the narrowest type that holds it."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(n_rows, 6)), columns=list("abcdef"))
    if kind == "by column":
        X = pd.DataFrame({name: X[name].to_numpy() for name in X})
    elif kind == "float32":
        X = X.astype(np.float32)
    elif kind == "mixed":
        types = {"b": "float32", "c": "int64", "d": "int8", "e": "Int16", "f": "bool"}
        X = X.astype({"c": "int64", "d": "int8", "e": "int16"}).astype(types)
        X["g"] = pd.Series(["x", "y"] * n_rows, dtype="category")[:n_rows]
    found = to_columns(X).values
    wanted = [X[name].cat.codes if name == "g" else X[name] for name in X]
    for column, series in zip(found, wanted, strict=True):
        assert column.dtype == (np.float64 if series.dtype in ("f8", "i8") else np.float32)
        assert column.tolist() == series.astype(float).tolist()


@pytest.mark.parametrize("n_rows", [0, 3, 2000])
@pytest.mark.parametrize("library", ["polars", "Arrow", "batch", "pandas"])
def test_columns_of_frames_with_gaps(library: str, n_rows: int) -> None:
    """Read as a whole or one by one: the same numbers and types, ids beyond 2^53 as their own."""
    columns: dict[str, tuple[Any, list[Any]]] = {
        "i": (pl.Int64, [2**62, None, 2**62 + 1]),
        "j": (pl.Int64, [1, 2, 3]),
        "e": (pl.Float64, [1.0, 2.0, 3.0]),
        "f": (pl.Float64, [0.5, None, 2.0]),
        "g": (pl.Float32, [0.5, None, 2.0]),
        "b": (pl.Boolean, [True, False, None]),
    }
    long = {name: (values * 700)[:n_rows] for name, (_, values) in columns.items()}
    kinds = {name: kind for name, (kind, _) in columns.items()}
    X: Any = pl.DataFrame(long, schema=kinds)
    if library == "pandas":  # its nullable types
        X = pd.DataFrame(long, dtype=object).astype({n: str(kinds[n]) for n in "ijef"})
        X = X.astype({"g": "Float32", "b": "boolean"})
    elif library != "polars":
        X = X.to_arrow()
    if library == "batch":
        X = pa.RecordBatch.from_arrays([c.combine_chunks() for c in X.columns], X.column_names)
    found, _, levels = to_columns(X, CategoryChoice((0,)))
    for column, name in zip(found[1:], list(long)[1:], strict=True):
        assert (column.dtype == np.float32) <= (name in ("g", "b"))
        wanted = [float("nan") if value is None else float(value) for value in long[name]]
        np.testing.assert_array_equal(column, wanted)
    assert levels[0].values.tolist() == [2**62, 2**62 + 1][:n_rows]


@pytest.mark.parametrize("library", ["pandas", "polars", "Arrow", "Int64", "Float64", "boolean"])
def test_one_row_of_a_wide_frame_is_copied_as_a_whole(library: str) -> None:
    """No object is made of each column."""
    names = [f"c{i}" for i in range(2000)]
    is_arrow = library in ("polars", "Arrow")
    X: Any = (pl if is_arrow else pd).DataFrame({name: [1.0] for name in names})
    X = X if is_arrow or library == "pandas" else X.astype(library)
    columns = frame_columns(X if library != "Arrow" else X.to_arrow(), names)
    assert {type(column) for column in columns} == {np.ndarray}


def test_one_row_of_a_wide_frame_is_read_at_once() -> None:
    """In less time than it takes to make a Series of each column."""

    def seconds(read: Callable[[], Any]) -> float:
        start = time.perf_counter()
        read()
        return time.perf_counter() - start

    X = pd.DataFrame(np.ones((1, 2000)), columns=[f"c{i}" for i in range(2000)])
    as_series = min(seconds(lambda: [X.iloc[:, f] for f in range(2000)]) for _ in range(3))
    assert min(seconds(lambda: to_columns(X)) for _ in range(3)) < as_series


@pytest.mark.parametrize("names", [[None, "a"], [np.nan, "a"], ["a", pd.NA], [None, 1]])
def test_a_column_without_a_name_is_refused(names: list[Any]) -> None:
    """Its name would be 'nan' or 'None', as a text may be."""
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=names)
    said = r"a column without a name \(None or NaN\)"
    with pytest.raises(DataError, match=said):
        bg.Dataset(X)
    with pytest.raises(DataError, match=said):
        bg.BitGroveRegressor().fit(X, np.arange(50.0))
    with pytest.raises(DataError, match=said):
        bg.Dataset(X.to_numpy(), feature_names=names)
    X.columns = ["nan", "None"]
    assert bg.Dataset(X).feature_names == ["nan", "None"]
