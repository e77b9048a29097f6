"""The limits of docs/reliability.md: what is at one works, what is past it is refused at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.data import tables
from bitgrove.errors import DataError, ModelFormatError, ParameterError
from bitgrove.model import file as model_file
from bitgrove.model import tree
from bitgrove.objectives import Multiclass
from bitgrove.params import resolve

X = np.arange(40.0).reshape(20, 2)
Y = np.arange(20) % 2
FEW: dict[str, Any] = {"objective": "binary", "n_estimators": 1, "min_child_samples": 1}


def test_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tables.MAX_ROWS == 2**31 - 1  # of a rank: they are numbered by int32
    monkeypatch.setattr(tables, "MAX_ROWS", 20)
    assert bg.Dataset(X, Y).n_rows == 20
    with pytest.raises(DataError, match="X has 21 rows; at most 20"):
        bg.Dataset(np.zeros((21, 2)))


def test_more_rows_than_there_can_be_are_refused_without_being_read() -> None:
    endless = np.broadcast_to(np.float64(1.0), (2**31, 1))  # 8 bytes
    with pytest.raises(DataError, match="X has 2147483648 rows; at most 2147483647"):
        bg.Dataset(endless)


def test_features(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(tables.default_names(tables.MAX_FEATURES)[-1]) == 8  # 11 bytes of the header's 24 MB
    assert 11 * tables.MAX_FEATURES < 24 * 2**20
    monkeypatch.setattr(tables, "MAX_FEATURES", 2)
    assert bg.Dataset(X, Y).n_features == 2
    with pytest.raises(DataError, match="X has 3 features; at most 2"):
        bg.Dataset(np.zeros((4, 3)))


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("num_leaves", 131_072),
        ("max_bin", 255),
        ("n_estimators", 10**6),
        ("max_depth", 2**31 - 1),
        ("gradient_bits", 8),
    ],
)
def test_parameters(name: str, most: int) -> None:
    assert getattr(resolve({name: most}), name) == most
    with pytest.raises(ParameterError, match=name):
        resolve({name: most + 1})


def test_the_largest_trees_and_depths_train() -> None:
    rows = np.arange(3000.0)[:, None]
    params = {"objective": "regression", "n_estimators": 1, "min_child_samples": 1, "max_bin": 255,
              "num_leaves": 131_072, "max_depth": 2**31 - 1, "min_child_weight": 0}  # fmt: skip
    model = bg.train(params, bg.Dataset(rows, np.exp(rows[:, 0] / 300)))
    assert 200 < model.trees[0].n_leaves <= 255
    assert bg.Model.from_bytes(model.to_bytes()).predict(rows).tobytes() == (
        model.predict(rows).tobytes()
    )


def test_one_query_of_all_rows_and_one_of_each() -> None:
    for group in ([20], [1] * 20):
        bg.train({**FEW, "objective": "lambdarank"}, bg.Dataset(X, Y, group=group))
    with pytest.raises(DataError, match="group sizes add up to"):
        bg.Dataset(X, Y, group=[2**62, 2**62])


def test_classes() -> None:
    params = {**FEW, "objective": "multiclass"}
    with pytest.raises(ParameterError, match="num_class=65537: at most 65536 are possible"):
        bg.train({**params, "num_class": 65_537}, bg.Dataset(X, Y))
    Multiclass(num_class=65_536).check_settings()


def test_the_header_of_a_model_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert model_file.MAX_HEADER_BYTES == 32 * 2**20
    data = bg.train(FEW, bg.Dataset(X, Y)).to_bytes()
    size = int.from_bytes(data[12:20], "little")
    monkeypatch.setattr(model_file, "MAX_HEADER_BYTES", size)
    assert bg.Model.from_bytes(data).to_bytes() == data
    monkeypatch.setattr(model_file, "MAX_HEADER_BYTES", size - 1)
    with pytest.raises(ModelFormatError, match="header"):
        bg.Model.from_bytes(data)


def test_nodes_of_one_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    model = bg.train({**FEW, "n_estimators": 3}, bg.Dataset(X, Y))
    n_nodes, data = sum(2 * t.n_splits + 1 for t in model.trees), model.to_bytes()
    assert tree.MAX_NODES == 2**31 - 1
    monkeypatch.setattr(tree, "MAX_NODES", n_nodes)
    assert np.array_equal(bg.Model.from_bytes(data).predict(X), model.predict(X))
    monkeypatch.setattr(tree, "MAX_NODES", n_nodes - 1)
    with pytest.raises(DataError, match=f"the trees have {n_nodes} nodes; at most {n_nodes - 1}"):
        bg.Model.from_bytes(data).predict(X)


@pytest.mark.parametrize("n_levels", [255, 256])
def test_levels_of_a_category(n_levels: int) -> None:
    """At the limit each level has a bin of its own, past it they become a statistic."""
    levels = np.arange(4 * n_levels) % n_levels
    params = {**FEW, "objective": "regression", "max_cat_levels": 255, "max_bin": 255}
    data = bg.Dataset(levels[:, None], levels % 7, categorical_feature=[0])
    model = bg.train({**params, "cat_smooth": 0, "min_data_per_group": 1, "cat_l2": 0}, data)
    assert model.encoder is not None
    assert model.encoder.n_levels == ({0: 255} if n_levels == 255 else {})
    assert [*model.encoder.statistics] == ([] if n_levels == 255 else [0])
    assert bg.Model.from_bytes(model.to_bytes()).predict(levels[:, None]).tobytes() == (
        model.predict(levels[:, None]).tobytes()
    )
    assert any(t.n_splits for t in model.trees)
