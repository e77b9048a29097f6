"""Losses in trainings: near LightGBM, with the leaves and starts that each needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import bitgrove as bg
from bitgrove.distributed import SoloComm, run_threads
from bitgrove.objectives import OBJECTIVES
from bitgrove.objectives.metrics import EvalData, make_metric
from cases import signal, table

F64 = NDArray[np.float64]
X = table(2000, 5, 1)
VALUES = np.maximum(signal(X, 1), 0.0)
SHAPE: dict[str, Any] = {"n_estimators": 40, "num_leaves": 15, "min_child_samples": 20}


def labels(objective: str) -> F64:
    if OBJECTIVES[objective].is_classifier:
        return (VALUES > 0.7).astype(float)
    if objective == "cross_entropy":
        return VALUES / VALUES.max()
    if objective in ("quantile", "mae", "huber", "fair"):
        return signal(X, 1)
    return VALUES + (objective == "gamma")


def judged(metric: str, y: F64, prediction: F64) -> float:
    d = EvalData(prediction, y, np.ones(len(y)), None, np.zeros(0))
    return make_metric(metric).compute(d, SoloComm())


@pytest.mark.parametrize(
    ("objective", "metric", "more"),
    [
        ("mae", "mae", {}),
        ("mape", "mape", {}),
        ("quantile", "quantile@0.2", {"alpha": 0.2}),
        ("quantile", "quantile@0.9", {}),
        ("huber", "huber@0.9", {}),
        ("fair", "fair", {}),
        ("poisson", "poisson", {}),
        ("gamma", "gamma", {}),
        ("tweedie", "tweedie@1.3", {"tweedie_variance_power": 1.3}),
        ("cross_entropy", "cross_entropy", {}),
    ],
)
def test_as_good_as_lightgbm(objective: str, metric: str, more: dict[str, Any]) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    y, half = labels(objective), len(X) // 2
    params = {"objective": objective, **SHAPE, **more}
    ours = bg.train({**params, "n_jobs": 1}, bg.Dataset(X[:half], y[:half]))
    names = {"mae": "regression_l1"}
    theirs = lightgbm.train(
        {**params, "objective": names.get(objective, objective), "verbosity": -1, "num_threads": 1},
        lightgbm.Dataset(X[:half], y[:half]),
    )
    found = judged(metric, y[half:], ours.predict(X[half:]))
    expected = judged(metric, y[half:], theirs.predict(X[half:]))
    constant = judged(metric, y[half:], np.full(half, float(ours.predict(X, num_iteration=0)[0])))
    assert found < expected + 0.1 * abs(constant - expected), (found, expected, constant)


@pytest.mark.parametrize("bits", [4, None])
@pytest.mark.parametrize("objective", ["huber", "pseudo_huber", "fair", "log_cosh"])
def test_robust_means_of_labels_of_any_size(objective: str, bits: int | None) -> None:
    """Newton's own steps go anywhere where a row is far from its label."""
    for size in (1.0, 100.0):
        rng = np.random.default_rng(0)
        x, noise = rng.normal(size=(3000, 3)), 0.1 * rng.standard_t(1.5, size=3000)
        params = {"objective": objective, "gradient_bits": bits}
        model = bg.train(params, bg.Dataset(x, size * (x[:, 0] + noise)))
        errors = model.predict(x) / size - x[:, 0]
        assert np.sqrt((errors**2).mean()) < 0.12


def test_leaves_of_the_absolute_error_are_medians() -> None:
    model = bg.train(
        {"objective": "mae", "n_estimators": 1, "learning_rate": 1.0, "n_jobs": 1},
        bg.Dataset(X, VALUES),
    )
    assert model.base_score[0] == np.median(VALUES)
    leaf = model.predict_leaf(X)[:, 0]
    for number, value in enumerate(model.trees[0].leaf_value):
        residual = (VALUES - model.base_score[0])[leaf == number].astype(np.float32)
        assert value == np.median(residual.astype(np.float64))


def test_weights_are_repetitions_for_quantiles() -> None:
    rng = np.random.default_rng(2)
    weight = rng.integers(1, 5, size=len(X))
    params = {"objective": "quantile", "quantile_alpha": 0.3, "n_estimators": 5, "n_jobs": 1,
              "gradient_bits": None, "min_child_samples": 1, "min_child_weight": 200,
              "bin_sample_rows": 10**6}  # fmt: skip
    weighted = bg.train(params, bg.Dataset(X, VALUES, weight=weight))
    many = np.repeat(np.arange(len(X)), weight)
    repeated = bg.train(params, bg.Dataset(X[many], VALUES[many]))
    assert weighted.base_score[0] == repeated.base_score[0]
    first = weighted.trees[0], repeated.trees[0]
    if first[0].threshold.tolist() == first[1].threshold.tolist():
        np.testing.assert_array_equal(first[0].leaf_value, first[1].leaf_value)


def test_several_quantiles_are_one_model() -> None:
    levels = [0.1, 0.5, 0.9]
    params = {**SHAPE, "objective": "quantile", "n_jobs": 1}
    y = labels("quantile")
    data = bg.Dataset(X, y)
    model = bg.train({**params, "quantile_alpha": levels}, data, valid_sets=data)
    found = model.predict(X)
    assert found.shape == (len(X), 3)
    share = (y[:, None] <= found).mean(axis=0)
    np.testing.assert_allclose(share, levels, atol=0.06)
    sorted_model = bg.train({**params, "quantile_alpha": levels, "non_crossing": True}, data)
    np.testing.assert_array_equal(sorted_model.predict(X), np.sort(found, axis=1))
    np.testing.assert_array_equal(sorted_model.predict_raw(X), model.predict_raw(X))
    loaded = bg.Model.from_bytes(sorted_model.to_bytes())
    np.testing.assert_array_equal(loaded.predict(X), sorted_model.predict(X))
    assert model.info is not None
    last = model.info.evals_result["training"]["quantile"][-1]
    each = [judged(f"quantile@{a}", y, found[:, k]) for k, a in enumerate(levels)]
    assert last == pytest.approx(np.mean(each), rel=1e-12)
    with pytest.raises(bg.ParameterError, match=r"quantile_alpha=.*must ascend"):
        bg.train({**params, "quantile_alpha": [0.5, 0.1], "non_crossing": True}, data)


def test_several_targets_are_separate_trainings() -> None:
    targets = np.column_stack([VALUES, -VALUES])
    params = {**SHAPE, "n_estimators": 5, "n_jobs": 1, "gradient_bits": None}
    for objective in ("regression", "mae"):
        both = bg.train({**params, "objective": objective}, bg.Dataset(X, targets)).predict(X)
        for k in range(2):
            one = bg.train({**params, "objective": objective}, bg.Dataset(X, targets[:, k]))
            np.testing.assert_array_equal(both[:, k], one.predict(X))
    estimator = bg.BitGroveRegressor(n_estimators=20, n_jobs=1).fit(X, targets)
    assert estimator.predict(X).shape == (len(X), 2)
    assert estimator.score(X, targets) > 0.7


def test_several_labels_are_probabilities() -> None:
    wanted = np.column_stack([VALUES > 0.5, VALUES > 1.0])
    data = bg.Dataset(X, wanted)
    params = {**SHAPE, "objective": "binary", "metric": ["auc", "logloss", "f1"], "n_jobs": 1}
    model = bg.train(params, data, valid_sets=data)
    found = model.predict(X)
    assert found.shape == wanted.shape and found.min() > 0.0 and found.max() < 1.0
    assert ((found > 0.5) == wanted).mean() > 0.85
    assert model.info is not None and model.info.evals_result["training"]["auc"][-1] > 0.9


def test_one_against_all() -> None:
    y = np.digitize(VALUES, [0.3, 1.0, 2.0])
    params = {**SHAPE, "objective": "multiclassova", "n_jobs": 1}
    p = bg.train(params, bg.Dataset(X, y)).predict(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    assert (p.argmax(axis=1) == y).mean() > 0.6
    estimator = bg.BitGroveClassifier(objective="ova", n_estimators=5, n_jobs=1).fit(X, y)
    assert estimator.predict_proba(X).shape == (len(X), 4)


def test_focal_with_gamma_zero_is_the_logistic_loss() -> None:
    scores = np.linspace(-5, 5, 41)
    label = np.tile([0.0, 1.0], 21)[:41]
    focal = OBJECTIVES["focal"].from_settings({"focal_gamma": 0.0, "focal_alpha": 0.5})
    grad, hess = focal.derivatives(scores, label, ())
    logistic = OBJECTIVES["binary"].from_settings({}).derivatives(scores, label, ())
    np.testing.assert_allclose(grad, 0.5 * logistic[0], rtol=1e-12)
    np.testing.assert_allclose(hess, 0.5 * logistic[1], rtol=1e-12)


def test_base_score_and_boost_from_average() -> None:
    data = bg.Dataset(X, VALUES)
    short = {"n_estimators": 1, "n_jobs": 1}

    def start(label: F64, **params: Any) -> float:
        model = bg.train({**short, **params}, bg.Dataset(X, label))
        return float(model.predict(X, num_iteration=0)[0])

    assert start(VALUES, objective="regression", base_score=0.25) == 0.25
    assert start(VALUES, objective="regression", boost_from_average=False) == 0.0
    assert start(VALUES, objective="poisson", base_score=2.0) == pytest.approx(2.0, rel=1e-14)
    assert start(labels("binary"), objective="binary", base_score=0.2) == pytest.approx(0.2)
    assert start(VALUES, objective="poisson") == pytest.approx(VALUES.mean(), rel=1e-12)
    for objective, value in (("binary", 1.0), ("poisson", 0.0)):
        with pytest.raises(bg.ParameterError, match=f"base_score={value}"):
            start(labels("binary"), objective=objective, base_score=value)
    with pytest.raises(bg.ParameterError, match="2 values for 1 outputs"):
        bg.train({**short, "objective": "l2", "base_score": [0.0, 1.0]}, data)


def test_an_offset_is_where_training_starts() -> None:
    offset = 3.0 * X[:, 0]
    params = {**SHAPE, "objective": "regression", "n_jobs": 1}
    with_offset = bg.train(params, bg.Dataset(X, VALUES + offset, init_score=offset))
    without = bg.train({**params, "boost_from_average": False}, bg.Dataset(X, VALUES))
    np.testing.assert_allclose(with_offset.predict(X), without.predict(X), atol=1e-5)
    valid = bg.Dataset(X, VALUES + offset)
    data = bg.Dataset(X, VALUES + offset, init_score=offset)
    with pytest.raises(bg.DataError, match="init_score, or neither"):
        bg.train(params, data, valid_sets=valid)
    with pytest.raises(bg.DataError, match="2 values per row, the model 1"):
        bg.train(params, bg.Dataset(X, VALUES, init_score=np.zeros((len(X), 2))))
    with pytest.raises(bg.ParameterError, match="has an init_score already"):
        bg.train({**params, "base_score": 1.0}, data)
    estimator = bg.BitGroveRegressor(**SHAPE, n_jobs=1)
    estimator.fit(X, VALUES + offset, base_margin=offset)
    np.testing.assert_array_equal(estimator.predict(X), with_offset.predict(X))


def test_an_offset_is_dealt_with_its_rows() -> None:
    params = {**SHAPE, "n_estimators": 3, "objective": "mae", "n_jobs": 1}
    offset = X[:, 0] / 4
    solo = bg.train(params, bg.Dataset(X, VALUES, init_score=offset)).digest()

    def work(comm: Any) -> str:
        n = len(X) * comm.rank // (comm.size - 1) if comm.size > 1 else 0
        rows = slice(n, len(X) * (comm.rank + 1) // (comm.size - 1))  # the last rank has none
        part = bg.Dataset(X[rows], VALUES[rows], init_score=offset[rows])
        return bg.train(params, part, comm=comm).digest()

    assert run_threads(3, work) == [solo] * 3


def test_weights_of_classes() -> None:
    y = np.where(VALUES > 1.5, "rare", "usual")
    params = {"n_estimators": 5, "n_jobs": 1}
    share = (y == "rare").mean()
    balanced = bg.BitGroveClassifier(**params, class_weight="balanced").fit(X, y)
    weight = np.where(y == "rare", 0.5 / share, 0.5 / (1 - share))
    by_rows = bg.BitGroveClassifier(**params).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(balanced.predict_proba(X), by_rows.predict_proba(X))
    by_dict = bg.BitGroveClassifier(**params, class_weight={"rare": 3.0}).fit(X, y)
    assert by_dict.predict_proba(X)[:, 0].mean() > share + 0.05
    for bad, message in (({"none": 1.0}, "no class 'none'"), ("heavy", "class_weight='heavy'")):
        with pytest.raises(bg.ParameterError, match=message):
            bg.BitGroveClassifier(**params, class_weight=bad).fit(X, y)


def test_is_unbalance() -> None:
    y = (VALUES > 1.5).astype(float)
    params = {"objective": "binary", "n_estimators": 5, "n_jobs": 1}
    found = bg.train({**params, "is_unbalance": True}, bg.Dataset(X, y))
    ratio = float((y == 0).sum() / (y == 1).sum())
    expected = bg.train({**params, "scale_pos_weight": ratio}, bg.Dataset(X, y))
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))
    with pytest.raises(bg.ParameterError, match="give one of the two"):
        bg.train({**params, "is_unbalance": True, "scale_pos_weight": 2.0}, bg.Dataset(X, y))


BAD_LABELS = {
    "poisson": (-1.0, "needs labels of at least 0, got -1"),
    "gamma": (0.0, "needs labels greater than 0, got 0"),
    "tweedie": (-0.5, "needs labels of at least 0, got -0.5"),
    "cross_entropy": (1.5, "needs labels between 0 and 1, got 1.5"),
    "focal": (2.0, "needs labels 0 and 1"),
    "multiclassova": (0.5, "needs whole labels 0, 1, 2, ..., got 0.5"),
}


@pytest.mark.parametrize("objective", BAD_LABELS)
def test_labels_that_cannot_be_learnt(objective: str) -> None:
    bad, message = BAD_LABELS[objective]
    y = labels(objective)
    y[7] = bad
    with pytest.raises(bg.DataError, match=message):
        bg.train({"objective": objective, "n_jobs": 1}, bg.Dataset(X, y))
    good = bg.Dataset(X, labels(objective))
    with pytest.raises(bg.DataError, match="validation set 'valid_0'"):
        bg.train({"objective": objective, "n_jobs": 1}, good, valid_sets=bg.Dataset(X, y))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"objective": "quantile", "quantile_alpha": 1.0}, "quantile_alpha=1.0: must be greater"),
        ({"objective": "quantile", "alpha": 0.0}, "quantile_alpha=0.0"),
        ({"objective": "tweedie", "tweedie_variance_power": 2.0}, "tweedie_variance_power=2.0"),
        ({"objective": "huber", "huber_delta": 0.0}, "huber_delta=0.0"),
        ({"objective": "regression", "fair_c": 2.0}, "fair_c=2.0 has no meaning"),
        ({"objective": "poisson", "metric": "auc"}, "eval_metric='auc' cannot judge"),
        ({"objective": "expectile", "expectile_alpha": 1.0}, "expectile_alpha=1.0"),
        ({"objective": "l2", "metric": "quantile@2"}, "eval_metric='quantile@2'"),
    ],
)
def test_settings_that_have_no_meaning(params: dict[str, Any], message: str) -> None:
    with pytest.raises(bg.ParameterError, match=message):
        bg.train(params, bg.Dataset(X, VALUES))


def test_columns_where_one_is_needed() -> None:
    two = np.column_stack([VALUES, VALUES])
    for objective in ("quantile", "mape", "multiclass"):
        with pytest.raises(bg.DataError, match="has 2 columns"):
            bg.train({"objective": objective}, bg.Dataset(X, np.floor(two)))


def test_pairs_pull_by_the_derivative_of_their_loss() -> None:
    rng = np.random.default_rng(4)
    label, scores, group = rng.integers(0, 3, 30).astype(float), rng.normal(size=30), [10, 20]
    settings = {"lambdarank_norm": False, "lambdarank_truncation_level": 100}
    objective = OBJECTIVES["rank_pairwise"].from_settings(settings)
    tables = objective.tables(label, np.array(group))
    grad, hess = objective.derivatives(scores[None], label, tables)

    def loss(s: F64) -> float:
        return sum(
            float(np.logaddexp(0.0, s[b] - s[a]))
            for rows in (range(10), range(10, 30))
            for a in rows
            for b in rows
            if label[a] > label[b]
        )

    step = 1e-4
    for row in range(30):
        shift = step * (np.arange(30) == row)
        up, here, down = loss(scores + shift), loss(scores), loss(scores - shift)
        assert grad[0, row] == pytest.approx((up - down) / (2 * step), abs=1e-6)
        assert hess[0, row] == pytest.approx((up - 2 * here + down) / step**2, abs=1e-4)
