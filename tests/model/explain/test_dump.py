"""Trees as tables, text and dictionaries: they say what the model does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.errors import DataError, ParameterError
from bitgrove.model.model import Model
from cases import CASES
from test_model import make_model


def walk(structure: dict[str, Any], row: Any, levels: Any) -> float:
    """The leaf value that a row of raw values reaches in a dumped tree."""
    while "leaf_value" not in structure:
        x, where = row[structure["split_feature"]], structure["threshold"]
        if structure["decision_type"] == "==":
            left = str(x) in where.split("||")
        else:
            left = x <= where
        missing = x is None or x != x or (levels is not None and x not in levels)
        if missing:
            left = structure["default_left"]
        structure = structure["left_child" if left else "right_child"]
    return float(structure["leaf_value"])


@pytest.mark.parametrize("name", ["binary 2 bits", "multiclass", "early stopping"])
def test_a_dumped_forest_predicts(name: str) -> None:
    case = CASES[name]()
    model, rows = case.train(), np.asarray(case.X)[:20]
    dumped = json.loads(json.dumps(model.dump_model(), allow_nan=False))
    assert dumped["feature_names"] == model.feature_names
    n_trees, k = len(dumped["tree_info"]), model.n_outputs
    assert n_trees == k * (model.best_iteration or model.n_iterations)
    for row, scores in zip(rows, model.predict_raw(rows).reshape(20, k), strict=True):
        found = np.array(dumped["base_score"])
        for tree in dumped["tree_info"]:
            found[tree["tree_index"] % k] += walk(tree["tree_structure"], row, None)
        np.testing.assert_array_equal(found, scores)


def test_levels_are_told_by_name() -> None:
    rng = np.random.default_rng(0)
    city = rng.choice(["Bern", "Basel", "Genf", "Zug"], 400)
    y = np.isin(city, ["Bern", "Zug"]) * 1.0
    table = city[:, None].astype(object)
    data = bg.Dataset(table, y, categorical_feature=[0], feature_names=["city"])
    params = {"objective": "regression", "n_estimators": 2, "num_leaves": 3,
              "min_data_per_group": 5, "max_cat_to_onehot": 2}  # fmt: skip
    model = bg.train(params, data)
    root = model.dump_model()["tree_info"][0]["tree_structure"]
    assert root["decision_type"] == "=="
    left = set(root["threshold"].split("||"))
    assert left in ({"Bern", "Zug"}, {"Basel", "Genf"})
    assert "city in {" in model.to_text()
    frame = model.trees_to_dataframe()
    assert set(frame["threshold"][0].split("||")) == left
    for row in table[:8]:
        total = sum(walk(tree["tree_structure"], row, {"Bern", "Basel", "Genf", "Zug"})
                    for tree in model.dump_model()["tree_info"])  # fmt: skip
        np.testing.assert_allclose(model.base_score[0] + total, model.predict_raw(row[None])[0])
    with pytest.raises(DataError, match="is a category"):
        model.get_split_value_histogram("city")


def test_the_table_is_lightgbms() -> None:
    pytest.importorskip("pandas")
    model = make_model()
    frame = model.trees_to_dataframe()
    assert frame["node_index"].tolist() == [
        "0-S0", "0-L0", "0-S1", "0-L1", "0-L2", "1-S0", "1-L0", "1-L1", "2-L0",
    ]  # fmt: skip
    assert frame["node_depth"].tolist() == [1, 2, 2, 3, 3, 1, 2, 2, 1]
    root = frame.iloc[0]
    assert (root["left_child"], root["right_child"]) == ("0-L0", "0-S1")
    assert root[["parent_index"]].isna().all() and frame["parent_index"][3] == "0-S1"
    assert (root["split_feature"], root["threshold"], root["split_gain"]) == ("a", 1.0, 8.0)
    assert (root["decision_type"], root["missing_direction"]) == ("<=", "right")
    assert frame["count"][0] == 30 and frame["weight"][0] == 10.0
    leaves = frame[frame["split_feature"].isna()]
    assert leaves["value"].tolist() == [1.0, 2.0, 4.0, 0.25, -0.25, 0.125]
    np.testing.assert_allclose(frame["value"][0], 7 / 3)
    empty = make_model(trees=[])
    with pytest.raises(DataError, match="no trees"):
        empty.trees_to_dataframe()


def test_the_columns_of_lightgbm() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    X = np.random.default_rng(0).normal(size=(200, 2))
    params = {"verbosity": -1, "num_leaves": 3, "num_threads": 1}
    peer = lightgbm.train(params, lightgbm.Dataset(X, X[:, 0]), 1)
    assert list(make_model().trees_to_dataframe().columns) == list(
        peer.trees_to_dataframe().columns
    )
    theirs, ours = peer.dump_model(), make_model().dump_model()
    node, own = (d["tree_info"][0]["tree_structure"] for d in (theirs, ours))
    assert node.keys() == own.keys()
    leaf = next(n for n in (node["left_child"], node["right_child"]) if "leaf_index" in n)
    assert leaf.keys() == own["left_child"].keys()


def test_text() -> None:
    text = make_model().to_text()
    assert text.splitlines()[:6] == [
        "objective: regression",
        "base score: 0.5",
        "",
        "tree 0",
        "  split 0: a <= 1, missing goes right (gain 8, 30 rows)",
        "    leaf 0: 1 (10 rows)",
    ]
    assert "tree 2" not in make_model().to_text(num_iteration=2)


def test_thresholds() -> None:
    model = CASES["binary 2 bits"]().train()
    feature = int(np.argmax(model.feature_importance("split")))
    counts, edges = model.get_split_value_histogram(feature)
    assert counts.sum() == model.feature_importance("split")[feature]
    found = np.concatenate([t.threshold[t.feature == feature] for t in model.trees])
    assert edges[0] == found.min() and edges[-1] == found.max()
    again, _ = model.get_split_value_histogram(model.feature_names[feature], bins=3)
    assert len(again) == 3
    for wrong in ("no such", 10_000, -1):
        with pytest.raises(DataError, match="features are"):
            model.get_split_value_histogram(wrong)


def test_unused_arguments_stay_out() -> None:
    """The dump of a loaded model is that of the model."""
    model = CASES["categories"]().train()
    again = Model.from_bytes(model.to_bytes())
    assert again.to_text() == model.to_text() and again.dump_model() == model.dump_model()


@pytest.mark.parametrize("how", [{}, {"with_stats": True}])
def test_a_dump_to_a_file_says_what_writes_one(how: dict[str, Any], tmp_path: Path) -> None:
    model = make_model()
    for fout in (tmp_path / "dump.txt", str(tmp_path / "dump.txt")):
        with pytest.raises(ParameterError, match=r"dump_model: .* to_text\(\) .* export"):
            model.dump_model(fout, **how)
    assert model.dump_model(2) == model.dump_model(num_iteration=2) != model.dump_model()
