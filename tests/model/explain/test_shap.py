"""Shapley values: the definition over all subsets, additivity, other libraries, any threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from games import Game
from hypothesis import given, settings
from hypothesis import strategies as st

import bitgrove as bg
from bitgrove.data.prediction_rows import rows_for_prediction
from bitgrove.errors import DataError, ParameterError
from bitgrove.model import tree as tree_module
from bitgrove.model.model import Model
from cases import CASES
from model_cases import models, random_tree

EDGES = [-np.inf, -2.0, -1.5, 0.0, 5e-324, 0.7, 1.0, np.inf, np.nan]


def rows_of(seed: int, n_rows: int, n_features: int) -> Any:
    return np.random.default_rng(seed).choice(EDGES, (n_rows, n_features))


@pytest.fixture(scope="module", params=["regression", "multiclass"])
def categories(request: Any) -> tuple[Model, Any]:
    """Levels as subsets, an id with target statistics (several columns where there are several
    outputs), a number; missing and unseen ones."""
    rng = np.random.default_rng(0)
    n = 600
    table = np.empty((n, 3), dtype=object)
    table[:, 0] = rng.choice(["a", "b", "c", "d", "e"], n)
    table[:, 1] = [f"id{i}" for i in rng.integers(0, 120, n)]
    table[:, 2] = rng.normal(size=n)
    y = (table[:, 0] == "b") + 0.01 * rng.normal(size=n) + table[:, 2].astype(float)
    y += np.array([int(name[2:]) % 7 for name in table[:, 1]]) * 0.2
    params = {"objective": request.param, "n_estimators": 4, "num_leaves": 12,
              "max_cat_levels": 20, "min_data_per_group": 5}  # fmt: skip
    if request.param == "multiclass":
        params["num_class"] = 3
        y = np.digitize(y, [0.3, 1.0])
    model = bg.train(params, bg.Dataset(table, y, categorical_feature=[0, 1]))
    rows = table[:6].copy()
    rows[0, 0], rows[1, 0], rows[2, 1], rows[3, 1], rows[4, 2] = None, "new", None, "other", np.nan
    return model, rows


@settings(max_examples=40, deadline=None)
@given(models(), st.integers(0, 2**32))
def test_values_are_those_of_the_definition(model: Model, seed: int) -> None:
    rows = rows_of(seed, 3, model.n_features)
    found = model.predict(rows, pred_contrib=True).reshape(3, model.n_outputs, -1)
    for i in range(3):
        for k in range(model.n_outputs):
            used = model.truncate()
            expected = Game(used, rows[i], k).shapley()
            np.testing.assert_allclose(found[i, k], expected, rtol=1e-12, atol=1e-12)


@settings(max_examples=15, deadline=None)
@given(models(), st.integers(0, 2**32))
def test_interactions_are_those_of_the_definition(model: Model, seed: int) -> None:
    rows = rows_of(seed, 2, model.n_features)
    found = model.predict(rows, pred_interactions=True)
    found = found.reshape(2, model.n_outputs, model.n_features + 1, -1)
    for i in range(2):
        for k in range(model.n_outputs):
            expected = Game(model.truncate(), rows[i], k).interactions()
            np.testing.assert_allclose(found[i, k, :-1, :-1], expected, rtol=1e-11, atol=1e-12)
    values = model.predict(rows, pred_contrib=True).reshape(2, model.n_outputs, -1)
    np.testing.assert_allclose(found.sum(axis=-1), values, rtol=1e-11, atol=1e-12)


@settings(max_examples=15, deadline=None)
@given(models(), st.integers(0, 2**32))
def test_a_background_is_what_is_not_known(model: Model, seed: int) -> None:
    rows, others = rows_of(seed, 2, model.n_features), rows_of(seed + 1, 3, model.n_features)
    how = {"feature_perturbation": "interventional", "background": others}
    found = model.shap_values(rows, **how).reshape(2, model.n_features, model.n_outputs)
    for i in range(2):
        for k in range(model.n_outputs):
            games = [Game(model.truncate(), rows[i], k, other).shapley() for other in others]
            np.testing.assert_allclose(found[i, :, k], np.mean(games, axis=0)[:-1], atol=1e-12)
    expected = np.atleast_1d(model.expected_value(**how))
    scores = model.predict_raw(others).reshape(3, -1)
    np.testing.assert_allclose(expected, scores.mean(axis=0), atol=1e-12)


def test_categories_count_as_their_column(categories: tuple[Model, Any]) -> None:
    model, rows = categories
    n_outputs = model.n_outputs
    assert model.n_columns == model.n_features + n_outputs - 1
    assert any(tree.by_subset.any() for tree in model.trees)
    assert n_outputs == 1 or any((tree.feature >= model.n_features).any() for tree in model.trees)
    table = rows_for_prediction(rows, model.feature_names, model.encoder)
    values = model.predict_contrib(rows).reshape(6, n_outputs, 4)
    pairs = model.predict_interactions(rows).reshape(6, n_outputs, 4, 4)
    for i, row in enumerate(table):
        for k in range(n_outputs):
            game = Game(model, row, k)
            np.testing.assert_allclose(values[i, k], game.shapley(), atol=1e-12)
            np.testing.assert_allclose(pairs[i, k, :-1, :-1], game.interactions(), atol=1e-12)
    other = Game(model, table[0], 0, table[3]).shapley()
    how = {"feature_perturbation": "interventional", "background": rows[3:4]}
    found = model.shap_values(rows[:1], **how).reshape(3, n_outputs)
    np.testing.assert_allclose(found[:, 0], other[:-1], atol=1e-12)


@pytest.mark.parametrize("name", ["binary 2 bits", "multiclass", "ranking", "early stopping"])
def test_values_add_up_to_the_raw_score(name: str) -> None:
    case = CASES[name]()
    model, X = case.train(), np.asarray(case.X)
    parts = model.predict(X, pred_contrib=True).reshape(len(X), model.n_outputs, -1)
    score = model.predict_raw(X).reshape(len(X), -1)
    size = np.abs(parts).sum(axis=2) + sum(np.abs(tree.leaf_value).max() for tree in model.trees)
    assert (np.abs(parts.sum(axis=2) - score) <= 64 * np.finfo(float).eps * size).all()


def test_deep_paths_stay_exact() -> None:
    """A chain of 60 splits by 60 features: unwinding paths would lose all digits here."""
    n = 60
    tree = random_tree(np.random.default_rng(0), n, n)
    chain = np.arange(n, dtype=np.int32)
    parts = {
        "feature": chain,
        "left": ~chain,
        "right": np.append(chain[1:], ~np.int32(n)).astype(np.int32),
        "threshold": np.zeros(n),
        "leaf_rows": np.full(n + 1, 10),
    }
    model = Model(
        "regression", [tree_module.Tree(**{**tree.__dict__, **parts})], [0.0],
        [f"x{i}" for i in range(n)], {},
    )  # fmt: skip
    rows = np.random.default_rng(1).normal(size=(50, n)) + 1.5
    parts = model.predict(rows, pred_contrib=True)
    np.testing.assert_allclose(parts.sum(axis=1), model.predict_raw(rows), atol=1e-13)


@pytest.mark.parametrize("name", ["binary 2 bits", "multiclass"])
def test_the_same_bits_from_any_threads_and_rows(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]()
    model, X = case.train(), np.asarray(case.X)[:300]
    values, pairs = model.predict_contrib(X, n_jobs=1), model.predict_interactions(X[:40], n_jobs=1)
    how = {"feature_perturbation": "interventional", "background": X[:5]}
    others = model.shap_values(X[:70], n_jobs=1, **how)
    for n_jobs in (2, 3):
        np.testing.assert_array_equal(model.predict_contrib(X, n_jobs=n_jobs), values)
        np.testing.assert_array_equal(model.predict_interactions(X[:40], n_jobs=n_jobs), pairs)
        np.testing.assert_array_equal(model.shap_values(X[:70], n_jobs=n_jobs, **how), others)
    alone = [model.predict_contrib(X[i : i + 1]) for i in (0, 7, 299)]
    np.testing.assert_array_equal(np.concatenate(alone), values[[0, 7, 299]])
    for level in ("scalar", "avx2", "avx512"):
        monkeypatch.setenv("BITGROVE_SIMD", level)
        again = Model.from_bytes(model.to_bytes())
        np.testing.assert_array_equal(again.predict_contrib(X), values)


def test_shapes_and_parts() -> None:
    case = CASES["multiclass"]()
    model, X = case.train(), np.asarray(case.X)[:9]
    n, k = model.n_features, model.n_outputs
    contrib = model.predict(X, pred_contrib=True)
    assert contrib.shape == (9, k * (n + 1))
    values = model.shap_values(X)
    assert values.shape == (9, n, k)
    np.testing.assert_array_equal(values[:, :, 1], contrib[:, n + 1 : 2 * n + 1])
    np.testing.assert_array_equal(model.expected_value(), contrib.reshape(9, k, -1)[0, :, -1])
    assert model.predict(X, pred_interactions=True).shape == (9, k, n + 1, n + 1)
    assert model.shap_interaction_values(X).shape == (9, n, n, k)
    # Parts of the model add up; each holds the base score.
    first = model.predict(X, pred_contrib=True, num_iteration=1)
    rest = model.predict(X, pred_contrib=True, start_iteration=1)
    shift = np.zeros((k, n + 1))
    shift[:, -1] = model.base_score
    np.testing.assert_allclose(first + rest - shift.ravel(), contrib, atol=1e-12)
    nothing = model.predict(X, pred_contrib=True, num_iteration=0).reshape(9, k, -1)
    assert not nothing[:, :, :-1].any()
    np.testing.assert_array_equal(nothing[:, :, -1], np.tile(model.base_score, (9, 1)))
    assert model.predict(X[:0], pred_contrib=True).shape == (0, k * (n + 1))
    np.testing.assert_array_equal(model.predict_contrib(X.astype("f4")).shape, contrib.shape)


def test_estimators_explain() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    classes = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")
    few = {"n_estimators": 5, "num_leaves": 7}
    for estimator, y in (
        (bg.BitGroveClassifier(**few), classes),
        (bg.BitGroveRegressor(**few), X[:, 0] * X[:, 1]),
    ):
        estimator.fit(X, y)
        found = estimator.predict(X, pred_contrib=True)
        assert found.shape == (200, 5)
        raw = estimator.predict(X, raw_score=True)
        np.testing.assert_allclose(found.sum(axis=1), raw, atol=1e-12)
        assert estimator.predict(X, pred_interactions=True).shape == (200, 5, 5)
        parts = estimator.shap_values(X)
        np.testing.assert_array_equal(parts, found[:, :-1])
        np.testing.assert_array_equal(estimator.explain(X).values, parts)
        pairs = estimator.shap_interaction_values(X[:9])
        np.testing.assert_allclose(pairs.sum(axis=2), parts[:9], atol=1e-12)
        asked = {"feature_perturbation": "interventional", "background": X[:5]}
        beside = estimator.shap_values(X, background=X[:5])  # which is enough to say
        np.testing.assert_array_equal(beside, estimator.model_.shap_values(X, **asked))
    ranker = bg.BitGroveRanker(**few).fit(X, rng.integers(0, 3, 200), group=[50] * 4)
    assert ranker.predict(X, pred_contrib=True).shape == (200, 5)
    fitted = bg.BitGroveClassifier(**few).fit(X, classes)
    assert fitted.predict_proba(X, pred_contrib=True).shape == (200, 5)


def test_bad_input() -> None:
    case = CASES["binary 2 bits"]()
    model, X = case.train(), np.asarray(case.X)[:5]
    with pytest.raises(ParameterError, match="pred_leaf and pred_contrib exclude each other"):
        model.predict(X, pred_leaf=True, pred_contrib=True)
    with pytest.raises(ParameterError, match="feature_perturbation='causal': allowed are"):
        model.shap_values(X, feature_perturbation="causal")
    with pytest.raises(ParameterError, match="needs background"):
        model.shap_values(X, feature_perturbation="interventional")
    with pytest.raises(ParameterError, match="takes none"):
        model.shap_values(X, feature_perturbation="tree_path_dependent", background=X)
    with pytest.raises(ParameterError, match="background has no rows"):
        model.shap_values(X, feature_perturbation="interventional", background=X[:0])
    with pytest.raises(DataError, match="the model expects"):
        model.shap_values(X, feature_perturbation="interventional", background=X[:, :1])
    with pytest.raises(ParameterError, match="interactions are computed on the CPU"):
        model.predict(X, pred_interactions=True, device="cuda")
    with pytest.raises(DataError, match="the model expects"):
        model.predict(X[:, :2], pred_contrib=True)
