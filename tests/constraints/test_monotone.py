"""Monotone constraints hold for every pair of rows, on any data, and cost little accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

import bitgrove as bg

METHODS = ["basic", "intermediate"]
F64 = NDArray[np.float64]


def violation(model: bg.Model, X: F64, directions: dict[int, int]) -> float:
    """The farthest that a raw score goes the wrong way when one feature takes other values."""
    worst = 0.0
    for feature, direction in directions.items():
        values = np.unique(X[:, feature][~np.isnan(X[:, feature])])
        steps = np.concatenate([[values[0] - 1.0], values, [values[-1] + 1.0]])
        rows = np.repeat(X, len(steps), axis=0)
        rows[:, feature] = np.tile(steps, len(X))
        scores = model.predict_raw(rows).reshape(len(X), len(steps), -1)
        worst = max(worst, float((-direction * np.diff(scores, axis=1)).max()))
    return worst


objectives = st.sampled_from(
    ["regression", "binary", "poisson", "quantile", "mae", "huber", "tweedie", "multiclass"]
)
settings_of = st.fixed_dictionaries(
    {
        "monotone_constraints_method": st.sampled_from(METHODS),
        "gradient_bits": st.sampled_from([2, 3, 4, 8, None]),
        "num_leaves": st.integers(2, 24),
        "min_child_samples": st.integers(1, 8),
        "refit_leaves": st.booleans(),
        "random_state": st.integers(0, 1000),
    },
    optional={
        "learning_rate": st.floats(0.05, 1.0),
        "reg_alpha": st.floats(0.0, 2.0),
        "reg_lambda": st.floats(0.0, 5.0),
        "path_smooth": st.floats(0.1, 20.0),
        "subsample": st.floats(0.4, 0.9),
        "colsample_bynode": st.floats(0.3, 0.9),
        "max_delta_step": st.floats(0.05, 2.0),
        "extra_trees": st.just(True),
    },
)


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32 - 1), objectives, settings_of)
def test_no_pair_of_rows_is_in_the_wrong_order(
    seed: int, objective: str, given_params: dict[str, Any]
) -> None:
    rng = np.random.default_rng(seed)
    n_rows, n_features = int(rng.integers(20, 160)), int(rng.integers(1, 5))
    X = np.round(rng.normal(size=(n_rows, n_features)) * rng.choice([2, 20])) / 2
    y = rng.choice([-1, 0, 1], size=n_features) @ X.T + rng.normal(size=n_rows)
    X[rng.random(X.shape) < rng.choice([0.0, 0.2])] = np.nan
    X[0] = 0.0  # a column has a value
    kinds = rng.choice([-1, 1, 0], size=n_features)
    kinds[0] = rng.choice([-1, 1])
    if objective in ("poisson", "tweedie"):
        y = np.abs(y)
    elif objective == "binary":
        y = (y > np.median(y)).astype(float)
        y[:2] = [0, 1]
    elif objective == "multiclass":
        y = np.digitize(y, np.quantile(y, [0.3, 0.7])).astype(float)
        y[:3] = [0, 1, 2]
    params = {"objective": objective, "n_estimators": 4, "monotone_constraints": kinds.tolist()}
    model = bg.train({**params, **given_params}, bg.Dataset(X, y), n_jobs=1)
    rows = X[rng.choice(n_rows, size=12)]
    # Values that training never missed may be missing later.
    rows[rng.random(rows.shape) < 0.2] = np.nan
    rows[0] = X[0]
    probes = np.concatenate([rows, np.where(np.isnan(rows), 0.5, rows)])
    assert violation(model, probes, {f: int(d) for f, d in enumerate(kinds) if d}) <= 0.0


def test_the_test_above_can_fail() -> None:
    X = np.arange(100.0)[:, None]
    model = bg.train({"objective": "regression"}, bg.Dataset(X, np.sin(X[:, 0] / 10)))
    assert violation(model, X, {0: 1}) > 0.1


def demand(n_rows: int, seed: int) -> tuple[F64, F64]:
    """Rises with the first column, falls with the second, waves with the third."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n_rows, 4))
    truth = np.exp(X[:, 0] / 2) - X[:, 1] * (1.5 + X[:, 2] / 2) + np.sin(3 * X[:, 2])
    return X, truth + rng.normal(size=n_rows)


def rmse(y: F64, predicted: F64) -> float:
    return float(np.sqrt(np.mean((y - predicted) ** 2)))


def test_as_accurate_as_scikit_learn_and_lightgbm() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    directions = [1, -1, 0, 0]
    (X, y), (Xt, yt) = demand(2000, 1), demand(3000, 2)
    with threadpool_limits(1):
        others = [HistGradientBoostingRegressor(monotonic_cst=directions, max_iter=30).fit(X, y)]
    others += [
        lightgbm.LGBMRegressor(
            n_estimators=30, monotone_constraints=directions, verbose=-1, n_jobs=1,
            monotone_constraints_method=method,
        ).fit(X, y)
        for method in METHODS
    ]  # fmt: skip
    expected = [rmse(yt, other.predict(Xt)) for other in others]
    found = []
    for method in METHODS:
        ours = bg.BitGroveRegressor(
            n_estimators=30, monotone_constraints=directions, monotone_constraints_method=method
        ).fit(X, y)
        found.append(rmse(yt, ours.predict(Xt)))
        assert violation(ours.model_, Xt[:20], {0: 1, 1: -1}) <= 0.0
    assert max(found) < 1.01 * min(expected)


def test_weaker_bounds_fit_closer() -> None:
    X, y = demand(1500, 3)
    params = {"objective": "regression", "n_estimators": 30, "monotone_constraints": [1, -1, 1, 0]}
    basic, intermediate = (
        bg.train(params, bg.Dataset(X, y), monotone_constraints_method=method) for method in METHODS
    )
    assert rmse(y, intermediate.predict(X)) < rmse(y, basic.predict(X))


def test_a_dict_a_list_and_text_say_the_same() -> None:
    X, y = demand(400, 3)
    table = bg.Dataset(X, y, feature_name=["price", "rain", "hour", "other"])
    spellings: list[Any] = [
        {"monotone_constraints": [1, -1, 0, 0]},
        {"monotone_constraints": np.array([1, -1, 0, 0])},
        {"mc": (1, -1, 0, 0)},
        {"monotonic_cst": {"rain": -1, "price": 1}},
        {"monotone_constraints": "(1,-1,0,0)"},
        {"monotone_constraints": "1,-1,0,0"},
        {"monotone_constraints": "price:1, rain:-1"},
    ]
    predictions = [
        bg.train({"objective": "regression", "n_estimators": 5, **given}, table).predict(X)
        for given in spellings
    ]
    for other in predictions[1:]:
        np.testing.assert_array_equal(other, predictions[0])
    free = bg.train({"objective": "regression", "n_estimators": 5}, table).predict(X)
    assert not np.array_equal(free, predictions[0])


def test_no_direction_is_no_constraint() -> None:
    X, y = demand(400, 4)
    models = [
        bg.train({"objective": "regression", "n_estimators": 5, **given}, bg.Dataset(X, y))
        for given in ({}, {"monotone_constraints": [0, 0, 0, 0]})
    ]
    np.testing.assert_array_equal(models[0].predict(X), models[1].predict(X))


def test_continued_training_and_a_file_keep_the_constraints(tmp_path: Any) -> None:
    X, y = demand(500, 5)
    params = {"objective": "regression", "n_estimators": 8, "monotone_constraints": [1, -1, 0, 0]}
    first = bg.train(params, bg.Dataset(X, y))
    first.save(tmp_path / "m.bitgrove")
    more = bg.train(params, bg.Dataset(X, y), init_model=tmp_path / "m.bitgrove")
    assert len(more.trees) == 16 and violation(more, X[:20], {0: 1, 1: -1}) <= 0.0
    assert bg.load(tmp_path / "m.bitgrove").params["monotone_constraints"] == [1, -1, 0, 0]


@pytest.mark.parametrize("method", METHODS)
def test_refit_on_other_rows_keeps_the_constraints(method: str) -> None:
    X, y = demand(500, 6)
    params = {"objective": "regression", "n_estimators": 8, "monotone_constraints": [1, -1, 0, 0]}
    model = bg.train(params, bg.Dataset(X, y), monotone_constraints_method=method)
    other, _ = demand(200, 7)
    refitted = model.refit(other, -other[:, 0] + other[:, 1])  # rows that say the contrary
    assert violation(refitted, X[:20], {0: 1, 1: -1}) <= 0.0
