"""Datasets: every container of the same values gives the same model; rows, names and bins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy import sparse

import bitgrove as bg
from bitgrove.backends.cpu import CpuBackend
from bitgrove.data.prediction_rows import rows_for_prediction
from bitgrove.distributed import run_threads
from bitgrove.distributed.comm import Comm
from cases import signal, table

FAST: dict[str, Any] = {"n_estimators": 3, "num_leaves": 7, "min_child_samples": 3, "n_jobs": 1}
NAMES = [f"f{i}" for i in range(5)]


def quarters(missing: float) -> NDArray[np.float64]:
    """Numbers that float16 holds exactly, with zeros and missing values."""
    X = np.round(4 * table(240, 5, 1)).clip(-500, 500) / 4
    X[np.random.default_rng(2).random(X.shape) < missing] = np.nan
    return X


X = quarters(missing=0.1)
Y = signal(X, 1)
WHOLE = np.floor(quarters(missing=0.0)).clip(-100, 100)


def digest(X: Any, y: Any = Y, **data: Any) -> str:
    return bg.train({**FAST, "objective": "regression"}, bg.Dataset(X, y, **data)).digest()


def nulls(X: NDArray[np.float64]) -> dict[str, list[float | None]]:
    """Columns with None for missing."""
    columns = zip(NAMES, X.T.tolist(), strict=True)
    return {name: [None if v != v else v for v in column] for name, column in columns}


def strided(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same table as a view with gaps, upside down twice."""
    wide = np.full((2 * len(X), 3 * X.shape[1]), 1e9)
    wide[::-2, 1::3] = X
    return wide[::-2, 1::3]


FLOAT_TABLES: dict[str, Callable[[], Any]] = {
    "C order": lambda: X.copy(order="C"),
    "Fortran order": lambda: np.asfortranarray(X),
    "strided view": lambda: strided(X),
    "read-only": lambda: np.frombuffer(X.tobytes()).reshape(X.shape),
    "float32": lambda: X.astype(np.float32),
    "float32 strided": lambda: strided(X).astype(np.float32, order="F")[:, :],
    "float16": lambda: X.astype(np.float16),
    "big-endian": lambda: X.astype(">f8"),
    "longdouble": lambda: X.astype(np.longdouble),
    "objects": lambda: X.astype(object),
    "objects with None": lambda: np.where(np.isnan(X), None, X),
    "lists": lambda: X.tolist(),
    "list of arrays": lambda: list(X),
    "pandas": lambda: pd.DataFrame(X, columns=NAMES),
    "pandas mixed": lambda: pd.DataFrame(X, columns=NAMES).astype(
        {"f0": "float32", "f1": "float16", "f2": "Float64", "f3": object}
    ),
    "pandas sparse": lambda: pd.DataFrame(X, columns=NAMES).astype("Sparse[float64]"),
    "pandas on Arrow": lambda: pd.DataFrame(X, columns=NAMES).astype("double[pyarrow]"),
    "polars": lambda: pl.DataFrame(X, schema=NAMES),
    "polars nulls": lambda: pl.DataFrame(nulls(X)).with_columns(pl.col("f1").cast(pl.Float32)),
    "Arrow table": lambda: pa.table(nulls(X)),
    "Arrow chunks": lambda: pa.concat_tables([pa.table(nulls(X[:90])), pa.table(nulls(X[90:]))]),
    "Arrow batch": lambda: pa.record_batch(nulls(X)),
    "CSR": lambda: sparse.csr_matrix(X),
    "CSC": lambda: sparse.csc_array(X),
    "COO float32": lambda: sparse.coo_matrix(X.astype(np.float32)),
}
WHOLE_TABLES: dict[str, Callable[[], Any]] = {
    "int64": lambda: WHOLE.astype(np.int64),
    "int8": lambda: WHOLE.astype(np.int8),
    "int32 Fortran order": lambda: np.asfortranarray(WHOLE.astype(np.int32)),
    "list of integers": lambda: WHOLE.astype(int).tolist(),
    "pandas": lambda: pd.DataFrame(WHOLE, columns=NAMES).astype(
        {"f0": "int8", "f1": "Int64", "f2": "int32", "f3": "Int16", "f4": object}
    ),
    "polars": lambda: pl.DataFrame(WHOLE.astype(np.int16), schema=NAMES),
    "Arrow": lambda: pa.table({n: c.astype(np.int32) for n, c in zip(NAMES, WHOLE.T, strict=True)}),
    "CSR of integers": lambda: sparse.csr_matrix(WHOLE.astype(np.int64)),
}


@pytest.mark.parametrize("kind", FLOAT_TABLES)
def test_every_container_gives_the_same_model(kind: str) -> None:
    assert digest(FLOAT_TABLES[kind]()) == digest(X)


@pytest.mark.parametrize("kind", FLOAT_TABLES)
def test_every_container_gives_the_same_predictions(kind: str) -> None:
    model = bg.train({**FAST, "objective": "regression"}, bg.Dataset(X, Y))
    found = model.predict(FLOAT_TABLES[kind]())
    np.testing.assert_array_equal(found, model.predict(X))
    assert len(np.unique(found)) > 5


@pytest.mark.parametrize("kind", WHOLE_TABLES)
def test_whole_numbers(kind: str) -> None:
    assert digest(WHOLE_TABLES[kind]()) == digest(WHOLE)


def test_truth_values_and_nulls() -> None:
    """bool, and nullable integers and booleans with NA, are 0, 1 and missing."""
    truth = X[:, 0] > 0
    column = np.where(np.isnan(X[:, 1]), np.nan, truth)
    expected = digest(np.column_stack([truth, column]).astype(float))
    maybe = [None if np.isnan(v) else bool(v) for v in column]
    tables = [
        pd.DataFrame({"f0": truth, "f1": pd.array(maybe, dtype="boolean")}),
        pd.DataFrame({"f0": truth, "f1": pd.array(maybe, dtype="Int64")}),
        pl.DataFrame({"f0": truth, "f1": maybe}),
        pa.table({"f0": pa.array(truth), "f1": pa.array(maybe)}),
    ]
    assert [digest(t) for t in tables] == [expected] * 4
    assert digest(truth[:, None]) == digest(truth[:, None].astype(float))


def test_labels_and_weights_in_any_container() -> None:
    weight = np.random.default_rng(3).integers(1, 5, len(Y)).astype(float)
    expected = digest(X, Y, weight=weight)
    makers = [
        list,
        pd.Series,
        pl.Series,
        pa.array,
        lambda v: v[:, None],
        lambda v: v.astype(object),
    ]
    for make in makers:
        assert digest(X, make(Y), weight=make(weight)) == expected
    assert digest(X, Y, weight=weight.astype(np.int8)) == expected
    assert digest(X, Y) != expected


def test_zero_and_minus_zero_are_one_value() -> None:
    signs = np.where(np.random.default_rng(4).random(X.shape) < 0.5, -0.0, 0.0)
    assert digest(np.where(X == 0, signs, X)) == digest(X)


@pytest.mark.parametrize("objective", ["regression", "binary", "multiclass"])
def test_rows_without_weight_are_as_removed(objective: str) -> None:
    y = {"regression": Y, "binary": Y > 0, "multiclass": np.digitize(Y, [-0.5, 0.5])}[objective]
    weight = np.random.default_rng(5).integers(0, 3, len(Y)).astype(float)
    weight[::7] = 1e-42  # below the smallest normal float32: also zero
    keep = weight >= 1
    params = {**FAST, "objective": objective, "subsample": 0.8}
    whole = bg.train(params, bg.Dataset(X, y, weight=weight))
    kept = bg.train(params, bg.Dataset(X[keep], y[keep], weight=weight[keep]))
    assert 0 < keep.sum() < len(y)
    assert whole.digest() == kept.digest()


def test_rows_without_weight_in_queries() -> None:
    group = np.array([30, 1, 60, 9, 100, 40])
    grade = np.clip(np.floor(Y + 1), 0, 3)
    weight = np.random.default_rng(6).integers(0, 2, len(Y)).astype(float)
    weight[30] = 0  # the only row of a query
    query = np.repeat(np.arange(len(group)), group)
    weight[query == 3] = 0
    keep = weight > 0
    sizes = np.bincount(query[keep], minlength=len(group))
    params = {**FAST, "objective": "lambdarank"}
    whole = bg.train(params, bg.Dataset(X, grade, weight=weight, group=group))
    kept = bg.Dataset(X[keep], grade[keep], weight=weight[keep], group=sizes[sizes > 0])
    assert whole.digest() == bg.train(params, kept).digest()
    assert whole.trees[0].n_splits > 0


@pytest.fixture
def bin_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by the number of rows at every binning."""
    calls: list[int] = []
    original = CpuBackend.bin_columns

    def counted(self: CpuBackend, columns: Any, mapper: Any) -> Any:
        calls.append(len(columns[0]))
        return original(self, columns, mapper)

    monkeypatch.setattr(CpuBackend, "bin_columns", counted)
    return calls


def test_a_second_training_does_not_bin_again(bin_calls: list[int]) -> None:
    train_set, valid_set = bg.Dataset(X[:200], Y[:200]), bg.Dataset(X[200:], Y[200:])
    params = {**FAST, "objective": "regression"}
    first = bg.train(params, train_set, valid_sets=valid_set)
    assert bin_calls == [200, 40]
    second = bg.train(params, train_set, valid_sets=valid_set)
    assert bin_calls == [200, 40]
    assert first.to_bytes() == second.to_bytes()
    assert first.info is not None and second.info is not None
    assert first.info.evals_result == second.info.evals_result
    bg.train({**params, "learning_rate": 0.3, "scale_pos_weight": 1.0}, train_set)
    assert bin_calls == [200, 40]
    fewer = bg.train({**params, "max_bin": 7}, train_set, valid_sets=valid_set)
    assert bin_calls == [200, 40, 200, 40]
    fresh = bg.train({**params, "max_bin": 7}, bg.Dataset(X[:200], Y[:200]))
    assert fewer.digest() == fresh.digest()


def test_one_validation_set_with_two_training_sets() -> None:
    """Bins of a validation set belong to the edges of one training set."""
    valid = bg.Dataset(X[200:], Y[200:])
    params = {**FAST, "objective": "regression"}
    bg.train(params, bg.Dataset(X[:100], Y[:100]), valid_sets=valid)
    model = bg.train(params, bg.Dataset(3 * X[100:200], Y[100:200]), valid_sets=valid)
    expected = np.sqrt(np.mean((model.predict(X[200:]) - Y[200:]) ** 2))
    assert model.info is not None
    assert model.info.evals_result["valid_0"]["rmse"][-1] == pytest.approx(expected, rel=1e-12)


def test_a_shard_is_binned_for_the_ranks_it_trains_with() -> None:
    a, b, c, d = (bg.Dataset(X[i : i + 60] * (1 + i), Y[i : i + 60]) for i in (0, 60, 120, 180))

    def digests(*shards: bg.Dataset) -> set[str]:
        def work(comm: Comm) -> str:
            params = {**FAST, "objective": "regression"}
            return bg.train(params, shards[comm.rank], comm=comm).digest()

        return set(run_threads(2, work))

    digests(a, b)
    digests(c, d)
    alone = {bg.train({**FAST, "objective": "regression"}, shard).digest() for shard in (a, d)}
    assert alone == {digest(X[:60], Y[:60]), digest(X[180:] * 181, Y[180:])}
    together = np.concatenate([X[:60], X[180:] * 181])
    assert digests(a, d) == {digest(together, np.concatenate([Y[:60], Y[180:]]))}


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_training_leaves_the_data_alone(device: str) -> None:
    given = [X.copy(), (Y > 0).astype(float), np.full(len(Y), 2.0)]
    before = [array.tobytes() for array in given]
    dataset = bg.Dataset(given[0], given[1], weight=given[2])
    for array in [*dataset.columns, dataset.label, dataset.weight]:
        array.setflags(write=False)  # whoever writes fails
    params = {**FAST, "objective": "binary", "device": device, "scale_pos_weight": 2.0}
    bg.train(params, dataset, valid_sets=[dataset])
    assert [array.tobytes() for array in given] == before


def test_labels_are_copied() -> None:
    y = Y.copy()
    dataset = bg.Dataset(X, y)
    y[:] = 0.0
    model = bg.train({**FAST, "objective": "regression"}, dataset)
    assert model.digest() == digest(X, Y)


def test_facts_and_names() -> None:
    dataset = bg.Dataset(X, Y, group=[100, 140])
    assert (dataset.n_rows, dataset.n_features, dataset.feature_names) == (240, 5, NAMES)
    assert dataset.group is not None and dataset.group.tolist() == [100, 140]
    assert bg.Dataset(pd.DataFrame(X, columns=list("abcde"))).feature_names == list("abcde")
    assert bg.Dataset(pd.DataFrame(X)).feature_names == list("01234")
    assert bg.Dataset(X, feature_names=list("vwxyz")).feature_names == list("vwxyz")
    named = bg.Dataset(X, Y, feature_names=list("abcde"))
    model = bg.train({**FAST, "objective": "regression"}, named)
    assert model.feature_names == list("abcde")


def test_rows_for_prediction_are_contiguous() -> None:
    for kind in FLOAT_TABLES.values():
        rows = rows_for_prediction(kind(), NAMES, dense=True)
        assert rows.flags.c_contiguous and rows.dtype in (np.float32, np.float64)
        np.testing.assert_array_equal(rows, X)
    memory = np.ascontiguousarray(X)
    assert rows_for_prediction(memory, NAMES) is memory


def test_rows_without_weight_leave_queries_pieces_and_bins() -> None:
    weight = np.ones(240)
    weight[:100] = weight[150] = 0.0
    parts = [
        bg.Dataset(X[r], Y[r], weight=weight[r], group=[50, len(X[r]) - 50])
        for r in (slice(0, 110), slice(110, 240))
    ]
    shard = bg.Dataset.joined(parts, [3, 1])
    shard.binned["key"] = "bins of all rows"
    kept = shard.without_zero_weights()
    assert (kept.n_rows, kept.n_features) == (139, 5)
    assert kept.group is not None and kept.group.tolist() == [10, 49, 80]
    assert kept.pieces == [(3, 10), (1, 129)]
    assert kept.binned == {} and shard.n_rows == 240
    np.testing.assert_array_equal(kept.columns[2], X[weight > 0, 2])
    np.testing.assert_array_equal(kept.label, Y[weight > 0])


def shifted(values: np.ndarray) -> np.ndarray:
    """The same array at an odd address."""
    raw = np.zeros(values.nbytes + 1, np.uint8)[1:]
    raw[:] = np.frombuffer(values.tobytes(), np.uint8)
    view = raw.view(values.dtype).reshape(values.shape)
    assert not view.flags.aligned
    return view


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_at_odd_addresses(dtype: type) -> None:
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(300, 3)).astype(dtype), rng.normal(size=300)
    odd = bg.Dataset(shifted(X), shifted(y), weight=shifted(np.ones(300)))
    assert all(column.flags.aligned for column in odd.columns)
    params = {"objective": "regression", "n_estimators": 3}
    model = bg.train(params, odd)
    assert model.digest() == bg.train(params, bg.Dataset(X, y, weight=np.ones(300))).digest()
    frame = pd.DataFrame(shifted(X), columns=model.feature_names, copy=False)
    assert all(column.flags.aligned for column in bg.Dataset(frame, y).columns)
    assert rows_for_prediction(shifted(X), model.feature_names).flags.aligned
    assert model.predict(shifted(X)).tobytes() == model.predict(X).tobytes()
