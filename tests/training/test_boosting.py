"""DART and forests: their formulas, what validation sets see of them, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import make_friedman1

import bitgrove as bg
from bitgrove.data.dataset import Dataset
from bitgrove.data.sampling import row_sample
from bitgrove.errors import ParameterError
from bitgrove.params import resolve
from bitgrove.training.variants import BOOSTING
from cases import signal, table

F64 = NDArray[np.float64]
X, OTHER = table(900, 5, 21), table(400, 5, 22)
Y, TARGET = signal(X, 21), signal(OTHER, 22)
PLAIN = {"objective": "regression", "n_estimators": 8, "n_jobs": 1}
ALL_DROPPED = {
    "boosting_type": "dart", "drop_rate": 1.0, "skip_drop": 0.0, "uniform_drop": True,
}  # fmt: skip
FOREST = {"boosting_type": "rf", "subsample": 0.6}


def trained(valid: bool = False, **params: Any) -> bg.Model:
    sets = [Dataset(OTHER, TARGET)] if valid else []
    return bg.train({**PLAIN, **params}, Dataset(X, Y), valid_sets=sets)


def rmse(model: bg.Model) -> float:
    return float(np.sqrt(np.mean((model.predict(OTHER) - TARGET) ** 2)))


def test_dart_that_drops_nothing_is_plain() -> None:
    plain, dart = trained(), trained(boosting_type="dart", skip_drop=1.0)
    np.testing.assert_array_equal(dart.predict(OTHER), plain.predict(OTHER))
    assert dart.digest() != plain.digest()  # its file says what it is


@pytest.mark.parametrize("xgboost", [False, True])
def test_dart_that_drops_all_is_a_mean(xgboost: bool) -> None:
    """Every tree is fitted to the base score and comes back with the weight of the formulas."""
    rate = 0.3
    how = {"gradient_bits": None, "learning_rate": rate, "xgboost_dart_mode": xgboost}
    single = trained(n_estimators=1, gradient_bits=None, learning_rate=rate)
    step = single.predict(OTHER) - single.base_score[0]
    weights: list[float] = []  # of the trees so far
    for n_dropped in range(PLAIN["n_estimators"]):
        one = rate if xgboost else 1.0
        weights = [w * n_dropped / (n_dropped + one) for w in weights]
        weights.append(rate / (n_dropped + one) if n_dropped else rate)
    model = trained(**ALL_DROPPED, **how)
    expected = model.base_score[0] + step / rate * sum(weights)
    np.testing.assert_allclose(model.predict(OTHER), expected, rtol=1e-9)
    found = [tree.leaf_value[0] / model.trees[0].leaf_value[0] for tree in model.trees]
    np.testing.assert_allclose(found, np.array(weights) / weights[0], rtol=1e-9)


def test_no_more_trees_are_dropped_than_allowed() -> None:
    """With one at a time a new tree has the rate or half of it, and half of that each time it is
    dropped; fitted to what, the tree of full precision that begins a training tells.
    """
    how = {**ALL_DROPPED, "gradient_bits": None, "n_estimators": 2}
    one, all_dropped = trained(**how, max_drop=1), trained(**how)
    np.testing.assert_array_equal(one.predict(OTHER), all_dropped.predict(OTHER))
    how["n_estimators"] = 3
    first = trained(n_estimators=1, gradient_bits=None).trees[0].leaf_value
    dropped_once = trained(**how, max_drop=1).trees[0].leaf_value / first
    np.testing.assert_allclose(trained(**how, max_drop=0).trees[0].leaf_value / first, 1 / 3)
    assert np.allclose(dropped_once, 1 / 2) or np.allclose(dropped_once, 1 / 4)


@pytest.mark.parametrize("how", [FOREST, ALL_DROPPED, {"boosting_type": "dart", "drop_rate": 0.4}])
@pytest.mark.parametrize("more", [{}, {"gradient_bits": 3, "colsample_bytree": 0.7}])
def test_validation_sets_see_the_model(how: dict[str, Any], more: dict[str, Any]) -> None:
    """After every iteration: a forest of so many trees; of DART after the last."""
    whole = trained(valid=True, **how, **more)
    curve = whole.info.evals_result["valid_0"]["rmse"]
    assert curve[-1] == pytest.approx(rmse(whole), rel=1e-12)
    for n in (1, 3, 6):
        shorter = trained(n_estimators=n, **how, **more)
        assert curve[n - 1] == pytest.approx(rmse(shorter), rel=1e-12)


def test_the_training_set_can_be_watched() -> None:
    data = Dataset(X, Y)
    for how in (FOREST, ALL_DROPPED):
        model = bg.train({**PLAIN, **how}, data, valid_sets=[data])
        error = np.sqrt(np.mean((model.predict(X) - Y) ** 2))
        assert model.info.evals_result["training"]["rmse"][-1] == pytest.approx(error, rel=1e-12)


def test_a_forest_is_the_mean_of_trees_on_their_rows() -> None:
    model = trained(**FOREST, gradient_bits=None)
    leaves = model.predict_leaf(X)
    hashed = resolve({**PLAIN, **FOREST})
    for number, tree in enumerate(model.trees):
        from bitgrove.backends.reference import ReferenceBackend
        from bitgrove.data.row_ids import one_run

        rows = ReferenceBackend().select_rows(one_run(len(Y)), row_sample(hashed, number))
        for leaf in range(tree.n_leaves):
            mine = rows[leaves[rows, number] == leaf]
            mean = Y[mine].mean() - model.base_score[0]
            assert tree.leaf_value[leaf] * len(model.trees) == pytest.approx(mean, abs=1e-5)


def test_a_forest_stopped_early_is_a_mean_of_fewer() -> None:
    model = trained(valid=True, **FOREST, n_estimators=40, early_stopping_rounds=2)
    best = model.best_iteration
    assert best is not None and best < 40
    np.testing.assert_allclose(
        model.predict(OTHER), trained(**FOREST, n_estimators=best).predict(OTHER), rtol=1e-12
    )


def test_going_on_from_a_model() -> None:
    """Its trees stay as they are; a forest is added to them as one step."""
    first = trained(n_estimators=3)
    for how in (FOREST, ALL_DROPPED):
        more = bg.train({**PLAIN, **how}, Dataset(X, Y), init_model=first)
        assert more.n_iterations == 11
        for old, kept in zip(first.trees, more.trees, strict=False):
            np.testing.assert_array_equal(old.leaf_value, kept.leaf_value)
        assert rmse(more) < rmse(first)


def test_as_good_as_the_peers() -> None:
    """On a regression with interactions, within 5% of LightGBM's error."""
    lightgbm = pytest.importorskip("lightgbm")
    Z, z = make_friedman1(4000, 10, noise=1.0, random_state=1)
    ways = {
        "dart": {"boosting_type": "dart", "learning_rate": 0.2, "n_estimators": 60},
        "rf": {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1, "num_leaves": 127,
               "n_estimators": 60, "min_child_samples": 5},
    }  # fmt: skip
    for name, how in ways.items():
        params = {"objective": "regression", "verbosity": -1, "n_jobs": 1, **how}
        models = [
            bg.train(params, Dataset(Z[:2000], z[:2000])),
            lightgbm.train(params, lightgbm.Dataset(Z[:2000], z[:2000])),
        ]
        ours, theirs = (np.mean((m.predict(Z[2000:]) - z[2000:]) ** 2) ** 0.5 for m in models)
        assert ours < 1.05 * theirs, name


def test_spellings() -> None:
    assert resolve({"booster": "gbtree"}) == resolve({"boosting": "gbdt"}) == resolve({})
    assert resolve({"boosting": "random_forest"}).boosting_type == "rf"
    short = resolve({"boosting_type": "goss", "top_rate": 0.3, "data_sample_strategy": "bagging"})
    assert (short.boosting_type, short.data_sample_strategy) == ("gbdt", "goss")
    estimator = bg.BitGroveRegressor(boosting_type="goss", n_estimators=3).fit(X, Y)
    assert estimator.model_.params["data_sample_strategy"] == "goss"
    assert set(BOOSTING) == {"gbdt", "dart", "rf"}


BAD: list[tuple[dict[str, Any], str]] = [
    (
        {"boosting_type": "gblinear"},
        "boosting_type='gblinear': must be one of 'gbdt'",
    ),
    ({"boosting_type": "goss", "sampling_method": "mvs"}, "boosting_type='goss': not together"),
    ({"boosting_type": "rf"}, "its trees would be equal"),
    ({"boosting_type": "rf", "subsample": 0.5, "subsample_freq": 0}, "its trees would be equal"),
    ({**FOREST, "learning_rate": 0.05}, "learning_rate=0.05: a forest"),
    ({"drop_rate": 0.3}, "drop_rate=0.3 has no meaning with boosting_type='gbdt'"),
    ({"boosting_type": "dart", "drop_rate": 1.5}, "drop_rate=1.5: must be"),
    ({"boosting_type": "dart", "early_stopping_rounds": 3}, "early stopping: not with"),
]


@pytest.mark.parametrize(("params", "message"), BAD)
def test_what_cannot_be_is_said(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        trained(valid=True, **params)


def test_what_changing_trees_cannot_do() -> None:
    with pytest.raises(ParameterError, match="early stopping: not with boosting_type='dart'"):
        bg.cv({**PLAIN, **ALL_DROPPED, "early_stopping_rounds": 2}, Dataset(X, Y), nfold=2)
    dart, forest = trained(**ALL_DROPPED, max_seconds=100.0, valid=True), trained(**FOREST)
    assert dart.best_iteration is None
    for model in (dart, forest):
        with pytest.raises(ParameterError, match="refit: not for boosting_type="):
            model.refit(X, Y)
    for ask in (lambda: forest[:3], lambda: forest.predict(X, num_iteration=3)):
        with pytest.raises(ParameterError, match="a forest"):
            ask()
    assert len(forest.predict(X, num_iteration=-1)) == len(X)
