"""The ideas on rounding: the lab's own roundings are unbiased, and exact sums are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.cli.demo.data import make_higgs_like
from lab.datasets.simple import make_regression_like
from lab.roundings.internals import FloatRows, RefittedTraining, RoundingRule, RuledTraining
from lab.roundings.samplers import Goss, Mvs, OneNoise, chances

RULES: list[RoundingRule] = [OneNoise(), OneNoise(2.0, 0.25), Goss(0.2, 0.1), Mvs(0.25)]


def _rows(n: int = 200_000) -> FloatRows:
    rng = np.random.default_rng(3)
    p = rng.beta(1.0, 3.0, n)
    grad, hess = p - (rng.random(n) < p), p * (1.0 - p)
    return FloatRows(grad, hess, (1.0, 0.125), (rng.random(n), rng.random(n)), 0.5)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_sums_are_unbiased(rule: RoundingRule) -> None:
    """Within five standard errors of integers that are drawn row by row."""
    rows = _rows()
    made = rule.rounded(rows)
    for integers, unit, values in ((made.grad, made.units[0], rows.grad),
                                   (made.hess, made.units[1], rows.hess)):  # fmt: skip
        errors = integers * unit - values
        assert abs(errors.mean()) < 5.0 * errors.std() / np.sqrt(len(errors))


def test_one_noise_leaves_as_few_rows_as_the_larger_half() -> None:
    rows = _rows()
    made = OneNoise(2.0, 0.25).rounded(rows)
    wanted = np.maximum(np.abs(rows.grad) / made.units[0], rows.hess / made.units[1])
    active = (made.grad != 0) | (made.hess != 0)
    assert active.mean() == pytest.approx(np.minimum(wanted, 1.0).mean(), abs=0.005)
    assert (np.sign(made.grad) * np.sign(rows.grad) >= 0).all()


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_chances_have_the_mean_that_is_asked_for(share: float) -> None:
    size = np.abs(np.random.default_rng(1).standard_cauchy(10_000))
    found = chances(size, share)
    assert found.mean() == pytest.approx(share, rel=1e-6) and found.max() == 1.0


def _train(training: Any, n_trees: int = 4) -> Any:
    for _ in range(n_trees):
        training.step()
    return training


def test_without_a_rule_the_model_is_the_librarys_and_rows_are_counted() -> None:
    X, y = make_higgs_like(3000, seed=2)
    params = {"objective": "binary", "n_estimators": 4, "gradient_bits": 2, "num_leaves": 7}
    data = bg.Dataset(X, y)
    plain = _train(RuledTraining(params, data, None))
    assert np.array_equal(plain.scores(X), bg.train(params, data).predict(X))
    sparse = _train(RuledTraining(params, data, OneNoise(2.0, 0.25)))
    kept = 1.0 - sparse.work().zero_share
    assert 0.1 < kept < 0.5
    # Nodes differ, but a histogram sees the rows that are not zero and no others.
    assert 0.5 * kept < sparse.work().rows_summed / plain.work().rows_summed < 2.0 * kept


def test_exact_sums_of_all_features_make_the_model_of_full_precision() -> None:
    X, y = make_regression_like(3000, 8, seed=4)
    X[::7, 1] = np.nan
    data = bg.Dataset(X, y)
    params = {"objective": "regression", "n_estimators": 4, "num_leaves": 15}
    few = {**params, "gradient_bits": 2}
    full = bg.train({**params, "gradient_bits": None}, data).predict(X)
    all_features = _train(RefittedTraining(few, data, 8))
    assert np.array_equal(all_features.scores(X), full)
    work = all_features.work
    assert work.taken_gain == pytest.approx(work.best_gain, rel=1e-9)
    assert work.few_bits_gain < 0.999 * work.best_gain
    plain = _train(RefittedTraining(few, data, 0))
    assert np.array_equal(plain.scores(X), bg.train(few, data).predict(X))
    assert plain.work.taken_gain == plain.work.few_bits_gain < plain.work.best_gain
