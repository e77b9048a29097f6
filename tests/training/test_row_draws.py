"""Rows drawn by their gradients, by query and by class: the formulas, and what trees see."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.datasets import make_classification

import bitgrove as bg
from bitgrove.backends.host_gradients import bucket_counts, output_gradients
from bitgrove.distributed.comm import SoloComm
from bitgrove.errors import DataError, ParameterError
from bitgrove.params import resolve
from bitgrove.training.booster import Booster
from bitgrove.training.variants.rows_by_gradient import whole_from
from cases import signal, table

F32 = NDArray[np.float32]


def booster_of(y: NDArray[Any], group: Any = None, **params: Any) -> Booster:
    X = table(len(y), 4, 1)
    given = resolve({"n_jobs": 1, **params})
    return Booster(given, bg.Dataset(X, y, group=group), SoloComm())


def drawn(booster: Booster, grad: F32, hess: F32 | None, tree: int) -> tuple[F32, F32]:
    """What a tree sees of these gradients."""
    found = booster.draws.draw(output_gradients(grad, hess), 0, tree)
    assert len(found.rows) == len(grad)
    return np.array(found.gradients.grad), np.array(found.gradients.hess)


sizes_of_rows = st.lists(st.floats(2.0**-20, 2.0**20, width=32), min_size=1, max_size=60)


@settings(max_examples=60, deadline=None)
@given(sizes_of_rows, st.floats(0.01, 0.99))
def test_chances_add_up_to_the_share(sizes: list[float], share: float) -> None:
    """The sum of min(1, size / m0) is what was wanted, as far as a bucket tells sizes apart."""
    values = np.array(sizes, dtype=np.float32)
    whole = whole_from(bucket_counts(values), share * len(values))
    found = np.minimum(1.0, values / whole).sum()
    assert abs(found - share * len(values)) <= 0.13 * share * len(values)


@pytest.mark.parametrize("has_hess", [False, True])
@pytest.mark.parametrize(
    "params",
    [
        {"data_sample_strategy": "mvs", "subsample": 0.2},
        {"data_sample_strategy": "goss", "top_rate": 0.1, "other_rate": 0.1},
    ],
)
def test_kept_rows_stand_for_all(params: dict[str, Any], has_hess: bool) -> None:
    """As many as asked for, and their sums are right on average; large gradients stay whole."""
    rng, n = np.random.default_rng(0), 4000
    booster = booster_of(rng.normal(size=n), objective="regression", **params)
    grad = (rng.normal(size=n) ** 3).astype(np.float32)
    hess = rng.random(n).astype(np.float32) if has_hess else None
    trees = [drawn(booster, grad, hess, tree) for tree in range(200)]
    n_kept = np.mean([(h > 0).sum() for _, h in trees])
    assert n_kept == pytest.approx(0.2 * n, rel=0.05)
    curvature = np.ones(n) if hess is None else hess
    for k, original in enumerate((grad, curvature)):
        half = slice(0, n // 2)  # of any part of the rows, too
        sums = np.array([seen[k][half].sum() for seen in trees])
        error = sums.std() / np.sqrt(len(sums))
        assert abs(sums.mean() - original[half].sum()) < 4 * error
    top = np.argsort(-np.abs(grad))[:100]
    assert all(np.array_equal(g[top], grad[top]) for g, _ in trees)
    assert not np.array_equal(trees[0][0], trees[1][0])


def test_minimal_variance_has_less_variance() -> None:
    """Than the same number of rows drawn with equal chances, and than GOSS."""
    rng, n = np.random.default_rng(1), 3000
    grad, y = (rng.normal(size=n) ** 3).astype(np.float32), rng.normal(size=n)
    spread = {}
    for name, params in {
        "mvs": {"data_sample_strategy": "mvs", "subsample": 0.2},
        "goss": {"data_sample_strategy": "goss", "top_rate": 0.1, "other_rate": 0.1},
    }.items():
        booster = booster_of(y, objective="regression", **params)
        spread[name] = np.std([drawn(booster, grad, None, t)[0].sum() for t in range(150)])
    equal = np.sqrt((grad.astype(float) ** 2).sum() * (1 / 0.2 - 1))
    assert spread["mvs"] < spread["goss"] < equal


def test_all_rows_kept_is_no_sampling() -> None:
    X = table(600, 4, 2)
    data = {"objective": "regression", "n_estimators": 3, "n_jobs": 1}
    plain = bg.train(data, bg.Dataset(X, signal(X, 2)))
    for more in ({"subsample": 1.0}, {"subsample": 0.5, "subsample_freq": 0}):
        params = {**data, **more, "data_sample_strategy": "mvs"}
        model = bg.train(params, bg.Dataset(X, signal(X, 2)))
        np.testing.assert_array_equal(model.predict(X), plain.predict(X))


def test_leaves_are_fitted_to_all_rows() -> None:
    """Whatever rows found the splits: a leaf of squared error steps to the mean of all its rows."""
    X = table(900, 4, 3)
    y = signal(X, 3)
    params = {"objective": "regression", "n_estimators": 1, "learning_rate": 1.0, "n_jobs": 1,
              "data_sample_strategy": "mvs", "subsample": 0.2}  # fmt: skip
    model = bg.train(params, bg.Dataset(X, y))
    leaf, found = model.predict_leaf(X)[:, 0], model.predict(X)
    assert model.trees[0].n_leaves > 5
    assert model.trees[0].leaf_rows.tolist() == np.bincount(leaf).tolist()
    for k in range(model.trees[0].n_leaves):
        np.testing.assert_allclose(found[leaf == k], y[leaf == k].mean(), rtol=1e-5, atol=1e-5)


def test_queries_are_drawn_whole() -> None:
    rng = np.random.default_rng(2)
    group = rng.integers(1, 9, size=400)
    y = rng.integers(0, 3, size=int(group.sum())).astype(float)
    booster = booster_of(y, group, objective="lambdarank", bagging_by_query=True, subsample=0.4)
    query = np.repeat(np.arange(400), group)
    kept = [
        np.array(booster.backend.select_rows(booster.runs, booster.draws.sample(i)))
        for i in range(2)
    ]
    for rows in kept:
        inside = np.bincount(query[rows], minlength=400)
        assert set(np.flatnonzero(inside)) == set(np.flatnonzero(inside == group))
        assert 120 < (inside > 0).sum() < 200
    assert not np.array_equal(*kept)


def test_classes_have_their_shares() -> None:
    y = (np.arange(5000) % 10 == 0).astype(float)
    more = {"pos_bagging_fraction": 1.0, "neg_bagging_fraction": 0.25}
    booster = booster_of(y, objective="binary", **more)
    rows = np.array(booster.backend.select_rows(booster.runs, booster.draws.sample(0)))
    assert (y[rows] == 1).sum() == 500
    assert (y[rows] == 0).sum() == pytest.approx(0.25 * 4500, rel=0.1)


def test_as_good_as_the_peers() -> None:
    """Minimal variance on a tenth of the rows beside LightGBM's GOSS on a tenth."""
    lightgbm = pytest.importorskip("lightgbm")
    losses = []
    for seed in range(3):
        X, y = make_classification(
            6000, 20, n_informative=8, flip_y=0.05, class_sep=0.7, random_state=seed
        )
        settings = {"objective": "binary", "n_estimators": 80, "n_jobs": 1, "random_state": seed}
        ours = bg.train(
            {**settings, "data_sample_strategy": "mvs", "subsample": 0.1},
            bg.Dataset(X[:3000], y[:3000]),
        )
        theirs = lightgbm.train(
            {**settings, "data_sample_strategy": "goss", "top_rate": 0.05, "other_rate": 0.05,
             "verbosity": -1},
            lightgbm.Dataset(X[:3000], y[:3000]),
        )  # fmt: skip
        found = [np.clip(m.predict(X[3000:]), 1e-9, 1 - 1e-9) for m in (ours, theirs)]
        losses.append([-np.log(np.where(y[3000:] == 1, p, 1 - p)).mean() for p in found])
    ours, theirs = np.mean(losses, axis=0)
    assert ours < 1.02 * theirs


BAD: list[tuple[dict[str, Any], str]] = [
    ({"data_sample_strategy": "some"}, "data_sample_strategy='some': must be one of"),
    ({"top_rate": 0.4}, "top_rate=0.4 has no meaning with data_sample_strategy='bagging'"),
    ({"data_sample_strategy": "goss", "top_rate": 0.6, "other_rate": 0.5}, "sum must be above 0"),
    ({"data_sample_strategy": "goss", "top_rate": 0.0, "other_rate": 0.0}, "sum must be above 0"),
    ({"data_sample_strategy": "goss", "subsample": 0.5}, "subsample=0.5: not together"),
    ({"data_sample_strategy": "mvs", "subsample": 0.5, "subsample_freq": 2}, "subsample_freq=2"),
    ({"data_sample_strategy": "mvs", "pos_bagging_fraction": 0.5}, "pos_bagging_fraction=0.5 has"),
    ({"neg_bagging_fraction": 0.5, "subsample": 0.5}, "subsample=0.5: not together with pos_"),
    ({"neg_bagging_fraction": 0.0}, "neg_bagging_fraction=0.0: must be"),
    ({"neg_bagging_fraction": 0.5, "objective": "regression"}, "objective of two classes"),
]


@pytest.mark.parametrize(("params", "message"), BAD)
def test_what_cannot_be_is_said(params: dict[str, Any], message: str) -> None:
    y = (np.arange(100) % 2).astype(float)
    with pytest.raises(ParameterError, match=message):
        booster_of(y, **{"objective": "binary", **params})


def test_queries_are_needed_to_draw_them() -> None:
    with pytest.raises(DataError, match="bagging_by_query=True: the training set has no group"):
        booster_of(np.zeros(50), objective="regression", bagging_by_query=True, subsample=0.5)


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("objective", ["mae", "quantile", "regression", "binary"])
def test_a_sample_of_no_rows_changes_nothing(objective: str, device: str) -> None:
    X = table(10, 2, 0)
    params = {"objective": objective, "n_estimators": 2, "subsample": 1e-9, "device": device}
    model = bg.train(params, bg.Dataset(X, np.arange(10) % 2))
    assert [tree.leaf_value.tolist() for tree in model.trees] == [[0.0], [0.0]]
