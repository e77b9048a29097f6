"""The splits that rounding chooses, the gain it loses, and the certificate of it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bitgrove as bg
from bitgrove import theory
from bitgrove.cli.demo.data import make_higgs_like
from bitgrove.data.sampling import row_sample
from bitgrove.params import resolve
from bitgrove.theory.redrawn import redrawn_trees
from lab.datasets.simple import make_regression_like

SMALL = {"n_estimators": 4, "num_leaves": 8, "min_child_samples": 30, "reg_lambda": 0.0}


def _trained(kind: str, **changes: object) -> tuple[bg.Dataset, bg.Model]:
    make = make_regression_like if kind == "regression" else make_higgs_like
    data = bg.Dataset(*make(4000, seed=3))
    return data, bg.train({**SMALL, "objective": kind, "gradient_bits": None, **changes}, data)


@given(
    grad=st.floats(-50.0, 50.0), hess=st.floats(0.1, 100.0),
    t=st.floats(0.0, 20.0), u=st.floats(0.0, 5.0),
    at=st.tuples(st.floats(-1.0, 1.0), st.floats(-1.0, 1.0)),
)  # fmt: skip
def test_no_score_moves_further_than_its_slack(
    grad: float, hess: float, t: float, u: float, at: tuple[float, float]
) -> None:
    moved_grad, moved_hess = grad + at[0] * t, hess + at[1] * u
    slack = theory.score_slack(grad, hess, t, u)
    if u >= hess:
        assert slack == np.inf
        return
    moved = abs(moved_grad**2 / (2 * moved_hess) - grad**2 / (2 * hess))
    assert moved <= slack * (1 + 1e-9) + 1e-9


@given(
    scores=st.lists(st.floats(0.0, 10.0), min_size=1, max_size=8),
    errors=st.lists(st.floats(-1.0, 1.0), min_size=8, max_size=8),
    slack=st.floats(0.0, 2.0),
)
def test_whatever_is_chosen_keeps_the_certified_share(
    scores: list[float], errors: list[float], slack: float
) -> None:
    true, slacks = np.array(scores), np.full(len(scores), slack)
    share = theory.certified_share(true, slacks, parent=0.0)
    chosen = int(np.argmax(true + slacks * np.array(errors[: len(scores)])))
    assert 0.0 <= share <= 1.0
    assert true[chosen] >= share * true.max() - 1e-9
    assert theory.certified_share(true, np.zeros_like(true), 0.0) == 1.0


@given(n_sums=st.integers(1, 10**6), delta=st.floats(0.001, 0.5), variance=st.floats(0.0, 1e6))
def test_slack_grows_with_the_sums_it_covers(n_sums: int, delta: float, variance: float) -> None:
    one = theory.bernstein_slack(variance, 1.0, n_sums, delta)
    assert theory.bernstein_slack(variance, 1.0, 2 * n_sums, delta) > one
    assert theory.bernstein_slack(variance + 1.0, 1.0, n_sums, delta) > one
    # The inequality itself holds with equality.
    exponent = one**2 / (2.0 * (variance + one / 3.0))
    assert 2.0 * n_sums * np.exp(-exponent) == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize("kind", ["regression", "binary"])
def test_full_precision_takes_the_best_split_of_every_node(kind: str) -> None:
    """The gains computed here are those of the library, and many bits lose almost nothing."""
    data, model = _trained(kind)
    found = theory.measure_split_regret(model, data, 16, n_draws=2, iterations=[0, 3])
    gains = np.concatenate([model.trees[i].gain for i in (0, 3)])
    np.testing.assert_allclose(found.best_gain, gains, rtol=1e-4)
    assert found.regret() < 0.01 and (found.kept <= 1.0 + 1e-12).all()
    np.testing.assert_array_equal(
        found.n_rows[: model.trees[0].n_splits], model.trees[0].split_rows
    )


def test_rows_start_at_their_own_scores() -> None:
    data, _ = _trained("regression")
    data.set_init_score(3.0 * data.columns[0])
    model = bg.train({**SMALL, "objective": "regression", "gradient_bits": None}, data)
    found = theory.measure_split_regret(model, data, 16, n_draws=2)
    gains = np.concatenate([tree.gain for tree in model.trees])
    np.testing.assert_allclose(found.best_gain, gains, rtol=1e-4)


@pytest.mark.parametrize("kind", ["regression", "binary"])
def test_certificate_holds_and_regret_falls_with_bits(kind: str) -> None:
    data, model = _trained(kind)
    regrets, certified = [], []
    for bits in (2, 4, 8, 12):
        found = theory.measure_split_regret(model, data, bits, n_draws=20, iterations=[0, 2])
        broken = (found.kept < found.certified - 1e-12).mean(axis=0)
        assert broken.max() <= found.delta
        regrets.append(found.regret())
        certified.append(found.certified_regret())
    assert regrets == sorted(regrets, reverse=True) and regrets[0] > 0.0
    assert certified == sorted(certified, reverse=True) and certified[-1] < 0.5
    assert all(r <= c for r, c in zip(regrets, certified, strict=True))


def test_nearest_rounding_has_neither_certificate_nor_bound() -> None:
    data, model = _trained("regression")
    found = theory.measure_split_regret(model, data, 3, n_draws=2, rounding="nearest")
    assert (found.certified == 0.0).all() and (found.kept[0] == found.kept[1]).all()
    errors = theory.measure_gain_errors(model, data, 3, n_draws=2, rounding="nearest")
    assert np.isinf(errors.bound).all()
    with pytest.raises(bg.ParameterError, match="n_draws=0"):
        theory.measure_split_regret(model, data, 3, n_draws=0)


def test_a_tree_is_judged_by_the_rows_it_saw() -> None:
    data, model = _trained("regression", subsample=0.5, subsample_freq=1, colsample_bytree=0.5)
    params = resolve(model.params)
    for redrawn, booster in redrawn_trees(model, data, [1, 3], 0, gradient_bits=4):
        sample = row_sample(params, redrawn.number)
        rows = booster.backend.select_rows(booster.runs, sample)
        np.testing.assert_array_equal(redrawn.rows, rows)
        counts = np.bincount(redrawn.leaf, minlength=redrawn.tree.n_leaves)
        np.testing.assert_array_equal(counts, redrawn.tree.leaf_rows)
    errors = theory.measure_gain_errors(model, data, 4, n_draws=2, iterations=[1])
    np.testing.assert_array_equal(errors.n_left + errors.n_right, model.trees[1].split_rows)
    regret = theory.measure_split_regret(model, data, 16, n_draws=2, iterations=[1])
    np.testing.assert_allclose(regret.best_gain, model.trees[1].gain, rtol=1e-4)


def test_missing_values_may_go_either_way() -> None:
    X, y = make_regression_like(3000, seed=5)
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    data = bg.Dataset(X, y)
    params = {**SMALL, "objective": "regression", "gradient_bits": None}
    model = bg.train(params, data)
    found = theory.measure_split_regret(model, data, 16, n_draws=1, iterations=[0])
    np.testing.assert_allclose(found.best_gain, model.trees[0].gain, rtol=1e-4)


def test_categories_are_refused() -> None:
    X, y = make_regression_like(400, seed=3)
    data = bg.Dataset(np.round(X), y, categorical_feature=[0])
    model = bg.train({**SMALL, "objective": "regression", "min_data_per_group": 5}, data)
    with pytest.raises(
        bg.ParameterError, match="trained with categories, which cannot be measured"
    ):
        theory.measure_split_regret(model, data, 2)


def test_what_changes_gains_is_refused_all_at_once() -> None:
    n_features = make_regression_like(10)[0].shape[1]
    given = {
        "boosting_type": "dart", "max_delta_step": 0.5, "colsample_bynode": 0.5,
        "extra_trees": True, "monotone_constraints": [1] + [0] * (n_features - 1),
        "interaction_constraints": [[0]], "path_smooth": 1.0, "feature_contri": [0.5] * n_features,
    }  # fmt: skip
    data, model = _trained("regression", **given)
    message = "model: trained with " + ", ".join(f"{n}={v!r}" for n, v in given.items())
    with pytest.raises(bg.ParameterError, match=re.escape(message)):
        theory.measure_split_regret(model, data, 2)
    data, model = _trained("regression", **{**given, "boosting_type": "gbdt"})
    assert theory.measure_gain_errors(model, data, 2, n_draws=1, iterations=[1]).n_splits > 0
    data, model = _trained("binary", max_delta_step=0.0)  # no bound at all
    assert theory.measure_split_regret(model, data, 2, n_draws=1, iterations=[0]).regret() > 0.0


def test_an_objective_of_your_own() -> None:
    """A function that is the squared error is measured as that is."""
    data, model = _trained("regression", gradient_scale="max")
    own: Any = lambda label, score: (score - label, np.ones_like(label))  # noqa: E731
    params = {
        **SMALL, "gradient_bits": None, "gradient_scale": "max", "objective": own,
        "base_score": model.base_score[0],
    }  # fmt: skip
    again = bg.train(params, data)
    expected = theory.suggest_bits(model, data=data, n_trees=2, n_draws=1).regrets
    found = theory.suggest_bits(again, data=data, objective=own, n_trees=2, n_draws=1).regrets
    assert found == pytest.approx(expected, rel=1e-6)
    assert theory.suggest_bits(data, params, n_trees=2, n_draws=1).regrets == found
    errors = theory.measure_gain_errors(again, data, 4, n_draws=1, objective=own)
    assert errors.n_splits == sum(tree.n_splits for tree in again.trees)
    with pytest.raises(bg.ParameterError, match="objective='custom': give the function itself"):
        theory.suggest_bits(again, data=data)
    with pytest.raises(bg.ParameterError, match="not trained with a function"):
        theory.suggest_bits(model, data=data, objective=own)
    with pytest.raises(bg.ParameterError, match="params: only for a Dataset"):
        theory.suggest_bits(model, params, data=data)
