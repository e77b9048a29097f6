"""Training on Dask: the bytes of one machine, for any number of workers and any partitions."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from distributed import Client, Lock, get_client, get_worker
from sklearn.base import clone

import bitgrove as bg
import bitgrove.dask as bgd
from bitgrove.errors import DataError, DataTypeError, ParameterError
from cases import CASES, signal, table
from dask_cases import cluster_of, fit_dask, fit_solo, in_blocks

USED: list[str] = []


def note_worker(_: object) -> None:
    USED.append(get_worker().address)


@pytest.fixture(scope="module")
def some_workers(request: pytest.FixtureRequest) -> Iterator[tuple[int, Client]]:
    with cluster_of(request.param) as client:
        yield request.param, client


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Two workers, threads of this process."""
    with cluster_of(2) as client:
        yield client


def dealt_out(n_workers: int) -> list[str]:
    """Three workers train every case; a third of them must do for other numbers, as with MPI."""
    return sorted(CASES) if n_workers == 3 else sorted(CASES)[n_workers::3]


@pytest.mark.parametrize(
    ("some_workers", "name"),
    [(n, name) for n in (1, 2, 3) for name in dealt_out(n)],
    indirect=["some_workers"],
)
def test_digests_equal_solo(name: str, some_workers: tuple[int, Client]) -> None:
    """Uneven partitions, as the scheduler deals them out: rarely neighbours on a worker."""
    n_workers, client = some_workers
    case = CASES[name]()
    USED.clear()
    fitted = fit_dask(case, client, case._borders(7)[:-1], [note_worker])
    solo = fit_solo(case)
    assert fitted.model_.to_bytes() == solo.model_.to_bytes()
    assert fitted.evals_result_ == solo.evals_result_
    assert fitted.best_iteration_ == solo.best_iteration_
    assert len(set(USED)) == n_workers


@pytest.mark.parametrize(
    "borders",
    [[0], [0, 300, 600], [0, 0, 450, 450], list(range(0, 900, 30)), [0, 899, 900]],
    ids=["one", "even", "empty", "many", "one row"],
)
def test_any_partitions(client: Client, borders: list[int]) -> None:
    case = CASES["binary sampled"]()
    fitted = fit_dask(case, client, borders)
    assert fitted.model_.digest() == fit_solo(case).model_.digest()
    X = in_blocks(case.X, borders)
    expected = fit_solo(case).predict_proba(case.X)
    np.testing.assert_array_equal(fitted.predict_proba(X).compute(), expected)


def test_more_workers_than_partitions() -> None:
    case = CASES["ranking early stopping"]()
    with cluster_of(4) as client:
        fitted = fit_dask(case, client, [0, int(np.cumsum(case.group)[20])])
    assert fitted.model_.digest() == fit_solo(case).model_.digest()


@pytest.mark.parametrize("classes", [["no", "yes"], ["c", "a", "bb"], [7, -1], [0.5, 1.5]])
def test_classes_are_agreed_over_partitions(client: Client, classes: list[Any]) -> None:
    """Sorted by label: no partition sees all classes."""
    X = table(300, 4, 0)
    codes = np.sort(np.digitize(signal(X, 0), [0.0, 1.5][: len(classes) - 1]))
    y = np.array(sorted(classes))[codes]
    if isinstance(classes[0], float):
        y = (2 * y).astype(np.int64).astype(np.float64)
    borders = [0, 50, 200]
    fitted = bgd.BitGroveClassifier(n_estimators=3, client=client).fit(
        in_blocks(X, borders), in_blocks(y, borders)
    )
    solo = bg.BitGroveClassifier(n_estimators=3).fit(X, y)
    assert fitted.model_.digest() == solo.model_.digest()
    assert fitted.classes_.tolist() == solo.classes_.tolist()
    predicted = fitted.predict(in_blocks(X, borders))
    assert isinstance(predicted, da.Array) and predicted.dtype == solo.classes_.dtype
    np.testing.assert_array_equal(predicted.compute(), solo.predict(X))
    scores = fitted.decision_function(in_blocks(X, borders))
    np.testing.assert_array_equal(scores.compute(), solo.decision_function(X))
    assert scores.shape == solo.decision_function(X).shape
    assert fitted.score(in_blocks(X, borders), in_blocks(y, borders)) == solo.score(X, y)


def test_data_frames_and_mixed_types(client: Client) -> None:
    """Nullable, narrow and boolean columns; one partition's types differ from another's."""
    X = table(400, 3, 1)
    frame = pd.DataFrame(
        {
            "wide": X[:, 0],
            "narrow": X[:, 1].astype(np.float32),
            "count": pd.array(np.arange(400) % 7, dtype="Int16"),
            "flag": X[:, 2] > 0,
        }
    )
    frame.loc[5:9, "count"] = pd.NA
    y = pd.Series(signal(X, 1), name="target")
    pieces = [frame[:150], frame[150:150], frame[150:]]
    pieces[2] = pieces[2].astype({"wide": "float32", "flag": "int8"})
    meta = frame.iloc[:0]
    targets = [y[:150], y[150:150], y[150:]]
    lazy = dd.from_map(lambda i: pieces[i], range(3), meta=meta, enforce_metadata=False)
    target = dd.from_map(lambda i: targets[i], range(3), meta=y[:0])
    fitted = bgd.BitGroveRegressor(n_estimators=4, client=client).fit(lazy, target)
    whole = pd.concat(pieces).astype({"wide": float, "flag": "int8"})
    solo = bg.BitGroveRegressor(n_estimators=4).fit(whole, y)
    assert fitted.model_.digest() == solo.model_.digest()
    assert fitted.feature_names_in_.tolist() == list(frame)
    predicted = fitted.predict(lazy)
    assert isinstance(predicted, da.Array) and np.isnan(predicted.shape[0])
    np.testing.assert_array_equal(predicted.compute(), solo.predict(whole))
    assert fitted.score(lazy, target) == solo.score(whole, y)
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(lazy.rename(columns={"wide": "broad"})).compute()


def test_sparse_blocks(client: Client) -> None:
    X = np.where(table(200, 4, 2) > 0.5, table(200, 4, 2), 0.0)
    y = signal(X, 2)
    lazy = in_blocks(X, [0, 80]).map_blocks(scipy.sparse.csr_matrix)
    fitted = bgd.BitGroveRegressor(n_estimators=3, client=client).fit(lazy, in_blocks(y, [0, 80]))
    assert fitted.model_.digest() == bg.BitGroveRegressor(n_estimators=3).fit(X, y).model_.digest()


def test_dates_are_refused_as_elsewhere(client: Client) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "c": pd.date_range("2020", periods=3)})
    lazy, y = dd.from_pandas(frame, npartitions=2), dd.from_pandas(pd.Series([0, 1, 0]), 2)
    with pytest.raises(DataError, match="'c' has type datetime"):
        bg.BitGroveRegressor().fit(frame, [0, 1, 0])
    with pytest.raises(DataError, match=r"worker .*partition .*'c' has type datetime"):
        bgd.BitGroveRegressor(client=client).fit(lazy, y)


def test_rows_without_weight_are_absent(client: Client) -> None:
    """Also where they are a whole partition, or all rows of a class."""
    X = table(300, 3, 3)
    y = np.array(["a", "b"])[(signal(X, 3) > 0.5).astype(int)]
    weight = np.random.default_rng(0).integers(0, 3, size=300).astype(float)
    weight[:100] = 0.0
    y[:10] = "never"
    borders = [0, 100, 170]
    fitted = bgd.BitGroveClassifier(n_estimators=4, subsample=0.7, client=client)
    fitted.fit(*(in_blocks(a, borders) for a in (X, y, weight)))
    solo = bg.BitGroveClassifier(n_estimators=4, subsample=0.7).fit(X, y, weight)
    assert fitted.model_.digest() == solo.model_.digest()


def test_queries_by_id(client: Client) -> None:
    case = CASES["ranking"]()
    assert case.group is not None
    qid = np.repeat(np.arange(len(case.group)), case.group)
    border = int(np.cumsum(case.group)[30])
    X, y, ids = (in_blocks(a, [0, border]) for a in (case.X, case.y, qid))
    ranker = bgd.BitGroveRanker(n_estimators=3, client=client)
    solo = bg.BitGroveRanker(n_estimators=3).fit(case.X, case.y, group=case.group)
    assert ranker.fit(X, y, qid=ids).model_.digest() == solo.model_.digest()
    np.testing.assert_array_equal(ranker.predict(X).compute(), solo.predict(case.X))
    assert ranker.score(X, y, qid=ids) == solo.score(case.X, case.y, group=case.group)
    with pytest.raises(DataError, match=r"query \d+ has rows in partitions 0 and 1"):
        ranker.fit(*(in_blocks(a, [0, border + 1]) for a in (case.X, case.y)),
                   qid=in_blocks(qid, [0, border + 1]))  # fmt: skip
    with pytest.raises(DataError, match="either group"):
        ranker.fit(X, y)
    with pytest.raises(DataError, match=r"partition \d .*group sizes add up to"):
        ranker.fit(X, y, group=in_blocks(case.group, [0, 30]))


def test_bad_input_says_what_is_wrong(client: Client) -> None:
    X, y = in_blocks(np.ones((10, 2)), [0, 5]), in_blocks(np.arange(10.0), [0, 5])
    regressor = bgd.BitGroveRegressor(client=client, n_estimators=1)
    with pytest.raises(DataTypeError, match="X must be a Dask array"):
        regressor.fit(np.ones((10, 2)), y)
    with pytest.raises(DataTypeError, match="y: must be a Dask array"):
        regressor.fit(X, np.arange(10.0))
    with pytest.raises(DataTypeError, match="eval_y: must be"):
        regressor.fit(X, y, eval_set=[(X, [1, 2])])
    with pytest.raises(DataError, match="y has 1 partitions but X has 2"):
        regressor.fit(X, in_blocks(np.arange(9.0), [0]))
    with pytest.raises(DataError, match=r"partition 1 .*inconsistent numbers of samples"):
        regressor.fit(X, in_blocks(np.arange(9.0), [0, 5]))
    with pytest.raises(ParameterError, match="num_leaves=1"):
        regressor.set_params(num_leaves=1).fit(X, y)
    with pytest.raises(ParameterError, match="early_stopping_rounds=3 needs validation data"):
        bgd.BitGroveRegressor(client=client, early_stopping_rounds=3).fit(X, y)
    with pytest.raises(DataError, match="0 sample"):
        bgd.BitGroveRegressor(client=client).fit(X[:0], y[:0])
    with pytest.raises(DataError, match="text in some partitions"):
        mixed = [dask.delayed(np.array(b)) for b in ([0, 1, 0, 1, 0], ["a", "b", "a", "b", "a"])]
        labels = da.concatenate([da.from_delayed(b, (5,), dtype=object) for b in mixed])
        bgd.BitGroveClassifier(client=client).fit(X, labels)
    with pytest.raises(TypeError, match="num_leafs"):
        bgd.BitGroveRegressor(num_leafs=3)


def test_scikit_learn_conventions(client: Client) -> None:
    X, y = table(100, 3, 4), signal(table(100, 3, 4), 4)
    regressor = bgd.BitGroveRegressor(n_estimators=2, num_leaves=7, client=client)
    assert regressor.get_params() == {
        **bg.BitGroveRegressor(n_estimators=2, num_leaves=7).get_params(),
        "client": client,
    }
    copy = clone(regressor)
    assert copy.client is client and copy.num_leaves == 7 and copy is not regressor
    assert repr(clone(regressor).set_params(client=None)) == (
        "BitGroveRegressor(n_estimators=2, num_leaves=7)"
    )
    with pytest.raises(ValueError, match="not fitted"):
        regressor.predict(in_blocks(X, [0]))
    regressor.fit(in_blocks(X, [0, 40]), in_blocks(y, [0, 40]))
    local = regressor.to_local()
    assert type(local) is bg.BitGroveRegressor and local.get_params()["num_leaves"] == 7
    np.testing.assert_array_equal(local.predict(X), regressor.predict(X))
    restored = pickle.loads(pickle.dumps(regressor))
    assert restored.client is None and restored.model_ == regressor.model_
    np.testing.assert_array_equal(
        restored.predict(in_blocks(X, [0, 9])).compute(), local.predict(X)
    )
    assert regressor.model_.info is not None and regressor.model_.info.rounds_per_tree


def test_keywords_of_predict(client: Client) -> None:
    X = table(100, 3, 4)
    y = (signal(X, 4) > 0).astype(int)
    blocks = in_blocks(X, [0, 40])
    fitted = bgd.BitGroveClassifier(n_estimators=4, num_leaves=7, client=client)
    fitted.fit(blocks, in_blocks(y, [0, 40]))
    local = fitted.to_local()
    for how in (
        {"raw_score": True}, {"pred_leaf": True}, {"num_iteration": 2}, {"start_iteration": 1},
        {"pred_contrib": True},
    ):  # fmt: skip
        for method in ("predict", "predict_proba"):
            lazy = getattr(fitted, method)(blocks, **how)
            expected = getattr(local, method)(X, **how)
            assert lazy.dtype == expected.dtype and lazy.ndim == expected.ndim
            np.testing.assert_array_equal(lazy.compute(), expected)
    with pytest.raises(ParameterError, match="pred_interactions=True: not of Dask collections"):
        fitted.predict(blocks, pred_interactions=True)


def test_the_training_data_among_the_eval_sets(client: Client) -> None:
    X = table(300, 3, 4)
    y = signal(X, 4)
    Xs, ys = in_blocks(X, [0, 100]), in_blocks(y, [0, 100])
    held = in_blocks(X[:90] + 0.1, [0, 40]), in_blocks(y[:90], [0, 40])
    params = {"n_estimators": 40, "learning_rate": 0.9, "early_stopping_rounds": 2}
    fitted = bgd.BitGroveRegressor(**params, client=client)
    fitted.fit(Xs, ys, eval_set=[(Xs, ys), held], eval_names=["a", "b"])
    solo = bg.BitGroveRegressor(**params)
    solo.fit(X, y, eval_set=[(X, y), tuple(part.compute() for part in held)], eval_names=["a", "b"])
    assert fitted.evals_result_ == solo.evals_result_ and list(solo.evals_result_) == ["a", "b"]
    assert fitted.model_ == solo.model_


def test_going_on_from_a_model(client: Client, tmp_path: Path) -> None:
    X = table(300, 3, 4)
    y = signal(X, 4)
    start = bg.BitGroveRegressor(n_estimators=3).fit(X + 0.2, y)
    start.save_model(tmp_path / "start")
    solo = bg.BitGroveRegressor(n_estimators=4).fit(X, y, init_model=start)
    blocks = in_blocks(X, [0, 100]), in_blocks(y, [0, 100])
    for given in (start, start.model_, tmp_path / "start"):
        fitted = bgd.BitGroveRegressor(n_estimators=4, client=client)
        assert fitted.fit(*blocks, init_model=given).model_ == solo.model_
    for wrong in ({"warm_start": True}, {"validation_fraction": 0.1}):
        with pytest.raises(ParameterError, match="not supported on Dask"):
            bgd.BitGroveRegressor(**wrong, client=client).fit(*blocks)


def test_the_current_client_is_used(client: Client) -> None:
    assert bgd.BitGroveRegressor().client_ is client
    with client.as_current():
        assert bgd.BitGroveRegressor().client_ is client


def test_progress_is_shown_once_at_the_client(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES["early stopping"]()
    case.params |= {"verbosity": 1, "early_stopping_rounds": 40, "n_estimators": 4}
    fit_dask(case, client, [0, 400])
    lines = [line for line in capsys.readouterr().err.splitlines() if "valid_0 auc" in line]
    assert [line.split("]")[0] for line in lines] == ["[1", "[2", "[3", "[4"]


def test_a_callback_on_any_worker_stops_all(client: Client) -> None:
    case = CASES["regression"]()
    stop = [lambda state: state.iteration == 3]
    fitted = fit_dask(case, client, [0, 200, 400, 600], stop)
    assert fitted.n_iter_ == 3


def test_frames_with_text(client: Client) -> None:
    """Each partition has other levels, and one has no value at all."""
    rng = np.random.default_rng(20)
    frame = pd.DataFrame({"city": np.sort(rng.choice(["oslo", "rome", "bern", "riga"], 400))})
    frame["x"], frame.loc[300:, "city"] = rng.normal(size=400), None
    y = pd.Series(frame["city"].map(len, na_action="ignore").fillna(0.0) + frame["x"])
    params = {"n_estimators": 4, "min_data_per_group": 5, "max_cat_to_onehot": 1}
    fitted = bgd.BitGroveRegressor(**params, client=client).fit(
        dd.from_pandas(frame, npartitions=4, sort=False),
        dd.from_pandas(y, npartitions=4, sort=False),
    )
    solo = bg.BitGroveRegressor(**params).fit(frame, y)
    assert fitted.model_.digest() == solo.model_.digest()
    assert fitted.model_.encoder.n_levels == {0: len(frame["city"].dropna().unique())}
    found = fitted.predict(dd.from_pandas(frame, npartitions=3, sort=False)).compute()
    np.testing.assert_array_equal(found, solo.predict(frame))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("class_weight", ["balanced", {"b": 3.0}])
def test_weights_of_classes(client: Client, class_weight: Any, weighted: bool) -> None:
    """Classes are counted over all partitions; rows without weight are absent."""
    X = table(600, 4, 5)
    y = np.array(["a", "b", "c"])[np.digitize(signal(X, 5), [1.0, 2.0])]
    weight = np.arange(600) % 3.0 if weighted else None
    y[0] = "none" if weighted else y[0]  # its weight is 0
    borders, params = [0, 100, 150], {"n_estimators": 4, "class_weight": class_weight}
    fitted = bgd.BitGroveClassifier(**params, client=client)
    given = None if weight is None else in_blocks(weight, borders)
    fitted.fit(in_blocks(X, borders), in_blocks(y, borders), given)
    solo = bg.BitGroveClassifier(**params).fit(X, y, weight)
    assert fitted.model_.digest() == solo.model_.digest()
    plain = bg.BitGroveClassifier(n_estimators=4).fit(X, y, weight)
    assert fitted.model_.digest() != plain.model_.digest()


def test_several_labels(client: Client) -> None:
    X = table(500, 4, 6)
    y = np.column_stack([signal(X, 6) > 1, X[:, 0] > 0, X[:, 1] > 1]).astype(np.int8)
    borders = [0, 100, 350]
    blocks = in_blocks(X, borders)
    fitted = bgd.BitGroveClassifier(n_estimators=4, client=client).fit(
        blocks, in_blocks(y, borders)
    )
    solo = bg.BitGroveClassifier(n_estimators=4).fit(X, y)
    assert fitted.model_.digest() == solo.model_.digest()
    for method in ("predict", "predict_proba", "decision_function"):
        found, expected = getattr(fitted, method)(blocks), getattr(solo, method)(X)
        assert found.dtype == expected.dtype and found.shape == expected.shape
        np.testing.assert_array_equal(found.compute(), expected)
    with pytest.raises(ParameterError, match="class_weight='balanced': y has 3 columns"):
        fitted.set_params(class_weight="balanced").fit(blocks, in_blocks(y, borders))


LOCKED: list[bool] = []


def look_at_the_lock(_: object) -> None:
    """The client lets go of it when all workers have begun, maybe after the first tree."""
    deadline = time.monotonic() + 20
    locked = True
    while locked and time.monotonic() < deadline:
        locked = bool(get_client().sync(Lock("bitgrove").locked))
    LOCKED.append(locked)


def test_no_lock_is_held_while_trees_grow(client: Client) -> None:
    """Dask takes back that of a killed client only after half a minute."""
    LOCKED.clear()
    X = np.arange(400.0)[:, None]
    lazy = in_blocks(X, [0, 200]), in_blocks(X[:, 0], [0, 200])
    bgd.BitGroveRegressor(n_estimators=3, client=client).fit(*lazy, callbacks=[look_at_the_lock])
    assert [False] * len(LOCKED) == LOCKED and len(LOCKED) >= 3
