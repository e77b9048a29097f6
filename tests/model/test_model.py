"""The model: what it predicts, what it refuses, and how it goes to disk and back."""

from __future__ import annotations

import copy
import hashlib
import os
import pickle
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitgrove.errors import DataError, ModelFormatError, ParameterError
from bitgrove.model import model as model_module
from bitgrove.model.model import Model, load
from bitgrove.model.tree import Tree
from bitgrove.params import model_params
from bitgrove.training.booster import TrainInfo

X = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 9.0], [np.nan, 9.0], [np.nan, np.nan]])


def make_tree(values: list[float]) -> Tree:
    """1 leaf; or 2: x0 <= 1; or 3: the right side of that split once more by x1 <= 5.

    Missing x0 goes right, missing x1 goes left. Gains are 8 and 2.
    """
    n_splits = len(values) - 1
    return Tree(
        feature=np.array([0, 1], np.int32)[:n_splits],
        split_bin=np.array([4, 7], np.uint8)[:n_splits],
        threshold=np.array([1.0, 5.0])[:n_splits],
        default_left=np.array([0, 1], np.uint8)[:n_splits],
        left=np.array([~0, ~1], np.int32)[:n_splits],
        right=np.array([1 if n_splits == 2 else ~1, ~2], np.int32)[:n_splits],
        gain=np.array([8.0, 2.0])[:n_splits],
        split_rows=np.array([40, 30], np.int64)[:n_splits],
        split_hess=np.array([10.0, 7.5])[:n_splits],
        leaf_value=np.array(values),
        leaf_rows=np.full(len(values), 10, np.int64),
        leaf_hess=np.full(len(values), 2.5),
    )


def make_model(objective: str = "regression", **changes: Any) -> Model:
    arguments: dict[str, Any] = {
        "objective": objective,
        "trees": [make_tree([1.0, 2.0, 4.0]), make_tree([0.25, -0.25]), make_tree([0.125])],
        "base_score": [0.5],
        "feature_names": ["a", "b"],
        "params": {"learning_rate": 0.1, "sigmoid": 2.0, "label_gain": (0.0, 1.0)},
    }
    if objective == "multiclass":
        arguments["base_score"] = [0.5, -0.5, 0.0]
    return Model(**{**arguments, **changes})


def test_predict_raw_adds_the_leaves_of_each_tree() -> None:
    model = make_model()
    np.testing.assert_array_equal(model.predict_raw(X), [1.875, 2.375, 4.375, 4.375, 2.375])
    assert model.predict_raw(X).dtype == np.float64
    np.testing.assert_array_equal(model.predict(X), model.predict_raw(X))
    np.testing.assert_array_equal(make_model("lambdarank").predict(X), model.predict_raw(X))


def test_a_value_on_the_threshold_goes_left() -> None:
    rows = np.array([[1.0, 0.0], [np.nextafter(1.0, 2.0), 5.0], [2.0, np.nextafter(5.0, 6.0)]])
    assert make_model().predict_leaf(rows)[:, 0].tolist() == [0, 1, 2]


def test_binary_predictions_are_probabilities_of_the_second_class() -> None:
    model = make_model("binary")
    expected = 1.0 / (1.0 + np.exp(-2.0 * model.predict_raw(X)))  # sigmoid is 2
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-12)
    assert model.predict(X).shape == (5,)


def test_multiclass_trees_take_turns() -> None:
    model = make_model("multiclass")
    assert (model.n_outputs, model.n_iterations) == (3, 1)
    scores = model.predict_raw(X)
    np.testing.assert_array_equal(scores[0], [1.5, -0.25, 0.125])
    np.testing.assert_array_equal(scores[2], [4.5, -0.75, 0.125])
    expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-12)


def test_num_iteration() -> None:
    model = make_model()
    np.testing.assert_array_equal(model.predict_raw(X, num_iteration=0), np.full(5, 0.5))
    expected = [1.5, 2.5, 4.5, 4.5, 2.5]
    np.testing.assert_array_equal(model.predict_raw(X, num_iteration=np.int64(1)), expected)
    np.testing.assert_array_equal(model.predict_raw(X, num_iteration=3), model.predict_raw(X))
    assert model.predict_leaf(X, num_iteration=2).shape == (5, 2)
    np.testing.assert_array_equal(model.predict_raw(X, num_iteration=-1), model.predict_raw(X))
    for wrong in (-2, 4, True, 1.0, "1"):
        with pytest.raises(ParameterError, match=r"num_iteration="):
            model.predict(X, num_iteration=wrong)  # type: ignore[arg-type]


def test_predict_leaf() -> None:
    leaves = make_model().predict_leaf(X)
    assert leaves.dtype == np.int32
    expected = [[0, 0, 0], [1, 1, 0], [2, 1, 0], [2, 1, 0], [1, 1, 0]]
    np.testing.assert_array_equal(leaves, expected)


def test_best_iteration_limits_predictions() -> None:
    model = make_model(best_iteration=np.int64(1))
    np.testing.assert_array_equal(model.predict_raw(X), model.predict_raw(X, num_iteration=1))
    assert model.predict_leaf(X).shape == (5, 1)
    assert model.feature_importance("split").tolist() == [1.0, 1.0]
    cut = model.truncate()
    assert (cut.n_iterations, cut.best_iteration, len(cut.trees)) == (1, 1, 1)
    np.testing.assert_array_equal(cut.predict_raw(X), model.predict_raw(X))
    assert len(cut.to_bytes()) < len(model.to_bytes())


def test_truncate() -> None:
    model = make_model(best_iteration=2)
    assert model.forest.n_trees == 3 and model.truncate(1).forest.n_trees == 1
    assert model.truncate(1).best_iteration is None
    assert model.truncate(3).to_bytes() == model.to_bytes()
    empty = make_model("multiclass").truncate(0)
    assert empty.n_iterations == 0
    np.testing.assert_array_equal(empty.predict_raw(X), np.tile([0.5, -0.5, 0.0], (5, 1)))
    assert empty.predict_leaf(X).shape == (5, 0)
    assert empty.feature_importance().tolist() == [0.0, 0.0]
    assert len(model.trees) == 3  # the model itself stays whole


def test_feature_importance() -> None:
    model = make_model()
    assert model.feature_importance().tolist() == [16.0, 2.0]
    assert model.feature_importance("split").tolist() == [2.0, 1.0]
    assert model.feature_importance("cover").tolist() == [80.0, 30.0]  # rows that were divided
    assert model.feature_importance(importance_type="split").tolist() == [2.0, 1.0]
    assert model.feature_importance(num_iteration=0).tolist() == [0.0, 0.0]
    with pytest.raises(ParameterError, match="allowed are 'gain', 'split', 'cover'"):
        model.feature_importance("weight")
    assert model.get_score() == {"a": 2.0, "b": 1.0}
    assert model.get_score(importance_type="gain") == {"a": 8.0, "b": 2.0}
    assert model.get_score(importance_type="total_gain") == {"a": 16.0, "b": 2.0}
    assert model.get_score(importance_type="cover") == {"a": 40.0, "b": 30.0}
    assert model.get_score(importance_type="total_cover") == {"a": 80.0, "b": 30.0}


@pytest.mark.parametrize("n_jobs", [None, -1, 1, 2, 64])
def test_n_jobs_does_not_change_predictions(n_jobs: int | None) -> None:
    rows = np.random.default_rng(0).normal(size=(1000, 2)) * 5
    model = make_model("multiclass")
    expected = model.predict_raw(rows, n_jobs=1)
    np.testing.assert_array_equal(model.predict_raw(rows, n_jobs=n_jobs), expected)
    leaves = model.predict_leaf(rows, n_jobs=n_jobs)
    np.testing.assert_array_equal(leaves, model.predict_leaf(rows, n_jobs=1))


@pytest.mark.parametrize("n_jobs", [True, 1.5, "all"])
def test_wrong_n_jobs(n_jobs: Any) -> None:
    with pytest.raises(ParameterError, match="n_jobs="):
        make_model().predict(X, n_jobs=n_jobs)


def test_rows_must_fit_the_model() -> None:
    with pytest.raises(DataError):
        make_model().predict(X[:, :1])
    assert make_model().predict(X[:0]).shape == (0,)
    assert make_model("multiclass").predict(X[:0]).shape == (0, 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objective": "nope"}, "objective 'nope' is unknown"),
        ({"objective": "lambdarank", "base_score": [0.0, 1.0]}, "with 2 outputs"),
        ({"base_score": [[0.0]]}, "one dimension"),
        ({"objective": "multiclass", "base_score": [0.0]}, "with 1 outputs"),
        ({"objective": "multiclass", "base_score": [0.0, 0.0]}, "3 trees cannot be shared by 2"),
        ({"feature_names": ["a", "a"]}, "not unique"),
        ({"feature_names": ["a", 3]}, "not a string"),
        ({"feature_names": []}, "no features"),
        ({"classes": [0, 1]}, "2 classes, expected 0"),
        ({"objective": "binary", "classes": [0, 1, 2]}, "3 classes, expected 2"),
        ({"best_iteration": 4}, "best_iteration 4 is not in 1..3"),
        ({"objective": "binary", "params": {"sigmoid": -1.0}}, "not a positive number"),
        ({"params": {"learning_rate": np.float64(0.1)}}, "'learning_rate' holds a float64"),
        ({"params": {"reg_lambda": float("nan")}}, "'reg_lambda' holds nan"),
        ({"params": {1: 2}}, "the parameter name 1 is not a string"),
        ({"classes_dtype": "<i8"}, "classes_dtype without classes"),
    ],
)
def test_contradictions_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        make_model(**changes)


@pytest.mark.parametrize(
    "classes",
    [
        np.array([0, 1]),
        np.array([-3, 7], np.int8),
        np.array([3, 2**64 - 1], np.uint64),
        np.array([False, True]),
        np.array([0.1, 0.5], np.float32),
        np.array([0.0, 1.0]),
        np.array(["no", "yes"]),
        np.array(["", "ja\u1234"]),
        np.array(["no", "yes"], object),
        np.array([1, 2], ">i4"),
    ],
    ids=lambda classes: str(classes.dtype),
)
def test_classes_come_back_as_they_were(classes: np.ndarray) -> None:
    labels = Model.from_bytes(make_model("binary", classes=classes).to_bytes()).class_labels()
    assert labels is not None
    assert labels.dtype == classes.dtype.newbyteorder("=")
    assert labels.tolist() == classes.tolist()
    assert [type(label) for label in labels] == [type(label) for label in classes]


def test_with_classes() -> None:
    model = make_model("binary", best_iteration=2, info=TrainInfo(zero_rows=[7]))
    forest, named = model.forest, model.with_classes(np.array(["no", "yes"]))
    assert model.classes is None and named.classes == ["no", "yes"]
    assert named == make_model("binary", best_iteration=2, classes=["no", "yes"])
    assert named.info is model.info
    assert named.forest is forest  # nothing of the trees is made again
    assert named.with_classes([0, 1]) == make_model("binary", best_iteration=2, classes=[0, 1])
    with pytest.raises(ModelFormatError, match="3 classes, expected 2"):
        model.with_classes(["a", "b", "c"])


def test_classes_of_lists() -> None:
    model = make_model("binary", classes=list(np.array([4, 5])))
    assert (model.classes, model.classes_dtype) == ([4, 5], "<i8")
    assert make_model("binary", classes=["x", "y"]).classes_dtype == "<U"
    wide = np.array(["x", "y"], "<U50")  # the width of the column is not part of the model
    assert make_model("binary", classes=wide) == make_model("binary", classes=["x", "y"])
    assert make_model("binary").class_labels() is None


@pytest.mark.parametrize(
    "classes",
    [["a", 1], [0.0, np.nan], [0, 0], [None, "a"], [[0], [1]], np.array([0, 1], "datetime64[s]")],
    ids=str,
)
def test_labels_that_no_file_can_hold(classes: Any) -> None:
    with pytest.raises(ModelFormatError, match="class"):
        make_model("binary", classes=classes)


def test_save_and_load(tmp_path: Path) -> None:
    model = make_model("binary", classes=["no", "yes"], best_iteration=2)
    path = tmp_path / "model.bitgrove"
    model.save(path)
    back = load(str(path))
    assert path.read_bytes() == model.to_bytes() == back.to_bytes()
    assert hashlib.sha256(path.read_bytes()).hexdigest() == model.digest()
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    given = {"learning_rate": 0.1, "sigmoid": 2.0, "label_gain": [0.0, 1.0]}
    assert back.params == model.params == {**model_params(), **given}
    assert back.info is None
    assert os.listdir(tmp_path) == ["model.bitgrove"]


def test_load_says_which_file_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ModelFormatError, match=r"table\.csv: not a bitgrove model file"):
        load(path)
    path.write_bytes(make_model().to_bytes()[:-1])
    with pytest.raises(ModelFormatError, match=r"table\.csv: checksum mismatch"):
        load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_save_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "model.bitgrove"
    make_model().save(path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(model_module.os, step, fail)
    with pytest.raises(OSError, match="disk full"):
        make_model("binary").save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.bitgrove"]


def test_an_unwritable_model_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model.bitgrove"
    make_model().save(path)
    before = path.read_bytes()
    with pytest.raises(ModelFormatError, match="value is not finite"):
        make_model(trees=[make_tree([np.inf])]).save(path)
    assert path.read_bytes() == before
    with pytest.raises(FileNotFoundError):
        make_model().save(tmp_path / "missing" / "model.bitgrove")
    with pytest.raises(OSError, match=tmp_path.name):
        make_model().save(tmp_path)
    assert os.listdir(tmp_path) == ["model.bitgrove"]


@pytest.mark.skipif(os.name != "posix", reason="links and modes are those of POSIX")
def test_save_keeps_links_and_obeys_the_umask(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    link.symlink_to(real)
    old = os.umask(0o027)
    try:
        make_model().save(link)
    finally:
        os.umask(old)
    assert link.is_symlink()
    assert load(real) == make_model()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_pickle_and_copy_go_through_the_bytes() -> None:
    model = make_model("multiclass", classes=["x", "y", "z"])
    model.predict(X)
    for back in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert back.to_bytes() == model.to_bytes()
        np.testing.assert_array_equal(back.predict(X), model.predict(X))
        assert back.info is None
    assert model.to_bytes() in pickle.dumps(model)


def test_equality_is_that_of_the_bytes() -> None:
    assert make_model() == make_model()
    assert hash(make_model()) == hash(make_model())
    assert make_model() != make_model("binary")
    assert make_model() != make_model(feature_names=["a", "c"])
    assert make_model() != "model"


def test_repr_tells_what_it_is() -> None:
    text = repr(make_model(best_iteration=2))
    assert text == (
        "<bitgrove.Model regression: 3 iterations, 3 trees, 6 leaves, 2 features, best iteration 2>"
    )
    assert "3 classes" in repr(make_model("multiclass"))
