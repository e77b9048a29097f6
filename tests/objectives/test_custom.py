"""Functions of the user as objective and metric."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.distributed import run_threads
from bitgrove.errors import TrainingError
from cases import signal, table

X = table(1200, 4, 3)
Y = signal(X, 3)
PARAMS: dict[str, Any] = {"n_estimators": 6, "n_jobs": 1, "base_score": 0.0}


def squared(label: Any, score: Any) -> tuple[Any, Any]:
    return score - label, np.ones_like(score)


def weighted(label: Any, score: Any, weight: Any) -> tuple[Any, Any]:
    return weight * (score - label), weight


def off(label: Any, prediction: Any) -> tuple[str, float, bool]:
    return "off", float(np.abs(label - prediction).mean()), False


def train(objective: Any, weight: Any = None, **more: Any) -> bg.Model:
    return bg.train({**PARAMS, "objective": objective, **more}, bg.Dataset(X, Y, weight=weight))


def test_a_function_is_as_good_as_the_loss_itself() -> None:
    weight = np.random.default_rng(0).integers(1, 9, len(X)) / 4
    # The robust scale knows of a loss of its own that its hessians are weights alone.
    scale = {"gradient_scale": "max"}
    known = train("regression", weight, **scale)
    for function in (squared, weighted):
        found = train(function, weight, **scale)
        assert found.objective == "custom"
        assert found.params["objective_function"] == function.__name__
        np.testing.assert_array_equal(found.predict(X), known.predict(X))
    assert train(squared, device="reference").digest() == train(squared).digest()
    loaded = bg.Model.from_bytes(found.to_bytes())
    np.testing.assert_array_equal(loaded.predict(X), loaded.predict_raw(X))


def test_several_outputs() -> None:
    y = np.digitize(Y, [0.0, 1.0])

    def softmax(label: Any, score: Any) -> tuple[Any, Any]:
        assert score.shape == (len(X), 3) and not score.flags.writeable
        power = np.exp(score - score.max(axis=1, keepdims=True))
        p = power / power.sum(axis=1, keepdims=True)
        return p - (label[:, None] == np.arange(3)), 1.5 * p * (1 - p)

    params = {**PARAMS, "n_estimators": 20, "num_class": 3, "objective": softmax}
    scores = bg.train(params, bg.Dataset(X, y)).predict(X)
    assert (scores.argmax(axis=1) == y).mean() > 0.6
    estimator = bg.BitGroveClassifier(objective=softmax, n_estimators=20, n_jobs=1).fit(X, y)
    assert (estimator.predict(X) == y).mean() > 0.6
    with pytest.raises(bg.ParameterError, match="scores are no probabilities"):
        estimator.predict_proba(X)


BAD: dict[str, tuple[Any, str]] = {
    "not finite": (lambda y, s: (s / 0.0 * 0.0, s * 0 + 1), r"its gradient of row \d+ is nan"),
    "negative hessian": (lambda y, s: (s, s * 0 - 1), r"its hessian of row 0 is -1.0"),
    "shape": (lambda y, s: (s[:5], s), r"its gradient has shape \(5,\), expected \(1200,\)"),
    "one array": (lambda y, s: s, "must return .gradient, hessian., got ndarray"),
    "text": (lambda y, s: (s.astype(str), s), "its gradient has type"),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", BAD)
def test_what_a_function_may_not_return(kind: str) -> None:
    function, message = BAD[kind]
    with pytest.raises(TrainingError, match=message):
        train(function)


def test_functions_of_another_kind() -> None:
    def lightgbm_style(score: Any, data: Any) -> tuple[Any, Any]:
        return score - data.get_label(), np.ones_like(score)

    with pytest.raises(bg.ParameterError, match=r"wrap a function of .score, dataset."):
        train(lightgbm_style)
    with pytest.raises(bg.ParameterError, match=r"must take .label, score."):
        train(lambda y: y)
    with pytest.raises(bg.ParameterError, match="give the function itself"):
        train("custom")


def test_a_function_as_metric() -> None:
    half = len(X) // 2
    data, valid = bg.Dataset(X[:half], Y[:half]), bg.Dataset(X[half:], Y[half:])
    params = {**PARAMS, "objective": "regression", "metric": ["mae", off]}
    model = bg.train(params, data, valid_sets=valid)
    assert model.info is not None
    found = model.info.evals_result["valid_0"]
    np.testing.assert_allclose(found["off"], found["mae"], rtol=1e-12)
    assert model.params["eval_metric"] == ["mae", "off"]
    with pytest.raises(bg.ParameterError, match="has no metric of its own"):
        bg.train({**PARAMS, "objective": squared}, data, valid_sets=valid)
    with pytest.raises(TrainingError, match=r"must return .name, value"):
        bg.train({**params, "metric": lambda y, p: 1.0}, data, valid_sets=valid)
    for nothing in ([], [("off", 1.0)], [off]):
        with pytest.raises(TrainingError, match=r"must return .* or a list of them"):
            bg.train(
                {**params, "metric": lambda y, p, found=nothing: found}, data, valid_sets=valid
            )
    estimator = bg.BitGroveRegressor(objective=squared, n_estimators=5, n_jobs=1, eval_metric=off)
    estimator.fit(X[:half], Y[:half], eval_set=(X[half:], Y[half:]))
    assert list(estimator.evals_result_["valid_0"]) == ["off"]


@pytest.mark.parametrize(
    ("value", "higher"),
    [(None, True), ("0.5", True), ("bad", True), (np.ones(3), True), ([1.0], True), (1j, True),
     (1.0, np.array([True, False]))],
)  # fmt: skip
def test_a_metric_that_returns_no_number_is_named(value: Any, higher: Any) -> None:
    def crooked(label: Any, prediction: Any) -> Any:
        return "bent", value, higher

    params = {**PARAMS, "objective": "regression", "metric": crooked}
    data = bg.Dataset(X, Y)
    with pytest.raises(TrainingError, match="eval_metric=crooked: the value of 'bent' must be one"):
        bg.train(params, data, valid_sets=data)


def test_numbers_of_any_library_are_values() -> None:
    for value in (1, np.float32(1.0), np.array(1.0), True):

        def whole(label: Any, prediction: Any, value: Any = value) -> Any:
            return "one", value, np.False_

        data = bg.Dataset(X, Y)
        params = {**PARAMS, "objective": "regression", "metric": whole}
        model = bg.train(params, data, valid_sets=data)
        assert model.info is not None
        assert set(model.info.evals_result["training"]["one"]) == {1.0}


def test_a_metric_that_returns_several_results() -> None:
    def both(label: Any, prediction: Any) -> list[tuple[str, float, bool]]:
        gap = np.abs(label - prediction)
        return [("mean", gap.mean(), False), ("near", (gap < 1.0).mean(), True)]

    half = len(X) // 2
    data, valid = bg.Dataset(X[:half], Y[:half]), bg.Dataset(X[half:], Y[half:])
    params = {**PARAMS, "objective": "regression", "metric": [both, off], "early_stopping": 3}
    model = bg.train(params, data, valid_sets=valid)
    assert model.info is not None
    found = model.info.evals_result["valid_0"]
    assert list(found) == ["mean", "near", "off"]
    assert found["mean"] == found["off"]
    assert "valid near-mean" in bg.cv(params, data, nfold=3)


def test_ranks_agree_about_functions() -> None:
    params = {**PARAMS, "objective": squared, "metric": off}

    def work(comm: Any) -> tuple[str, list[float]]:
        rows = np.array_split(np.arange(len(X)), comm.size)[comm.rank]
        part = bg.Dataset(X[rows], Y[rows])
        model = bg.train(params, part, valid_sets=part, comm=comm)
        assert model.info is not None
        return model.digest(), model.info.evals_result["training"]["off"]

    found = run_threads(3, work)
    assert found == [found[0]] * 3
    assert found[0][0] == bg.train(params, bg.Dataset(X, Y)).digest()
