"""Categories from end to end: training, prediction from any table, ranks, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import bitgrove as bg
from bitgrove.arithmetic.exact_math import hash_key, row_hash
from bitgrove.data.row_ids import one_run
from bitgrove.data.statistics import (
    MOST_PRIOR,
    N_BLOCKS,
    N_HEARD,
    N_STEPS,
    Blocks,
    FirstGradients,
    fit_statistics,
)
from bitgrove.distributed import run_threads
from bitgrove.distributed.comm import Comm, SoloComm
from bitgrove.errors import DataError, DataTypeError, RankFailure

CITIES = np.array(["oslo", "rome", "bern", "riga", "łódź", "york", "lima", "kyiv"])
N_ROWS, N_USERS = 1500, 400
PARAMS: dict[str, Any] = {
    "objective": "regression", "n_estimators": 10, "min_data_per_group": 5, "cat_smooth": 1.0,
    "min_child_samples": 5, "n_jobs": 2,
}  # fmt: skip


def make_frame(seed: int = 0) -> tuple[pd.DataFrame, NDArray[np.float64]]:
    rng = np.random.default_rng(seed)
    city, user = rng.integers(0, len(CITIES), N_ROWS), rng.integers(0, N_USERS, N_ROWS)
    x = rng.normal(size=N_ROWS)
    y = np.array([3.0, -1, 2, 0, 1, -3, 2.5, -2])[city] + x + (user % 7 - 3.0)
    frame = pd.DataFrame(
        {"city": CITIES[city], "x": x, "user": user, "kind": pd.Categorical(user % 3)}
    )
    frame.loc[::13, "city"] = None
    return frame, y


FRAME, Y = make_frame()


def make_dataset(frame: Any = FRAME, y: Any = Y, **more: Any) -> bg.Dataset:
    return bg.Dataset(frame, y, categorical_feature=["user"], **more)


@pytest.fixture(scope="module")
def model() -> bg.Model:
    return bg.train(PARAMS, make_dataset())


def test_what_was_learnt(model: bg.Model) -> None:
    assert model.encoder is not None
    assert model.encoder.n_levels == {0: 8, 3: 3}
    assert set(model.encoder.statistics) == {2}
    assert model.encoder.levels[0].values.tolist() == sorted(CITIES)
    assert (model.feature_importance("split") > 0).all()
    assert any(tree.by_subset.any() for tree in model.trees)
    residual = np.mean((model.predict(FRAME) - Y) ** 2)
    assert residual < 0.5 * np.var(Y)


def test_tables_of_every_kind_predict_the_same(model: bg.Model) -> None:
    expected = model.predict(FRAME)
    ordered = FRAME.assign(
        city=pd.Categorical(FRAME["city"], [*CITIES[::-1], "nowhere"], ordered=True),
        kind=FRAME["kind"].cat.reorder_categories([2, 0, 1]),
        user=FRAME["user"].astype(float),
    )
    strings = FRAME.assign(city=FRAME["city"].astype("string"), kind=FRAME["kind"].astype(int))
    tables = [
        ordered,
        strings,
        pl.from_pandas(FRAME.assign(kind=FRAME["kind"].astype(int))),
        pl.from_pandas(strings).with_columns(pl.col("city").cast(pl.Categorical)),
        pa.Table.from_pandas(FRAME, preserve_index=False),
        pa.RecordBatch.from_pandas(FRAME, preserve_index=False),
        FRAME.to_numpy(dtype=object),
    ]
    for table in tables:
        np.testing.assert_array_equal(model.predict(table), expected)
    one_by_one = [model.predict(FRAME.iloc[[i]])[0] for i in range(60)]
    np.testing.assert_array_equal(one_by_one, expected[:60])
    np.testing.assert_array_equal(model.predict_leaf(tables[0]), model.predict_leaf(FRAME))


def test_coded_and_walked_predictions_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole blocks compare codes, few rows walk, and scalar machines always walk."""
    trained = bg.train(PARAMS, make_dataset())
    expected = trained.predict(FRAME)
    assert trained.forest.is_coded or bg._core.best_simd() == 0
    monkeypatch.setenv("BITGROVE_SIMD", "scalar")
    walking = bg.Model.from_bytes(trained.to_bytes())
    np.testing.assert_array_equal(walking.predict(FRAME), expected)
    assert not walking.forest.is_coded


def test_predictions_are_the_training_scores(model: bg.Model) -> None:
    """A validation set of the training rows has the loss of what the model predicts."""
    trained = bg.train({**PARAMS, "eval_metric": "rmse"}, make_dataset(), valid_sets=make_dataset())
    predicted = trained.predict(FRAME)
    assert trained.info is not None
    rmse = trained.info.evals_result["valid_0"]["rmse"][-1]
    assert rmse == pytest.approx(np.sqrt(np.mean((predicted - Y) ** 2)), rel=1e-12)


def test_unseen_levels(model: bg.Model) -> None:
    """Of few levels they go with the missing ones; of many they are worth nothing."""
    rows = FRAME.iloc[:40]
    np.testing.assert_array_equal(
        model.predict(rows.assign(city="atlantis")), model.predict(rows.assign(city=None))
    )
    assert model.encoder is not None
    columns = model.encoder.encode(
        *bg.data.tables.to_columns(rows.assign(user=10**9, city=None))[::2], model.feature_names
    )
    assert (columns[2] == 0.0).all() and np.isnan(columns[0]).all()


def test_missing_where_training_had_none() -> None:
    """It goes with the majority, in prediction as in a validation set."""
    frame, y = FRAME.dropna(), Y[FRAME["city"].notna()]
    gone = frame.assign(city=None, kind=None)
    params = {**PARAMS, "eval_metric": "rmse"}
    trained = bg.train(params, make_dataset(frame, y), valid_sets=make_dataset(gone, y))
    assert trained.info is not None
    rmse = trained.info.evals_result["valid_0"]["rmse"][-1]
    assert rmse == pytest.approx(np.sqrt(np.mean((trained.predict(gone) - y) ** 2)), rel=1e-12)


def test_order_of_rows_does_not_name_the_levels() -> None:
    """Other orders of categories, and levels that no row has, change nothing."""
    wide = FRAME.assign(city=pd.Categorical(FRAME["city"], ["zz", *CITIES[::-1], "aa"]))
    digests = {bg.train(PARAMS, make_dataset(frame)).digest() for frame in (FRAME, wide)}
    weight = np.ones(N_ROWS + 1)
    weight[-1] = 0.0
    more = pd.concat([FRAME, FRAME.iloc[:1].assign(city="only here")], ignore_index=True)
    weighted = bg.train(PARAMS, make_dataset(more, np.append(Y, 0.0), weight=weight))
    assert weighted.encoder is not None and len(weighted.encoder.levels[0]) == 8
    assert len(digests) == 1


def moments(values: NDArray[np.float64], labels: list[Any]) -> tuple[float, int]:
    """Of groups of rows: the sum of squared sums over counts, and how many groups."""
    groups = pd.Series(values).groupby(labels)
    return float((groups.sum() ** 2 / groups.count()).sum()), groups.ngroups


def test_statistics_never_see_a_rows_own_label() -> None:
    """Sums over other blocks, written down once more; at prediction those of all rows."""
    params = {**PARAMS, "n_estimators": 1, "num_leaves": 2, "learning_rate": 1.0}
    trained = bg.train(params, make_dataset(FRAME[["user"]], Y))
    assert trained.encoder is not None
    users, steps = FRAME["user"].to_numpy(), Y - trained.base_score[0]
    known = trained.encoder.levels[0].values.tolist()
    block = row_hash(hash_key(0, 5), np.arange(N_ROWS, dtype=np.uint64)) % np.uint64(N_BLOCKS)
    (of_parts, n_parts), (of_levels, n_levels) = (
        moments(steps, [users, block]),
        moments(steps, [users]),
    )
    noise = (of_parts - of_levels) / (n_parts - n_levels)
    prior = noise / ((of_levels - n_levels * noise) / N_ROWS)
    of_user = [steps[users == user] for user in known]
    worth = np.array([mine.sum() / (len(mine) + prior) for mine in of_user])
    found = trained.encoder.statistics[0].values[0, :-1]
    unit = np.ptp(worth) / N_STEPS  # values are rounded to a power of two of this size
    np.testing.assert_allclose(found, worth, atol=unit)
    assert N_STEPS / 2 <= np.ptp(found) / np.diff(np.unique(found)).min() <= N_STEPS + 1
    behind = (block[:, None].astype(int) - block.astype(int)) % N_BLOCKS
    heard = (behind >= 1) & (behind <= N_HEARD) & (users[:, None] == users)
    assert not (heard & heard.T).any()
    column = heard @ steps / (heard.sum(axis=1) + prior)
    # The one split is a cut of that column: the number of rows on each side says where.
    tree = trained.trees[0]
    cuts = [np.sort(column)[n - 1] for n in tree.leaf_rows]
    assert min(abs(tree.threshold[0] - cut) for cut in cuts) <= 2 * unit


@pytest.mark.parametrize(("strength", "least", "most"), [(0.0, 30, 100), (1.0, 0.8, 1.25)])
def test_the_prior_is_learnt(strength: float, least: float, most: float) -> None:
    """noise 1 over the variance of the levels' worth; at most MOST_PRIOR rows."""
    rng = np.random.default_rng(3)
    n_rows, n_levels = 40_000, 2_000
    codes = rng.integers(0, n_levels, n_rows)
    y = strength * rng.normal(size=n_levels)[codes] + rng.normal(size=n_rows)
    blocks = Blocks.of(one_run(n_rows), 0, SoloComm())
    gradients = FirstGradients(-y.astype(np.float32)[None], None)
    fitted, _ = fit_statistics(codes.astype(float), n_levels, gradients, blocks)
    sums, counts = np.bincount(codes, y, n_levels), np.bincount(codes, minlength=n_levels)
    priors = np.geomspace(0.1, MOST_PRIOR, 50)
    errors = [np.square(sums / (counts + p) - fitted.values[0, :-1]).sum() for p in priors]
    assert least <= priors[np.argmin(errors)] <= most


def test_where_subsets_end() -> None:
    """Above max_cat_levels, or max_bin, a category becomes a statistic."""
    for more, expected in (({"max_cat_levels": 7}, {0, 2}), ({"max_bin": 7}, {0, 2}), ({}, {2})):
        dataset = make_dataset()
        trained = bg.train({**PARAMS, **more}, dataset)
        assert trained.encoder is not None and set(trained.encoder.statistics) == expected
    again = bg.train({**PARAMS, "max_cat_levels": 7}, dataset)  # bins that are kept are not reused
    assert again.encoder is not None and set(again.encoder.statistics) == {0, 2}


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_beside_statistics_every_split_pays_cat_l2(device: str) -> None:
    """Half of it, of 20,000 rows. As if it were reg_lambda, but leaves do not pay."""
    rng = np.random.default_rng(3)
    user, x = rng.integers(0, 500, 20_000), np.round(rng.normal(size=20_000), 2)
    data = bg.Dataset(np.stack([user, x], axis=1), (user % 7) + x, categorical_feature=[0])
    how = {"objective": "regression", "n_estimators": 1, "num_leaves": 8, "device": device}
    paid, free, shrunk = (
        bg.train({**how, "cat_l2": cat_l2, "reg_lambda": reg_lambda}, data).trees[0]
        for cat_l2, reg_lambda in ((400.0, 0.0), (0.0, 0.0), (0.0, 200.0))
    )
    for name in ("feature", "threshold", "left", "right", "gain"):
        assert np.array_equal(getattr(paid, name), getattr(shrunk, name))
    assert not np.array_equal(paid.gain, free.gain)
    assert (np.abs(paid.leaf_value) > np.abs(shrunk.leaf_value)).all()


def shard(comm: Comm) -> bg.Dataset:
    """Sorted by city: every rank has other levels, one has no rows."""
    order = np.argsort(FRAME["city"].fillna("").to_numpy(), kind="stable")
    rows = np.array_split(order, comm.size - 1)[comm.rank - 1] if comm.rank else order[:0]
    return make_dataset(FRAME.iloc[rows], Y[rows])


def test_ranks_with_other_levels() -> None:
    order = np.argsort(FRAME["city"].fillna("").to_numpy(), kind="stable")
    whole = bg.train(PARAMS, make_dataset(FRAME.iloc[order], Y[order]))
    for n_ranks in (2, 4):
        models = run_threads(n_ranks, lambda comm: bg.train(PARAMS, shard(comm), comm=comm))
        assert {m.digest() for m in models} == {whole.digest()}


def test_voting_ranks_train_on_categories() -> None:
    params = {**PARAMS, "distributed": "voting", "top_k": 1}
    models = run_threads(3, lambda comm: bg.train(params, shard(comm), comm=comm))
    assert len({m.digest() for m in models}) == 1
    assert np.mean((models[0].predict(FRAME) - Y) ** 2) < 0.6 * np.var(Y)


def test_pieces_with_other_levels() -> None:
    parts = np.array_split(np.argsort(FRAME["city"].fillna("").to_numpy(), kind="stable"), 3)
    joined = bg.Dataset.joined([make_dataset(FRAME.iloc[p], Y[p]) for p in parts], [0, 1, 2])
    rows = np.concatenate(parts)
    whole = make_dataset(FRAME.iloc[rows], Y[rows])
    assert bg.train(PARAMS, joined).digest() == bg.train(PARAMS, whole).digest()


def test_parts_without_a_value() -> None:
    """A column of objects that are all missing does not say that it is a category."""
    frame = FRAME.assign(city=FRAME["city"].astype(object)).reset_index(drop=True)
    frame.loc[500:999, "city"] = None
    parts = np.array_split(np.arange(N_ROWS), 3)
    pieces = [make_dataset(frame.iloc[p], Y[p]) for p in parts]
    assert 0 not in pieces[1].levels
    expected = bg.train(PARAMS, make_dataset(frame)).digest()
    assert bg.train(PARAMS, bg.Dataset.joined(pieces, [0, 1, 2])).digest() == expected
    models = run_threads(3, lambda comm: bg.train(PARAMS, pieces[comm.rank], comm=comm))
    assert {m.digest() for m in models} == {expected}


def test_ranks_that_disagree() -> None:
    def work(comm: Comm) -> bg.Model:
        frame = FRAME if comm.rank else FRAME.assign(city=1.0)
        return bg.train(PARAMS, make_dataset(frame), comm=comm)

    with pytest.raises((DataError, RankFailure), match="'city' is a category on rank 1 but not"):
        run_threads(2, work)

    def other_kind(comm: Comm) -> bg.Model:
        frame = FRAME if comm.rank else FRAME.assign(city=pd.Categorical(FRAME["user"]))
        return bg.train(PARAMS, make_dataset(frame), comm=comm)

    with pytest.raises((DataError, RankFailure), match="'city' holds text in some parts"):
        run_threads(2, other_kind)


def test_what_is_refused_at_prediction(model: bg.Model) -> None:
    with pytest.raises(DataError, match=r"'city' holds whole numbers .*in training are text"):
        model.predict(FRAME.assign(city=1))
    with pytest.raises(DataError, match="'x' holds text or categories, but it was a number"):
        model.predict(FRAME.assign(x="a"))
    with pytest.raises(DataError, match="'user' holds text"):
        model.predict(FRAME.assign(user="7"))
    with pytest.raises(DataTypeError, match="'city' has type datetime"):
        model.predict(FRAME.assign(city=pd.Timestamp("2020-01-01")))
    with pytest.raises(DataError, match="columns differ"):
        model.predict(FRAME.drop(columns="kind"))
    with pytest.raises(DataError, match="3 features"):
        model.predict(FRAME.to_numpy(dtype=object)[:, :3])
    numbers = bg.train(PARAMS, bg.Dataset(FRAME[["x"]], Y))
    with pytest.raises(DataError, match="'x' holds text or categories, but it was a number"):
        numbers.predict(FRAME[["x"]].astype("category"))


def test_validation_sets_that_do_not_fit() -> None:
    for wrong in (FRAME.assign(x="a"), FRAME.assign(city=2.0)):
        with pytest.raises(DataError, match=r"column '(x|city)' holds"):
            bg.train(PARAMS, make_dataset(), valid_sets=make_dataset(wrong))


def test_checkpoints_go_on(model: bg.Model) -> None:
    half = bg.train({**PARAMS, "n_estimators": 5}, make_dataset())
    again = bg.train(PARAMS, make_dataset(), resume_from=half)
    assert again.digest() == model.digest()


def test_a_dataset_is_binned_once(model: bg.Model) -> None:
    dataset = bg.Dataset(FRAME.drop(columns="user"), Y)
    first = bg.train(PARAMS, dataset)
    kept = dict(dataset.binned)
    assert len(kept) == 2  # the bins, and the fingerprint of the rows
    assert bg.train(PARAMS, dataset).digest() == first.digest()
    assert all(dataset.binned[key] is kept[key] for key in kept)


def test_only_missing_and_only_one_level() -> None:
    frame = pd.DataFrame({"none": pd.Series([None] * N_ROWS, dtype="string"), "one": "a"})
    frame["x"] = FRAME["x"]
    trained = bg.train(PARAMS, bg.Dataset(frame, Y))
    assert trained.feature_importance("split")[:2].tolist() == [0.0, 0.0]
    assert bg.Model.from_bytes(trained.to_bytes()) == trained
    trained.predict(frame.assign(none="now there is one", one=None))


def test_estimators() -> None:
    label = np.where(Y > 0, "up", "down")
    fit = {"n_estimators": 10, "categorical_features": ["user"], "n_jobs": 2}
    pipeline = make_pipeline("passthrough", bg.BitGroveClassifier(**fit))
    assert cross_val_score(pipeline, FRAME, label, cv=3, error_score="raise").min() > 0.7
    fitted = bg.BitGroveClassifier(**fit).fit(FRAME, label, eval_set=(FRAME, label))
    assert fitted.predict_proba(FRAME).shape == (N_ROWS, 2)
    objects = FRAME.to_numpy(dtype=object)
    by_position = bg.BitGroveRegressor(n_estimators=5, categorical_features=[0, 2, 3])
    assert by_position.fit(objects, Y).score(objects, Y) > 0.3
    by_fit = bg.BitGroveRegressor(n_estimators=5).fit(objects, Y, categorical_feature=[0, 2, 3])
    assert by_fit.model_.digest() == by_position.model_.digest()
    np.testing.assert_array_equal(by_fit.predict(objects), by_position.predict(objects))
    with pytest.raises(ValueError, match="'nobody' is not a column"):
        bg.BitGroveRegressor(categorical_features=["nobody"]).fit(FRAME, Y)
    with pytest.raises(ValueError, match="numbers"):
        bg.BitGroveRegressor(categorical_features=None).fit(FRAME, Y)
    with pytest.raises(ValueError):
        bg.BitGroveRegressor().fit(objects, Y)


def test_bins_are_not_shared_with_statistics() -> None:
    """The whole table has one level more than max_cat_levels, a part of it has not."""
    frame = pd.DataFrame({"code": np.arange(N_ROWS) % 65, "x": FRAME["x"]})
    whole = bg.Dataset(frame, Y, categorical_feature=["code"])
    few = frame[frame["code"] < 60]
    part = bg.Dataset(few, Y[few.index], categorical_feature=["code"], reference=whole)
    alone = bg.Dataset(few, Y[few.index], categorical_feature=["code"])
    assert bg.train(PARAMS, part).digest() == bg.train(PARAMS, alone).digest()
