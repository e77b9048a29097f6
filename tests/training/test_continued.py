"""Training that goes on from a model, schedules of the learning rate, and the time limit."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.distributed import run_threads
from bitgrove.errors import DataError, ParameterError
from bitgrove.params import resolve
from cases import CASES, Case, signal, table

NAMES = [
    "binary 2 bits", "multiclass", "regression weighted", "ranking", "binary sampled",
    "ranking xendcg", "categories", "categories binary sampled", "categories multiclass",
    "categories of slopes multiclass",
]  # fmt: skip
X = table(400, 5, 1)
Y = signal(X, 1)
PARAMS = {"objective": "regression", "n_jobs": 1, "num_leaves": 7}


def half(case: Case, n_estimators: int, init_model: Any = None, **place: Any) -> bg.Model:
    params = {k: v for k, v in case.params.items() if k != "early_stopping_rounds"}
    params = {"n_jobs": 2, **params, "n_estimators": n_estimators, **place}
    data = bg.Dataset(case.X, case.y, weight=case.weight, group=case.group, **case.kinds)
    return bg.train(params, data, init_model=init_model)


def same_trees(one: bg.Model, other: bg.Model) -> bool:
    fields = ("feature", "threshold", "left", "right", "leaf_value", "leaf_rows", "gain",
              "left_bins")  # fmt: skip
    pairs = zip(one.trees, other.trees, strict=True)
    return all(
        getattr(a, name).tobytes() == getattr(b, name).tobytes()
        for a, b in pairs
        for name in fields
    )


@pytest.mark.parametrize("name", NAMES)
def test_going_on_is_as_never_having_stopped(name: str) -> None:
    case = CASES[name]()
    whole, first = half(case, 6), half(case, 2)
    rest = half(case, 4, init_model=first)
    assert rest.n_iterations == 6 and same_trees(whole, rest)
    assert rest.base_score.tobytes() == whole.base_score.tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_the_same_bits_everywhere(name: str, tmp_path: Path) -> None:
    """From a model of other rows, whose thresholds are no edges of these bins.

    It does not know all of their levels."""
    case = CASES[name]()
    shift, categories = case.X + 0.01, list(case.categories)
    shift[:, categories] = np.where(case.X[:, categories] % 7 == 0, 1.0, case.X[:, categories])
    params = {k: v for k, v in case.params.items() if k != "early_stopping_rounds"}
    params["n_estimators"] = 3
    other = bg.Dataset(shift, case.y, weight=case.weight, group=case.group, **case.kinds)
    start = bg.train({**params, "max_bin": 31}, other)
    start.save(tmp_path / "start")
    places = [{"device": "reference"}, {"n_jobs": 1}, {"n_jobs": 3}]
    digests = {half(case, 3, init_model=start, **place).digest() for place in places}
    assert len(digests) == 1
    if case.group is not None:
        return

    def rank(comm: Any) -> str:
        rows = np.array_split(np.arange(len(case.y)), comm.size)[comm.rank]
        weight = None if case.weight is None else case.weight[rows]
        shard = bg.Dataset(case.X[rows], case.y[rows], weight=weight, **case.kinds)
        # Only rank 0 can read the file.
        given = tmp_path / "start" if comm.rank == 0 else tmp_path / "nowhere"
        return bg.train({**params, "n_jobs": 1}, shard, comm=comm, init_model=given).digest()

    for n_ranks in (2, 3):
        assert set(run_threads(n_ranks, rank)) == digests


def test_scores_are_those_of_the_rows() -> None:
    """Against a walk in NumPy: what the first model predicts is where the second one starts."""
    first = bg.train(PARAMS, bg.Dataset(X[:200] * 1.1, Y[:200]), 5)
    second = bg.train(PARAMS, bg.Dataset(X, Y), 1, init_model=first)
    np.testing.assert_array_equal(second.predict(X, num_iteration=5), first.predict(X))
    assert np.mean((second.predict(X) - Y) ** 2) < np.mean((first.predict(X) - Y) ** 2)


def test_levels_that_the_model_does_not_know() -> None:
    """They are missing values, or worth nothing, as in prediction; its own stay as they are."""
    rng = np.random.default_rng(5)
    city, shop = rng.integers(0, 6, 900), rng.integers(0, 400, 900)
    y = (city % 2) + 0.01 * shop + rng.normal(size=900) * 0.1
    rows = np.column_stack([city, shop]).astype(float)
    known = (city < 4) & (shop < 300)
    kinds = {"categorical_feature": [0, 1]}
    first = bg.train(PARAMS, bg.Dataset(rows[known], y[known], **kinds), 5)
    second = bg.train(PARAMS, bg.Dataset(rows, y, **kinds), 5, init_model=first)
    assert second.encoder is not None and 1 in second.encoder.statistics
    assert second.encoder.levels[0].values.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(second.predict(rows, num_iteration=5), first.predict(rows))
    assert np.mean((second.predict(rows) - y) ** 2) < np.mean((first.predict(rows) - y) ** 2)
    unseen = np.where(rows < [4, 300], rows, [np.nan, 999])
    np.testing.assert_array_equal(second.predict(rows), second.predict(unseen))
    with pytest.raises(DataError, match=r"'f0' holds text or categories.* knows it as a number"):
        numbers = bg.train(PARAMS, bg.Dataset(rows, y), 2)
        bg.train(PARAMS, bg.Dataset(rows, y, **kinds), 2, init_model=numbers)


def test_validation_sets_start_there_too() -> None:
    data, valid = bg.Dataset(X[:300], Y[:300]), bg.Dataset(X[300:], Y[300:])
    whole = bg.train(PARAMS, data, 8, valid_sets=valid)
    first = bg.train(PARAMS, data, 5)
    rest = bg.train(PARAMS, data, 3, valid_sets=valid, init_model=first)
    curves = [m.info.evals_result["valid_0"]["rmse"] for m in (whole, rest)]  # type: ignore[union-attr]
    assert curves[1] == curves[0][5:]
    stopped = bg.train(
        PARAMS, data, 300, valid_sets=valid, init_model=first, early_stopping_rounds=2,
        learning_rate=0.9,
    )  # fmt: skip
    assert stopped.best_iteration is not None
    assert 5 < stopped.best_iteration == stopped.n_iterations < 300


def test_what_cannot_be_continued() -> None:
    data = bg.Dataset(X, Y)
    first = bg.train(PARAMS, data, 2)
    for params, rows, start, message in (
        (
            {"objective": "binary"},
            bg.Dataset(X, Y > 0),
            first,
            "objective 'regression', this train",
        ),
        (PARAMS, bg.Dataset(X[:, :4], Y), first, "other features"),
        (PARAMS, data, 7, "init_model: a Model or a file, got int"),
    ):
        with pytest.raises((ParameterError, DataError, TypeError), match=message):
            bg.train(params, rows, 2, init_model=start)


def test_warm_start() -> None:
    whole = bg.BitGroveRegressor(n_estimators=8, n_jobs=1).fit(X, Y)
    warm = bg.BitGroveRegressor(n_estimators=3, n_jobs=1, warm_start=True).fit(X, Y)
    warm.set_params(n_estimators=8).fit(X, Y)
    assert warm.n_iter_ == 8 and same_trees(warm.model_, whole.model_)
    with pytest.warns(UserWarning, match="fits nothing"):
        warm.fit(X, Y)
    with pytest.raises(ParameterError, match="n_estimators=2: the last fit"):
        warm.set_params(n_estimators=2).fit(X, Y)
    by_model = bg.BitGroveRegressor(n_estimators=5, n_jobs=1)
    again = by_model.fit(X, Y, init_model=bg.BitGroveRegressor(n_estimators=3, n_jobs=1).fit(X, Y))
    assert same_trees(again.model_, whole.model_)


def test_schedules_of_the_learning_rate() -> None:
    data = bg.Dataset(X, Y)
    rates = [0.5, 0.25, 0.1]
    listed = bg.train({**PARAMS, "learning_rate": rates}, data, 3)
    asked = bg.train({**PARAMS, "learning_rate": lambda i: rates[i]}, data, 3)
    reset = bg.train(PARAMS, data, 3, callbacks=[bg.reset_parameter(learning_rate=rates)])
    assert listed == asked == reset
    assert listed.params["learning_rate"] == rates
    assert bg.Model.from_bytes(listed.to_bytes()).params == listed.params
    constant = bg.train({**PARAMS, "learning_rate": [0.1] * 3}, data, 3)
    assert same_trees(constant, bg.train(PARAMS, data, 3))
    steps = [bg.train({**PARAMS, "learning_rate": rates[0]}, data, 1)]
    for rate in rates[1:]:
        steps.append(bg.train({**PARAMS, "learning_rate": rate}, data, 1, init_model=steps[-1]))
    assert same_trees(steps[-1], listed)
    for wrong, message in (
        ([0.1, 0.2], "2 values for 3 iterations"),
        ([0.1, -0.2, 0.1], "learning_rate="),
        (lambda i: "fast", "learning_rate="),
        ([], "learning_rate="),
        ("fast", "learning_rate='fast': must be a finite number"),
    ):
        with pytest.raises(ParameterError, match=message):
            resolve({"learning_rate": wrong, "n_estimators": 3})
    warm = bg.BitGroveRegressor(n_estimators=2, n_jobs=1, num_leaves=7, warm_start=True)
    warm.set_params(learning_rate=rates[:2]).fit(X, Y)
    warm.set_params(n_estimators=3, learning_rate=rates).fit(X, Y)
    assert same_trees(warm.model_, listed)
    assert listed.refit(X, Y, decay_rate=0.0) == listed
    with pytest.raises(ParameterError, match="those of its init_model are not known"):
        warm.model_.refit(X, Y)
    with pytest.raises(ParameterError, match="only learning_rate has schedules"):
        bg.reset_parameter(num_leaves=[3, 4])


def test_the_time_limit() -> None:
    data, valid = bg.Dataset(X[:300], Y[:300]), bg.Dataset(X[300:], Y[300:])

    def slowly(state: Any) -> None:
        time.sleep(0.05)

    model = bg.train(PARAMS, data, 10**5, max_seconds=0.2, callbacks=[slowly])
    assert 1 <= model.n_iterations < 100
    same = bg.train(PARAMS, data, model.n_iterations)
    assert same_trees(model, same)
    judged = bg.train(
        {**PARAMS, "learning_rate": 0.9}, data, 10**5, max_seconds=0.3, callbacks=[slowly],
        valid_sets=valid,
    )  # fmt: skip
    curve = judged.info.evals_result["valid_0"]["rmse"]  # type: ignore[union-attr]
    assert judged.best_iteration == 1 + int(np.argmin(curve))

    def rank(comm: Any) -> str:
        rows = slice(comm.rank * 200, comm.rank * 200 + 200)
        shard = bg.Dataset(X[rows], Y[rows])
        waits = [slowly] if comm.rank else []
        return bg.train(PARAMS, shard, 10**5, max_seconds=0.3, callbacks=waits, comm=comm).digest()

    assert len(set(run_threads(2, rank))) == 1
