"""`shap.TreeExplainer` explains our models through their exports."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import bitgrove as bg
from cases import signal, table

shap = pytest.importorskip("shap", reason="shap (the extra `peers`) explains trees")
lightgbm = pytest.importorskip("lightgbm", reason="LightGBM (the extra `peers`) reads its format")
xgboost = pytest.importorskip("xgboost", reason="XGBoost (the extra `peers`) reads its format")


def small_model() -> tuple[bg.Model, np.ndarray]:
    X = np.round(table(400, 5, 3) * 64) / 64
    params = {"objective": "regression", "n_estimators": 5, "num_leaves": 8}
    return bg.train(params, bg.Dataset(X, signal(X, 3))), X[:50]


def test_through_lightgbm(tmp_path: Path) -> None:
    model, X = small_model()
    model.export(tmp_path / "model.txt")
    booster = lightgbm.Booster(model_file=tmp_path / "model.txt")
    explainer = shap.TreeExplainer(booster)
    values = explainer.shap_values(X)
    total = values.sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(total, model.predict(X), rtol=0, atol=1e-10)
    contributions = booster.predict(X, pred_contrib=True)
    np.testing.assert_allclose(values, contributions[:, :-1], rtol=0, atol=1e-10)


def test_through_xgboost(tmp_path: Path) -> None:
    model, X = small_model()
    model.export(tmp_path / "model.ubj")
    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(tmp_path / "model.ubj")
    explainer = shap.TreeExplainer(booster)
    values = explainer.shap_values(X)
    total = values.sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(total, model.predict(X), rtol=0, atol=1e-5)
