"""Sparse tables against the same tables made dense: models, predictions, records, samples."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import bitgrove as bg
from bitgrove import _core
from bitgrove.data.sparse.tables import SparseTable
from bitgrove.distributed import run_threads
from bitgrove.errors import DataError, HostMemoryError

PARAMS: dict[str, Any] = {"objective": "regression", "n_estimators": 3, "num_leaves": 8,
                          "min_child_samples": 2, "verbosity": -1}  # fmt: skip


def rows_of(n_rows: int = 400, n_columns: int = 30, share: float = 0.08, seed: int = 0) -> Any:
    """Whole and real numbers of both signs, some of them missing."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n_rows, n_columns)) < share, rng.normal(size=(n_rows, n_columns)), 0)
    X[:, ::3] = np.sign(X[:, ::3])
    X[rng.random(X.shape) < 0.003] = np.nan
    return X


def label_of(X: Any) -> Any:
    known = np.nan_to_num(X, nan=0.5)
    return known[:, 0] - 2 * known[:, 1] + known[:, 2] * (known[:, 3] == 0)


def same(X: Any, table: Any, **changes: Any) -> bg.Model:
    """The model of both forms of the rows."""
    y, params = label_of(X), {**PARAMS, **changes}
    dense = bg.train(params, bg.Dataset(X, y))
    found = bg.train(params, bg.Dataset(table, y))
    assert found.to_bytes() == dense.to_bytes()  # the record of the rows is in them
    return found


@pytest.mark.parametrize(
    "kind", ["csr_array", "csc_matrix", "coo_array", "lil_matrix", "bsr_array"]
)
def test_every_format(kind: str) -> None:
    X = rows_of()
    table = getattr(sparse, kind)(X)
    model = same(X, table, n_jobs=2)
    expected = model.predict(X)
    np.testing.assert_array_equal(model.predict(table), expected)
    np.testing.assert_array_equal(model.predict(bg.Dataset(table)), expected)
    np.testing.assert_array_equal(model.predict_leaf(table), model.predict_leaf(X))
    np.testing.assert_array_equal(
        list(model.staged_predict(table))[1], list(model.staged_predict(X))[1]
    )
    np.testing.assert_array_equal(model.shap_values(table), model.shap_values(X))


@st.composite
def tables(draw: st.DrawFn) -> tuple[Any, Any]:
    """A table as unsorted triplets with duplicates and stored zeros, and the same rows dense."""
    n_rows, n_columns = draw(st.integers(1, 40)), draw(st.integers(1, 12))
    n_stored = draw(st.integers(0, 120))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    dtype = draw(st.sampled_from([np.float32, np.float64, np.int8, np.int64]))
    values = draw(st.sampled_from([[0.0, 1.0], [-2.0, 0.0, 3.0], [0.25, -0.0, 7.5, np.nan, -1e30]]))
    if np.dtype(dtype).kind == "i":
        values = [np.trunc(v) for v in values[:3]]
    where = rng.integers(0, n_rows, n_stored), rng.integers(0, n_columns, n_stored)
    stored = rng.choice(values, n_stored).astype(dtype)
    table = sparse.coo_array((stored, where), shape=(n_rows, n_columns))
    dense = table.toarray()
    form = draw(st.sampled_from(["coo", "csr", "csc", "unsorted"]))
    if form == "unsorted":
        order = rng.permutation(n_stored)
        pointers = np.searchsorted(np.sort(where[0]), np.arange(n_rows + 1))
        order = order[np.argsort(where[0][order], kind="stable")]
        table = sparse.csr_array((stored[order], where[1][order], pointers), table.shape)
    elif form != "coo":
        table = table.asformat(form)
    if draw(st.booleans()) and hasattr(table, "indptr"):
        table.indices, table.indptr = (a.astype(np.int64) for a in (table.indices, table.indptr))
    return table, dense


@given(tables(), st.integers(1, 3), st.sampled_from([2, 5, 255]))
@settings(max_examples=40, deadline=None)
def test_random_tables(both: Any, n_jobs: int, max_bin: int) -> None:
    table, dense = both
    before = table.copy()
    y = np.random.default_rng(1).normal(size=len(dense)).round(2)
    params = {**PARAMS, "min_child_samples": 1, "n_jobs": n_jobs, "max_bin": max_bin}
    expected = bg.train(params, bg.Dataset(dense, y))
    found = bg.train(params, bg.Dataset(table, y))
    assert found.to_bytes() == expected.to_bytes()
    np.testing.assert_array_equal(found.predict(table), expected.predict(dense))
    assert (before != table).nnz == 0 or np.isnan(dense.astype(float)).any()  # X is left alone


def test_duplicates_are_summed_in_their_own_type() -> None:
    """As SciPy does: int8 wraps around. Found by test_random_tables."""
    stored = np.full(60, 3, dtype=np.int8)
    table = sparse.csr_array((stored, np.zeros(60, np.int32), [0, 50, 55, 60]), (3, 2))
    assert table.toarray()[0, 0] == 150 - 256
    params = {**PARAMS, "min_child_samples": 1}
    found = bg.train(params, bg.Dataset(table, [0.0, 1.0, 2.0]))
    assert found == bg.train(params, bg.Dataset(table.toarray(), [0.0, 1.0, 2.0]))


@pytest.mark.parametrize("simd", ["scalar", "avx2"])
def test_other_instructions(simd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X = rows_of(seed=3)
    expected = same(X, sparse.csr_array(X)).predict(X)
    monkeypatch.setenv("BITGROVE_SIMD", simd)
    model = same(X, sparse.csr_array(X))
    np.testing.assert_array_equal(model.predict(sparse.csr_array(X)), expected)


def test_bins_of_a_sample_and_wide_trees() -> None:
    """Edges from a sample of rows; nodes of more rows than one block; lists and columns."""
    X = rows_of(9000, 12, 0.1, seed=4)
    X[:, 5] = np.random.default_rng(5).normal(size=9000)
    y = label_of(X)
    params = {**PARAMS, "bin_sample_rows": 500, "num_leaves": 60, "n_jobs": 2, "max_bin": 30}
    expected = bg.train(params, bg.Dataset(X, y)).to_bytes()
    assert bg.train(params, bg.Dataset(sparse.csr_array(X), y)).to_bytes() == expected
    assert bg.train(params, bg.Dataset(sparse.csc_array(X), y)).to_bytes() == expected


@pytest.mark.parametrize("kind", ["csr_array", "csc_array"])
def test_features_of_few_rows(kind: str) -> None:
    """Values in fewer than one row of 1024, which decide; more rows than one block has."""
    rng = np.random.default_rng(12)
    X = np.where(rng.random((20_000, 5)) < 0.05, rng.normal(size=(20_000, 5)).round(1), 0.0)
    X[rng.permutation(20_000)[:15], 1] = [3.0, 4.0, np.nan] * 5
    X[:, 3] = 0.0
    X[[7, 4000, 16_500, 19_999], 3] = 1.0
    y = X[:, 0] + 50.0 * (X[:, 3] > 0) + 20.0 * np.isnan(X[:, 1]) - 9.0 * (X[:, 1] == 3.0)
    params = {**PARAMS, "num_leaves": 12, "min_child_samples": 1, "n_jobs": 2}
    expected = bg.train(params, bg.Dataset(X, y))
    assert {1, 3} <= {int(f) for tree in expected.trees for f in tree.feature}
    found = bg.train(params, bg.Dataset(getattr(sparse, kind)(X), y))
    assert found.to_bytes() == expected.to_bytes()


def test_threads_share_the_bins_of_a_node() -> None:
    """A few values for each bin: each thread adds those at some of the positions."""
    X = rows_of(4000, 200, 0.12, seed=14)
    y, params = label_of(X), {**PARAMS, "n_estimators": 2}
    expected = bg.train({**params, "n_jobs": 1}, bg.Dataset(X, y)).to_bytes()
    for n_jobs in (1, 2, 3):
        data = bg.Dataset(sparse.csr_array(X), y)
        assert bg.train({**params, "n_jobs": n_jobs}, data).to_bytes() == expected
        assert not binned(data).lists.by_postings


def binned(data: bg.Dataset) -> Any:
    """The bins that a training kept."""
    return next(iter(data.binned.values()))[1]


@pytest.mark.parametrize(
    "changes",
    [
        {"gradient_bits": 3},
        {"gradient_bits": None},
        {"extra_trees": True},
        {"feature_fraction_bynode": 0.5, "path_smooth": 1.0},
        {"subsample": 0.6, "num_leaves": 40, "histogram_pool_mb": 1},
    ],
)
def test_splits_found_without_slots(changes: dict[str, Any]) -> None:
    """Nearly as many bins as values: slots have room for the features in columns alone."""
    X = rows_of(900, 60, 0.1, seed=15)
    X[:, 7] = np.random.default_rng(16).normal(size=900)
    y, params = label_of(X) + X[:, 7], {**PARAMS, **changes}
    expected = bg.train(params, bg.Dataset(X, y)).to_bytes()
    for n_jobs in (1, 3):
        data = bg.Dataset(sparse.csr_array(X), y)
        assert bg.train({**params, "n_jobs": n_jobs}, data).to_bytes() == expected
        assert binned(data).lists.by_postings
        assert binned(data).n_slot_bins == binned(data).mapper.missing_bin[7]


def test_of_equal_splits_that_of_the_lowest_feature() -> None:
    """Of a feature in columns or in lists, whichever comes first."""
    rng = np.random.default_rng(17)
    X = np.where(rng.random((600, 30)) < 0.1, rng.normal(size=(600, 30)), 0.0)
    decides = rng.random(600) < 0.15
    for first in (True, False):
        X[:, 10 if first else 20] = decides
        X[:, 20 if first else 10] = 10.0 * decides + rng.random(600)
        data, params = bg.Dataset(sparse.csr_array(X), decides), {**PARAMS, "num_leaves": 2}
        model = bg.train(params, data)
        assert binned(data).lists.by_postings and (binned(data).column_of >= 0).any()
        assert model.trees[0].feature.tolist() == [10]
        assert model == bg.train(params, bg.Dataset(X, decides))


def test_postings_far_apart() -> None:
    """Rows between those of a feature: a multiple of what a gap of two bytes holds, and more."""
    rows = np.array([0, 65_534, 131_069, 200_000, 65_535, 131_070, 199_999])
    columns = np.repeat([0, 1], [4, 3])
    table = sparse.csr_array((np.arange(1.0, 8.0), (rows, columns)), shape=(200_001, 2))
    y = table.toarray() @ [1.0, 2.0]
    data, params = bg.Dataset(table, y), {**PARAMS, "min_child_samples": 1}
    found = bg.train(params, data)
    assert binned(data).lists.by_postings and binned(data).n_slot_bins == 0
    assert found.to_bytes() == bg.train(params, bg.Dataset(table.toarray(), y)).to_bytes()
    assert set(found.trees[0].feature.tolist()) == {0, 1}


def test_rows_of_values_far_apart() -> None:
    """More than 2^16 bins lie between the values of a row: their gaps take several numbers."""
    rng = np.random.default_rng(13)
    rows = np.concatenate([np.arange(40), rng.integers(0, 40, 75_000), np.arange(40)])
    columns = np.concatenate([np.zeros(40, int), np.arange(5, 75_005), np.full(40, 75_009)])
    values = rng.choice([1.0, 2.0], len(rows))
    values[:40], values[-40:] = np.arange(40) % 2, np.arange(40) % 3
    alone = rows[40:-40] < 20  # the other rows have two values, at both ends
    kept = np.concatenate([np.ones(40, bool), alone, np.ones(40, bool)])
    where = (rows[kept], columns[kept])
    table = sparse.csr_array((values[kept], where), shape=(40, 75_010))
    y = (np.arange(40) % 2) + 0.1 * (np.arange(40) % 3)
    params = {**PARAMS, "n_estimators": 2, "n_jobs": 2}
    expected = bg.train(params, bg.Dataset(table.toarray(), y))
    assert expected.trees[0].feature[0] == 0
    for form in (table, table.tocsc()):
        found = bg.train(params, bg.Dataset(form, y))
        assert found.to_bytes() == expected.to_bytes()
    np.testing.assert_array_equal(found.predict(table), expected.predict(table.toarray()))


@pytest.mark.parametrize("n_ranks", [2, 3])
def test_ranks_with_shards_of_both_kinds(n_ranks: int) -> None:
    """Some ranks have missing values where others have none; one may have no rows."""
    X = rows_of(300, 20)
    X[:150][np.isnan(X[:150])] = 0.0
    y, params = label_of(X), {**PARAMS, "n_jobs": 1, "bin_sample_rows": 120}
    expected = bg.train(params, bg.Dataset(X, y)).to_bytes()
    borders = [0, 0, 100, 300] if n_ranks == 3 else [0, 150, 300]

    def rank(comm: Any) -> bytes:
        rows = slice(borders[comm.rank], borders[comm.rank + 1])
        kind = [sparse.csr_array, sparse.csc_array][comm.rank % 2]
        return bg.train(params, bg.Dataset(kind(X[rows]), y[rows]), comm=comm).to_bytes()

    assert set(run_threads(n_ranks, rank)) == {expected}


def test_voting_ranks() -> None:
    X = rows_of(300, 20, seed=6)
    y, params = label_of(X), {**PARAMS, "distributed": "voting", "top_k": 3, "n_jobs": 1}

    def rank(comm: Any, form: Any) -> str:
        rows = slice(150 * comm.rank, 150 * comm.rank + 150)
        return bg.train(params, bg.Dataset(form(X[rows]), y[rows]), comm=comm).digest()

    dense = run_threads(2, lambda comm: rank(comm, np.array))
    assert run_threads(2, lambda comm: rank(comm, sparse.csr_array)) == dense


def test_frames_with_sparse_columns() -> None:
    """Sparse columns of zeros stay so, beside dense ones and categories; others are made dense."""
    X = rows_of(300, 8, seed=7)
    frame = pd.DataFrame({f"c{j}": X[:, j] for j in range(8)})
    frame["town"] = pd.Categorical(np.array(["Rome", "Oslo", "Bern"])[np.arange(300) % 3])
    mixed = frame.copy()
    for name in ("c1", "c3", "c4"):
        mixed[name] = pd.arrays.SparseArray(mixed[name].to_numpy(), fill_value=0.0)
    mixed["c2"] = mixed["c2"].astype(pd.SparseDtype(float, np.nan))
    model = same_frames(frame, mixed, label_of(X))
    np.testing.assert_array_equal(model.predict(mixed), model.predict(frame))
    dataset = bg.Dataset(mixed, label_of(X))
    np.testing.assert_array_equal(dataset.subset([5, 2]).columns[3][:], X[[5, 2], 3])
    dummies = pd.get_dummies(frame["town"], sparse=True)
    assert same_frames(dummies.astype(float), dummies, label_of(X)).n_features == 3


def same_frames(dense: Any, mixed: Any, y: Any) -> bg.Model:
    expected, found = (bg.train(PARAMS, bg.Dataset(rows, y)) for rows in (dense, mixed))
    assert found.to_bytes() == expected.to_bytes()
    return found


def test_arrow_matrices_and_listed_categories() -> None:
    X = np.abs(rows_of(200, 6, 0.3, seed=8).round())
    X[np.isnan(X)] = 0.0
    table = sparse.csr_matrix(X)
    model = same(X, pa.SparseCSRMatrix.from_scipy(table))
    y = label_of(X)
    expected = bg.train(PARAMS, bg.Dataset(X, y, categorical_feature=[0, 4]))
    found = bg.train(PARAMS, bg.Dataset(table, y, categorical_feature=[0, 4]))
    assert found.to_bytes() == expected.to_bytes() != model.to_bytes()
    np.testing.assert_array_equal(found.predict(table), expected.predict(X))


def test_datasets_of_sparse_rows() -> None:
    """Subsets, weights of zero, references, folds, refit and verification."""
    X = rows_of(300, 15, seed=9)
    y, weight = label_of(X), np.where(np.arange(300) % 5, 1.0, 0.0)
    models = []
    for form in (np.array, sparse.csr_array, sparse.csc_matrix):
        data = bg.Dataset(form(X), y, weight=weight)
        assert repr(data) == "<bitgrove.Dataset 300 rows, 15 features, with label, weight>"
        part = data.subset(np.arange(0, 300, 2))
        valid = bg.Dataset(form(X[:50]), y[:50], reference=data)
        model = bg.train({**PARAMS, "n_estimators": 4}, part, valid_sets=[valid])
        again = bg.train(PARAMS, data, init_model=model).refit(form(X), y)
        folds = bg.cv(PARAMS, bg.Dataset(form(X), y), nfold=3)
        assert bg.verify(bg.train(PARAMS, data), form(X), y, weight=weight).verified
        models.append((model.to_bytes(), again.digest(), model.info.evals_result, folds))
    assert models[0] == models[1] == models[2]


def test_estimators_take_sparse_rows() -> None:
    X = rows_of(200, 10, seed=10)
    y = (np.nan_to_num(X[:, 1]) > 0).astype(int)
    dense, found = (
        bg.BitGroveClassifier(n_estimators=3, min_child_samples=2).fit(rows, y)
        for rows in (X, sparse.csr_array(X))
    )
    assert found.model_.digest() == dense.model_.digest()
    np.testing.assert_array_equal(found.predict_proba(sparse.csc_array(X)), dense.predict_proba(X))


def test_a_table_that_is_too_large_as_a_dense_one() -> None:
    """20,000 x 200,000 would be 32 GB."""
    rng = np.random.default_rng(11)
    indices = np.sort(rng.integers(0, 200_000, (20_000, 10)).astype(np.int32), axis=1)
    indices[:, 0] = rng.integers(0, 20, 20_000)  # columns that many rows have
    pointers = np.arange(0, 200_001, 10)
    table = sparse.csr_array((np.ones(200_000, np.float32), indices.ravel(), pointers),
                             shape=(20_000, 200_000))  # fmt: skip
    y = (indices[:, 0] < 7).astype(float)
    model = bg.train({"objective": "binary", "n_estimators": 2, "learning_rate": 1.0},
                     bg.Dataset(table, y))  # fmt: skip
    assert ((model.predict(table) > 0.5) == (y > 0.5)).mean() > 0.9
    with pytest.raises(HostMemoryError, match="20000 rows of 2000000 features are 160 GB"):
        SparseTable(sparse.csr_array((20_000, 2_000_000), dtype=np.float32)).dense()


def test_bad_tables() -> None:
    X = sparse.csr_array(rows_of(20, 4))
    for wrong, match in [
        (X.astype(complex), "Complex"),
        (sparse.csr_array((5, 0)), r"0 feature\(s\)"),
    ]:
        with pytest.raises(ValueError, match=match):
            bg.Dataset(wrong)
    model = bg.train(PARAMS, bg.Dataset(X, np.arange(20.0)))
    with pytest.raises(DataError, match="X has 3 features, but the model expects 4"):
        model.predict(X[:, :3])
    with pytest.raises(DataError, match="label has 3 entries but X has 20 rows"):
        bg.Dataset(X, [1, 2, 3])


def test_indices_that_were_changed_are_an_error() -> None:
    X = sparse.csr_array(rows_of(50, 4, 0.9))
    data = bg.Dataset(X, np.arange(50.0))
    X.indices[3] = 1000
    with pytest.raises(ValueError, match="index of a sparse table is out of range"):
        bg.train(PARAMS, data)
    X.indices[3] = 0
    X.indices[:2] = [1, 0]  # of one row
    assert X.indptr[1] >= 2
    with pytest.raises(ValueError, match="indices of a sparse table are not sorted"):
        bg.train(PARAMS, data)
    X.indices[:2], X.indptr[2] = [0, 1], 10_000
    with pytest.raises(ValueError, match="pointers of a sparse table"):
        bg.train(PARAMS, data)


@pytest.mark.parametrize(
    "arrays",
    [
        (np.zeros(3, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int32)),
        (np.zeros(3, np.float64), np.zeros(0, np.int32), np.zeros(0)),
        (np.zeros(2, np.int32), np.zeros(0, np.int32), np.zeros(0)),
        (np.zeros(3, np.int32), np.zeros(0, np.int32), np.zeros(1)),
    ],
)
def test_wrong_arrays_are_refused_by_the_core(arrays: Any) -> None:
    with pytest.raises(ValueError, match="bitgrove core"):
        _core.SparseTable(*arrays, 2, 3, True)


def test_models_of_sparse_rows_travel() -> None:
    X = rows_of(100, 6)
    model = same(X, sparse.csr_array(X))
    loaded = bg.Model.from_bytes(io.BytesIO(model.to_bytes()).read())
    np.testing.assert_array_equal(loaded.predict(sparse.csr_array(X)), model.predict(X))
