"""Explanations beside the package shap: its values of the same trees, and its pictures of ours."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.model.explain.explanation import Explanation
from bitgrove.model.model import Model

NO_SHAP = "the package shap is not installed: pip install bitgrove[peers]"


@pytest.fixture(scope="module")
def trained() -> tuple[Model, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    y = X[:, 0] * X[:, 1] + np.where(X[:, 2] > 0, 1.0, -1.0) + 0.1 * rng.normal(size=400)
    params = {"objective": "regression", "n_estimators": 12, "num_leaves": 12}
    return bg.train(params, bg.Dataset(X, y)), X


def shap_tree(tree: Any) -> dict[str, Any]:
    """One of our trees in the arrays that shap.TreeExplainer reads."""
    n, n_leaves = tree.n_splits, tree.n_leaves
    place = lambda links: np.where(links >= 0, links, n + ~links)  # noqa: E731
    rows = np.append(np.zeros(n), tree.leaf_rows).astype(float)
    left, right = place(tree.left), place(tree.right)
    for split in range(n - 1, -1, -1):
        rows[split] = rows[left[split]] + rows[right[split]]
    no = np.full(n_leaves, -1)
    return {
        "children_left": np.append(left, no),
        "children_right": np.append(right, no),
        "children_default": np.append(np.where(tree.default_left, left, right), no),
        "features": np.append(tree.feature, no),
        "thresholds": np.append(tree.threshold, np.zeros(n_leaves)),
        "values": np.append(np.zeros(n), tree.leaf_value)[:, None],
        "node_sample_weight": rows,
    }


def test_values_are_those_of_the_package_shap(trained: tuple[Model, Any]) -> None:
    shap = pytest.importorskip("shap", reason=NO_SHAP)
    model, X = trained
    rows = X[:30]
    peer = shap.TreeExplainer(
        {"trees": [shap_tree(tree) for tree in model.trees], "base_offset": model.base_score[0]},
        feature_perturbation="tree_path_dependent",
    )
    np.testing.assert_allclose(model.shap_values(rows), peer.shap_values(rows), atol=1e-9)
    np.testing.assert_allclose(model.expected_value(), np.ravel(peer.expected_value)[0], atol=1e-9)
    theirs = peer.shap_interaction_values(rows)
    np.testing.assert_allclose(model.shap_interaction_values(rows), theirs, atol=1e-8)
    others = X[50:90]
    peer = shap.TreeExplainer(
        {"trees": [shap_tree(tree) for tree in model.trees], "base_offset": model.base_score[0]},
        data=others,
        feature_perturbation="interventional",
    )
    how = {"feature_perturbation": "interventional", "background": others}
    theirs = peer.shap_values(rows)  # its weights are float32
    np.testing.assert_allclose(model.shap_values(rows, **how), theirs, atol=1e-6)


def test_pictures_of_the_package_shap(trained: tuple[Model, Any]) -> None:
    shap = pytest.importorskip("shap", reason=NO_SHAP)
    plt = pytest.importorskip("matplotlib.pyplot")
    model, X = trained
    explanation = model.explain(X[:60])
    assert isinstance(explanation, shap.Explanation)
    for draw in (shap.plots.beeswarm, shap.plots.bar):
        draw(explanation, show=False)
        assert plt.gcf().axes
        plt.close("all")
    shap.plots.waterfall(explanation[0], show=False)
    shap.plots.scatter(explanation[:, 0], show=False)
    plt.close("all")


def test_without_the_package(trained: tuple[Model, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shap", None)
    model, X = trained
    found = model.explain(X[:20])
    assert isinstance(found, Explanation) and len(found) == 20 and found.shape == (20, 5)
    np.testing.assert_array_equal(found.values, model.shap_values(X[:20]))
    np.testing.assert_array_equal(found.data, X[:20])
    total = found.base_values + found.values.sum(axis=1)
    np.testing.assert_allclose(total, model.predict_raw(X[:20]), atol=1e-12)
    some = found[3:5]
    np.testing.assert_array_equal(some.values, found.values[3:5])
    assert len(found[7]) == 1 and found.feature_names == model.feature_names


def test_classes_and_categories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shap", None)
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pandas.DataFrame({"city": rng.choice(["Bern", "Zug"], 90), "x": rng.normal(size=90)})
    y = np.array(["a", "b", "c"])[rng.integers(0, 3, 90)]
    fitted = bg.BitGroveClassifier(n_estimators=3, num_leaves=4).fit(table, y)
    found = fitted.model_.explain(table)
    assert found.values.shape == (90, 2, 3) and found.base_values.shape == (90, 3)
    assert found.output_names == ["a", "b", "c"] and found.feature_names == ["city", "x"]
    assert found.display_data.tolist() == table.to_numpy().tolist()
    assert set(found.data[:, 0]) == {0.0, 1.0}
    assert fitted.model_.explain(bg.Dataset(table)).display_data is None
    total = found.base_values + found.values.sum(axis=1)
    np.testing.assert_allclose(total, fitted.decision_function(table), atol=1e-12)
