"""Prediction on the GPU: the bits of the CPU's, from rows on the host and on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.backends.cuda import transfer
from bitgrove.backends.cuda.forest import predict as device_predict
from bitgrove.errors import DataError, ParameterError
from bitgrove.model import predict as model_predict
from bitgrove.model.model import Model
from cases import CASES
from denormal_case import denormal_case

NAMES = ["binary 2 bits", "regression weighted", "multiclass", "ranking", "early stopping"]


@pytest.fixture(scope="module", params=NAMES)
def trained(request: Any) -> tuple[Model, Any]:
    case = CASES[request.param]()
    return case.train(), np.asarray(case.X)


def test_host_rows(backend: Any, trained: tuple[Model, Any]) -> None:
    model, X = trained
    for rows in (X, X.astype(np.float32), X[:1], X[:0]):
        for name in ("predict", "predict_raw"):
            predict = getattr(model, name)
            found = predict(rows, device="cuda")
            assert isinstance(found, np.ndarray)
            np.testing.assert_array_equal(found, predict(rows))


@pytest.mark.parametrize("n", [0, 1, 3])
def test_first_iterations(backend: Any, trained: tuple[Model, Any], n: int) -> None:
    model, X = trained
    expected = model.predict(X, num_iteration=n)
    np.testing.assert_array_equal(model.predict(X, num_iteration=n, device="cuda"), expected)


@pytest.mark.parametrize("order", ["C", "F"])
def test_device_rows(backend: Any, trained: tuple[Model, Any], order: Any) -> None:
    cupy = pytest.importorskip("cupy")
    model, X = trained
    on_device = cupy.asarray(X, order=order)
    found = model.predict(on_device)
    assert isinstance(found, cupy.ndarray)
    np.testing.assert_array_equal(cupy.asnumpy(found), model.predict(X))
    part = model.predict_raw(on_device[::3], device=backend.name)
    np.testing.assert_array_equal(cupy.asnumpy(part), model.predict_raw(X[::3]))


def test_single_leaves_and_missing_values(backend: Any) -> None:
    model = CASES["binary 2 bits"]().train(min_split_gain=1e9)
    assert all(tree.n_splits == 0 for tree in model.trees)
    rows = np.full((5, model.n_features), np.nan)
    np.testing.assert_array_equal(model.predict(rows, device="cuda"), model.predict(rows))


def test_denormals(backend: Any) -> None:
    """Values that a GPU would take for zero are told apart, as on the CPU and in training."""
    cupy = pytest.importorskip("cupy")
    case = denormal_case()
    model = case.train()
    assert model.digest() == case.train(device="cuda").digest()
    for rows in (case.X, case.X.astype(np.float64)):
        expected = model.predict(rows)
        assert len(np.unique(expected)) > 50  # flushed, all values would be one
        np.testing.assert_array_equal(model.predict(rows, device="cuda"), expected)
        found = model.predict(cupy.asarray(rows))
        np.testing.assert_array_equal(cupy.asnumpy(found), expected)


def test_leaves(backend: Any, trained: tuple[Model, Any]) -> None:
    cupy = pytest.importorskip("cupy")
    model, X = trained
    for rows in (X, X.astype(np.float32), X[:1], X[:0]):
        for how in ({}, {"num_iteration": 2}, {"num_iteration": 0}, {"start_iteration": 1}):
            expected = model.predict_leaf(rows, device="cpu", **how)
            found = model.predict_leaf(rows, device="cuda", **how)
            assert found.dtype == np.int32
            np.testing.assert_array_equal(found, expected)
            on_device = model.predict(cupy.asarray(rows), pred_leaf=True, **how)
            np.testing.assert_array_equal(cupy.asnumpy(on_device), expected)


def test_many_parts(
    backend: Any, trained: tuple[Model, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, X = trained
    rows = np.concatenate([X, X[::-1]])
    expected = (model.predict(rows, device="cpu"), model.predict_leaf(rows, device="cpu"))
    monkeypatch.setattr(device_predict, "_PART_BYTES", 10_000)
    monkeypatch.setattr(device_predict, "_FOUND_BYTES", 5000)
    monkeypatch.setattr(transfer, "BLOCK_BYTES", 4096)
    np.testing.assert_array_equal(model.predict(rows, device="cuda"), expected[0])
    np.testing.assert_array_equal(model.predict_leaf(rows, device="cuda"), expected[1])


def test_a_model_of_the_gpu_predicts_many_rows_there(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES["binary 2 bits"]()
    estimator = bg.BitGroveClassifier(n_estimators=4, device=backend.name)
    estimator.fit(case.X, np.asarray(case.y) > 0)
    expected = estimator.predict_proba(case.X)
    assert not estimator.model_._device_forests  # too few
    monkeypatch.setattr(model_predict, "_LEAST_WALKS", 1)
    np.testing.assert_array_equal(estimator.predict_proba(case.X), expected)
    assert set(estimator.model_._device_forests) == {backend.name}


def test_errors(backend: Any, trained: tuple[Model, Any]) -> None:
    cupy = pytest.importorskip("cupy")
    model, X = trained
    with pytest.raises(DataError, match="the model expects"):
        model.predict(cupy.zeros((3, model.n_features + 1)))
    with pytest.raises(DataError, match="this runs on cpu"):
        model.predict(cupy.asarray(X), device="cpu")
    with pytest.raises(ParameterError, match="numbered from 0"):
        model.predict(X, device="cuda:999")
