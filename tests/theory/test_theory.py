"""The paper's bounds, its worked examples, and what is measured beside them."""

from __future__ import annotations

import doctest
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bitgrove as bg
from bitgrove import theory
from bitgrove.cli.demo.data import make_higgs_like
from bitgrove.distributed import run_threads
from bitgrove.theory import bounds, gain_error
from bitgrove.theory.leaves import tree_sums
from lab.datasets.simple import make_multiclass_like, make_regression_like

SMALL = {"n_estimators": 5, "num_leaves": 15, "min_child_samples": 50}


@pytest.fixture(scope="module")
def regression() -> tuple[bg.Dataset, bg.Model]:
    data = bg.Dataset(*make_regression_like(6000, seed=1))
    params = {**SMALL, "objective": "regression", "gradient_bits": None}
    return data, bg.train(params, data)


@pytest.fixture(scope="module")
def binary() -> tuple[bg.Dataset, bg.Model]:
    data = bg.Dataset(*make_higgs_like(6000, seed=1))
    return data, bg.train({**SMALL, "objective": "binary", "gradient_bits": None}, data)


def test_the_papers_example_of_theorem_5_3() -> None:
    """Section 5: n = 10^7 in two halves, epsilon = max|g| / 10, gamma = 0.2, delta = 0.1."""
    three, four = (
        theory.gain_error_bound(bits, 5e6, 5e6, gamma=0.2, epsilon=0.1, delta=0.1)
        for bits in (3, 4)
    )
    assert three == pytest.approx(0.15, abs=0.005)
    assert 0.07 < four < 0.08


def test_the_papers_example_of_the_least_rows() -> None:
    """Appendix D: average hessian 0.01, binary, 3 bits, delta = 0.01."""
    unit = theory.units(3, 1.0, 0.25)[1]
    assert unit == pytest.approx(1 / 24)
    assert theory.least_rows(0.01, unit, delta=0.01) == pytest.approx(928, abs=0.5)


def test_theorem_b31_by_hand() -> None:
    """One value computed term by term from the theorem's three lines."""
    n1, n2, h1, h2, g, e, dg, dh, d = 4000.0, 1000.0, 0.2, 0.1, 0.25, 0.8, 0.3, 0.05, 0.1
    n, log = n1 + n2, np.log(8 / d)
    h = (n1 * h1 + n2 * h2) / n
    root = np.sqrt(2 * log)
    by_hand = (
        dg * root / (g**2 * e) * (1 / (h1 * n1**0.5) + 1 / (h2 * n2**0.5))
        + h * dh * root / (2 * g**2) * (n / (h1**2 * n1 * n1**0.5) + n / (h2**2 * n2 * n2**0.5))
        + dg**2 * log / (g**2 * h * e**2) * (1 / (h1 * n) + 1 / (h2 * n))
    )
    bound = theory.hessian_gain_error_bound(
        n1, n2, left_hess=h1, right_hess=h2, gamma=g, epsilon=e, unit_grad=dg, unit_hess=dh, delta=d
    )
    assert bound == pytest.approx(by_hand, rel=1e-12)


def test_theorem_b31_is_silent_about_small_children() -> None:
    least = theory.least_rows(0.1, 0.05)
    given_sizes = {"left_hess": 0.1, "right_hess": 0.1, "gamma": 0.2, "epsilon": 1.0}
    bound = theory.hessian_gain_error_bound(
        [least - 1, least + 1], least + 1, **given_sizes, unit_grad=0.1, unit_hess=0.05
    )
    assert np.isinf(bound[0]) and np.isfinite(bound[1])


@given(
    bits=st.integers(2, 7),
    n=st.integers(10, 10**8),
    gamma=st.floats(0.01, 0.5),
    delta=st.floats(0.001, 0.5),
)
def test_bounds_shrink_with_bits_rows_gamma_and_delta(
    bits: int, n: int, gamma: float, delta: float
) -> None:
    def bound(b: int = bits, rows: int = n, g: float = gamma, d: float = delta) -> float:
        return float(theory.gain_error_bound(b, rows, rows, gamma=g, epsilon=0.1, delta=d))

    assert bound(b=bits + 1) < bound()
    assert bound(rows=2 * n) < bound()
    assert bound(g=gamma / 2) > bound()
    assert bound(d=delta / 2) > bound()


def test_bad_arguments_are_named() -> None:
    with pytest.raises(bg.ParameterError, match="bits=1"):
        theory.units(1, 1.0)
    with pytest.raises(bg.ParameterError, match=r"delta=1\.5"):
        theory.gain_error_bound(3, 10, 10, gamma=0.1, epsilon=0.1, delta=1.5)


def test_gamma_is_half_minus_the_weighted_error(regression: tuple[bg.Dataset, bg.Model]) -> None:
    """Against the definition: each child predicts its weighted majority sign."""
    data, model = regression
    tree, leaf = model.trees[0], model.predict_leaf(np.column_stack(data.columns))[:, 0]
    assert data.label is not None
    grad = (model.base_score[0] - data.label).astype(np.float64)
    sums = tree_sums(tree, leaf.astype(np.int64), grad, None)
    in_left = np.isin(leaf, _leaves_below(tree, tree.left[0]))
    wrong = 0.0
    for child in (in_left, ~in_left):
        positive = np.clip(grad[child], 0, None).sum()
        negative = np.clip(-grad[child], 0, None).sum()
        wrong += min(positive, negative)
    assert sums.gamma[0] == pytest.approx(0.5 - wrong / np.abs(grad).sum(), rel=1e-9)
    assert ((sums.gamma > 0) & (sums.gamma <= 0.5)).all()  # Theorem B.1.1: every gain has one


def _leaves_below(tree: bg.model.Tree, node: int) -> list[int]:
    if node < 0:
        return [~node]
    return _leaves_below(tree, tree.left[node]) + _leaves_below(tree, tree.right[node])


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_recorder_sees_the_gradients_each_tree_was_grown_from(device: str) -> None:
    X, y = make_higgs_like(1500, seed=3)
    recorder = theory.LeafRecorder()
    params = {**SMALL, "objective": "binary", "gradient_bits": 3, "device": device}
    model = bg.train(params, bg.Dataset(X, y), callbacks=[recorder])
    leaves = model.predict_leaf(X)
    assert [len(g) for g in recorder.gammas] == [tree.n_splits for tree in model.trees]
    for number, tree in enumerate(model.trees):
        p = 1 / (1 + np.exp(-model.predict_raw(X, num_iteration=number)))
        sums = tree_sums(tree, leaves[:, number].astype(np.int64), p - y, p * (1 - p))
        np.testing.assert_allclose(recorder.gammas[number], sums.gamma, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(recorder.mean_hess[number], sums.mean_hess, rtol=1e-5)
        np.testing.assert_allclose(sums.leaf.hess, tree.leaf_hess, rtol=1e-5)  # refitted
        np.testing.assert_array_equal(sums.leaf.rows, tree.leaf_rows)


def test_recorder_counts_the_sampled_rows_of_every_class() -> None:
    X, y = make_multiclass_like(1500, 3, seed=2)
    recorder = theory.LeafRecorder()
    params = {**SMALL, "objective": "multiclass", "subsample": 0.5, "n_estimators": 3}
    model = bg.train(params, bg.Dataset(X, y), callbacks=[recorder])
    assert len(recorder.mean_hess) == len(model.trees) == 9
    for mean_hess, tree in zip(recorder.mean_hess, model.trees, strict=True):
        np.testing.assert_allclose(mean_hess, tree.leaf_hess / tree.leaf_rows, rtol=1e-5)


def test_recorder_adds_up_the_ranks() -> None:
    X, y = make_regression_like(900, seed=4)
    params = {**SMALL, "objective": "regression"}

    def work(comm: bg.distributed.Comm) -> list[np.ndarray]:
        rows = slice(450 * comm.rank, 450 * (comm.rank + 1))
        recorder = theory.LeafRecorder()
        bg.train(params, bg.Dataset(X[rows], y[rows]), callbacks=[recorder], comm=comm)
        return recorder.gammas

    alone = theory.LeafRecorder()
    bg.train(params, bg.Dataset(X, y), callbacks=[alone])
    for gammas in run_threads(2, work):
        np.testing.assert_allclose(np.concatenate(gammas), np.concatenate(alone.gammas), rtol=1e-9)


def test_recorder_leaves_out_what_a_checkpoint_repeats(tmp_path: Path) -> None:
    X, y = make_regression_like(500, seed=4)
    params = {**SMALL, "objective": "regression"}
    bg.train({**params, "n_estimators": 4}, bg.Dataset(X, y)).truncate(2).save(tmp_path / "two")
    whole, rest = theory.LeafRecorder(), theory.LeafRecorder()
    bg.train({**params, "n_estimators": 4}, bg.Dataset(X, y), callbacks=[whole])
    bg.train({**params, "n_estimators": 4}, bg.Dataset(X, y), callbacks=[rest],
             resume_from=tmp_path / "two")  # fmt: skip
    assert len(rest.gammas) == 2
    for resumed, straight in zip(rest.gammas, whole.gammas[2:], strict=True):
        np.testing.assert_array_equal(resumed, straight)


def test_sums_of_children_add_up(binary: tuple[bg.Dataset, bg.Model]) -> None:
    data, model = binary
    leaf = model.predict_leaf(np.column_stack(data.columns))[:, 2].astype(np.int64)
    rng = np.random.default_rng(0)
    grad, hess = rng.normal(size=len(leaf)), rng.random(len(leaf))
    tree = model.trees[2]
    sums = tree_sums(tree, leaf, grad, hess)
    of_root = [left[0] + right[0] for left, right in zip(sums.left, sums.right, strict=True)]
    np.testing.assert_allclose(of_root, [len(leaf), grad.sum(), np.abs(grad).sum(), hess.sum()])
    np.testing.assert_array_equal(sums.left.rows + sums.right.rows, tree.split_rows)


@pytest.mark.parametrize("kind", ["regression", "binary"])
def test_measured_errors_stay_under_the_bound(kind: str, request: pytest.FixtureRequest) -> None:
    """Monte Carlo: for every split, at most a share delta of the roundings is above the bound."""
    data, model = request.getfixturevalue(kind)
    for bits in (2, 4):
        found = theory.measure_gain_errors(model, data, bits, n_draws=40, iterations=[0, 4])
        above = (found.error > found.bound).mean(axis=0)
        assert found.n_splits == sum(model.trees[i].n_splits for i in (0, 4))
        assert above.max() <= found.delta
        finite = np.isfinite(found.bound)
        assert finite.any()
        assert (found.typical[finite] < found.bound[finite]).all()


def test_stochastic_rounding_is_unbiased_and_nearest_is_not(
    binary: tuple[bg.Dataset, bg.Model],
) -> None:
    data, model = binary
    errors = {
        rounding: theory.measure_gain_errors(
            model, data, 2, n_draws=10, iterations=[3], rounding=rounding
        )
        for rounding in ("stochastic", "nearest")
    }
    assert (errors["nearest"].error == errors["nearest"].error[0]).all()  # nothing is drawn
    assert errors["nearest"].worst() > 2 * errors["stochastic"].worst()


def test_two_more_bits_make_errors_several_times_smaller(
    regression: tuple[bg.Dataset, bg.Model],
) -> None:
    data, model = regression
    worst = [
        theory.measure_gain_errors(model, data, bits, iterations=[0]).worst() for bits in (3, 5, 7)
    ]
    for coarse, fine in itertools.pairwise(worst):
        assert 2.5 < coarse / fine < 8  # about 4, and more at few bits


def test_suggest_bits(regression: tuple[bg.Dataset, bg.Model]) -> None:
    data, model = regression
    strict = theory.suggest_bits(model, data=data, tolerance=0.001, n_trees=3)
    loose = theory.suggest_bits(model, data=data, tolerance=0.1, n_trees=3)
    assert strict.regrets == loose.regrets
    assert strict.bits is not None and loose.bits is not None and strict.bits > loose.bits
    assert strict.regrets[strict.bits] <= 0.001 < strict.regrets[strict.bits - 1]
    assert theory.suggest_bits(model, data=data, tolerance=1e-12, n_trees=1).bits is None
    from_rows = theory.suggest_bits(
        data, {"num_iterations": 4, "objective": "regression"}, n_trees=3, tolerance=0.01
    )
    assert from_rows.bits is not None


def test_suggest_bits_looks_at_the_worst_tree() -> None:
    """Almost all gain is in the first tree, which 2 bits grow well; later ones they do not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 5))
    y = 40.0 * (X[:, 0] > 0) + 0.3 * np.sin(3 * X[:, 1]) + 0.3 * rng.normal(size=8000)
    data = bg.Dataset(X, y)
    params = {"objective": "regression", "n_estimators": 60, "num_leaves": 8}
    model = bg.train({**params, "gradient_bits": None, "gradient_scale": "max"}, data)
    found = theory.suggest_bits(model, data=data)
    pooled = theory.measure_split_regret(model, data, 2, iterations=[0, 15, 30, 44, 59])
    assert pooled.regret() < 0.05 < 0.1 < found.regrets[2] and found.bits is not None
    assert found.regrets[found.bits] <= 0.1


def test_suggest_bits_needs_rows(regression: tuple[bg.Dataset, bg.Model]) -> None:
    data, model = regression
    with pytest.raises(bg.DataError, match="holds no rows"):
        theory.suggest_bits(model)
    with pytest.raises(bg.DataTypeError, match="Dataset or a Model"):
        theory.suggest_bits([1, 2])  # type: ignore[arg-type]
    with pytest.raises(bg.ParameterError, match="tolerance=0"):
        theory.suggest_bits(model, data=data, tolerance=0)
    with pytest.raises(bg.ParameterError, match="iterations"):
        theory.measure_gain_errors(model, data, 3, iterations=[5])


@pytest.mark.parametrize("module", [bounds, gain_error])
def test_docstring_examples(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]
