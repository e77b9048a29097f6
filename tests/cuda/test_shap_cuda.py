"""Shapley values on the GPU: the bits of the CPU's, from rows on the host and on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.backends.cuda.forest import explain as device_explain
from bitgrove.backends.cuda.forest import predict as device_predict
from bitgrove.errors import ParameterError
from bitgrove.model.explain import methods
from cases import CASES

NAMES = [
    "binary 2 bits", "multiclass", "ranking", "early stopping", "categories",
    "categories multiclass", "binary 8 bits depth",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_values(backend: Any, name: str) -> None:
    case = CASES[name]()
    model, X = case.train(), np.asarray(case.X)
    for rows in (X, X.astype(np.float32), X[:1], X[:0]):
        for how in ({}, {"num_iteration": 2}, {"num_iteration": 0}, {"start_iteration": 1}):
            expected = model.predict(rows, pred_contrib=True, device="cpu", **how)
            found = model.predict(rows, pred_contrib=True, device="cuda", **how)
            assert isinstance(found, np.ndarray)
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("order", ["C", "F"])
def test_device_rows(backend: Any, order: Any) -> None:
    cupy = pytest.importorskip("cupy")
    case = CASES["multiclass"]()
    model, X = case.train(), np.asarray(case.X)
    on_device = cupy.asarray(X, order=order)
    found = model.shap_values(on_device)
    assert isinstance(found, cupy.ndarray)
    np.testing.assert_array_equal(cupy.asnumpy(found), model.shap_values(X))
    np.testing.assert_array_equal(
        model.predict(on_device[:5], pred_interactions=True),
        model.predict(X[:5], pred_interactions=True),
    )
    how = {"feature_perturbation": "interventional", "background": X[:3]}
    beside = model.shap_values(on_device[:5], **how)
    np.testing.assert_array_equal(beside, model.shap_values(X[:5], **how))
    np.testing.assert_array_equal(model.explain(on_device[:5]).values, model.shap_values(X[:5]))


def test_many_parts_and_few_threads(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["binary 2 bits"]()
    model, X = case.train(), np.asarray(case.X)
    rows = np.concatenate([X, X[::-1], X])
    expected = model.predict(rows, pred_contrib=True, device="cpu")
    monkeypatch.setattr(device_explain, "_ROOM_BYTES", 1)  # one block
    monkeypatch.setattr(device_predict, "_PART_BYTES", 30_000)
    monkeypatch.setattr(device_predict, "_FOUND_BYTES", 90_000)
    np.testing.assert_array_equal(model.predict(rows, pred_contrib=True, device="cuda"), expected)


def test_a_model_of_the_gpu_explains_many_rows_there(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES["binary 2 bits"]()
    estimator = bg.BitGroveClassifier(n_estimators=4, device=backend.name)
    estimator.fit(case.X, np.asarray(case.y) > 0)
    expected = estimator.predict(case.X[:20], pred_contrib=True)
    assert not estimator.model_._device_forests  # too few
    monkeypatch.setattr(methods, "_WALKS_PER_TREE", 10**9)
    np.testing.assert_array_equal(estimator.predict(case.X[:20], pred_contrib=True), expected)
    assert set(estimator.model_._device_forests) == {f"shap {backend.name}"}
    with pytest.raises(ParameterError, match="computed on the CPU"):
        estimator.predict(case.X, pred_interactions=True, device="cuda")
