"""What a user meets at the doors: keywords, messages, files, lazy tables."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pa_dataset
import pyarrow.parquet as pa_parquet
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import train_test_split

import bitgrove as bg
from bitgrove.errors import DataError, ParameterError, UnknownParameterError
from bitgrove.params import resolve
from bitgrove.plotting import plot_importance, plot_metric

X, Y = load_breast_cancer(return_X_y=True)
XTR, XVA, YTR, YVA = train_test_split(X, Y, test_size=0.3, random_state=0)
SMALL = {"n_estimators": 5, "n_jobs": 1}


def small(**params: Any) -> bg.BitGroveClassifier:
    return bg.BitGroveClassifier(**{**SMALL, **params})


def test_the_training_data_among_the_eval_sets_stops_nothing() -> None:
    def best(*sets: Any, **names: Any) -> bg.BitGroveClassifier:
        estimator = small(n_estimators=60, early_stopping_rounds=3, learning_rate=0.3)
        return estimator.fit(XTR, YTR, eval_set=list(sets), **names)

    first, last = best((XTR, YTR), (XVA, YVA)), best((XVA, YVA), (XTR, YTR))
    assert first.best_iteration_ == last.best_iteration_ < 60
    assert list(first.evals_result_) == ["training", "valid_1"]
    named = best((XTR, YTR), (XVA, YVA), eval_names=["a", "b"])
    assert list(named.evals_result_) == ["a", "b"]
    assert named.best_iteration_ == first.best_iteration_


def test_the_progress_bar_shows_what_decides(capsys: pytest.CaptureFixture[str]) -> None:
    small(progress=True).fit(XTR, YTR, eval_set=[(XTR, YTR), (XVA, YVA)])
    assert "valid_1 logloss" in capsys.readouterr().err


def test_plots_after_unpickling() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    fitted = pickle.loads(pickle.dumps(small().fit(XTR, YTR, eval_set=(XVA, YVA))))
    assert len(plot_metric(fitted).lines) == 1
    assert len(plot_importance(fitted, max_num_features=3, importance_type="split").patches) == 3


def test_a_dataset_is_predicted_as_its_table() -> None:
    model = small().fit(X, Y).model_
    np.testing.assert_array_equal(model.predict(bg.Dataset(X, Y)), model.predict(X))
    with pytest.raises(DataError, match="columns differ from training: missing"):
        model.predict(bg.Dataset(X[:, :2]))


def test_negative_weights_are_called_negative() -> None:
    with pytest.raises(DataError, match="must not be negative, got -1"):
        small().fit(X, Y, sample_weight=-np.ones(len(Y)))
    with pytest.raises(DataError, match="weights are zero"):
        small().fit(X, Y, sample_weight=np.zeros(len(Y)))


def test_a_class_that_does_not_occur() -> None:
    iris, labels = load_iris(return_X_y=True)
    with pytest.raises(DataError, match=r"class 0 does not occur.*or give num_class"):
        bg.train({"objective": "multiclass"}, bg.Dataset(iris, labels + 1), 2)
    given = bg.train({"objective": "multiclass", "num_class": 4}, bg.Dataset(iris, labels + 1), 2)
    assert given.n_outputs == 4


def test_trees_without_a_split_are_announced() -> None:
    with pytest.warns(UserWarning, match="min_child_samples=20 rows, and there are 30"):
        small().fit(X[:30], Y[:30])
    with pytest.warns(UserWarning, match="no feature tells the rows apart"):
        small().fit(np.zeros((100, 2)), np.arange(100) % 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small().fit(X, Y)


def test_all_problems_at_once() -> None:
    with pytest.raises(ParameterError) as caught:
        resolve({"num_leaves": 1, "foo": 2, "eta": -1, "boosting": "gblinear"})
    words = str(caught.value)
    assert words.startswith("4 problems:")
    assert all(part in words for part in ("num_leaves=1", "'foo'", "learning_rate=-1", "gblinear"))
    frame = pd.DataFrame(X[:, :3], columns=list("abc")).assign(
        d=pd.Timestamp("2020-01-01"), e=pd.Timedelta(1)
    )
    with pytest.raises(ValueError, match="problems") as caught_all:
        small(num_leaves=1).fit(frame, Y)
    words = str(caught_all.value)
    assert all(part in words for part in ("num_leaves=1", "'d'", "'e'"))
    with pytest.raises(ValueError, match="problems") as of_data:
        bg.Dataset(frame, Y[:3], weight=-np.ones(len(Y)))
    words = str(of_data.value)
    assert all(part in words for part in ("'d'", "'e'", "label has 3", "must not be negative"))


def test_unknown_arguments_of_an_estimator() -> None:
    for wrong in ({"num_leavs": 3}, {"lambdarank_norm": True}):
        with pytest.raises(UnknownParameterError, match="BitGroveClassifier"):
            bg.BitGroveClassifier(**wrong)
        assert issubclass(UnknownParameterError, TypeError)
    with pytest.raises(ParameterError, match="'n_estimators' and 'num_trees' are the same"):
        bg.BitGroveClassifier(n_estimators=3, num_trees=4)
    with pytest.raises(
        UnknownParameterError, match=r"BitGroveClassifier\.fit: unknown param.*'foo'"
    ):
        small().fit(X, Y, foo=1)
    with pytest.raises(ValueError, match="Invalid parameter 'foo'"):
        small().set_params(foo=1)
    assert small(eta=0.5).set_params(lambda_l2=2).get_params()["reg_lambda"] == 2


def test_objectives_of_estimators() -> None:
    assert small(objective="binary:logistic").fit(X, Y).model_ == small().fit(X, Y).model_
    iris, labels = load_iris(return_X_y=True)
    three = small(objective="multi:softprob", num_class=3).fit(iris, labels)
    assert three.model_ == small().fit(iris, labels).model_
    for wrong, message in (
        ({"objective": "regression"}, "objective='regression': BitGroveClassifier takes 'binary'"),
        ({"objective": "binary"}, "objective='binary' is for two classes, y has 3"),
        ({"num_class": 5}, "num_class=5: y has 3 classes"),
    ):
        with pytest.raises(ParameterError) as caught:
            small(**wrong).fit(iris, labels)
        assert message in str(caught.value)


def test_files_become_estimators_again(tmp_path: Path) -> None:
    labels = np.array(["no", "yes"])[Y]
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])
    fitted = small(num_leaves=7, learning_rate=0.2).fit(frame, labels)
    fitted.save_model(tmp_path / "model")
    back = bg.BitGroveClassifier.from_model(tmp_path / "model")
    assert back.classes_.tolist() == ["no", "yes"] and back.n_features_in_ == 30
    assert back.feature_names_in_.tolist() == list(frame.columns)
    assert (back.num_leaves, back.learning_rate) == (7, 0.2)
    np.testing.assert_array_equal(back.predict(frame), fitted.predict(frame))
    np.testing.assert_array_equal(back.predict_proba(frame), fitted.predict_proba(frame))
    assert small().load_model(fitted.model_).model_ == fitted.model_
    with pytest.raises(ParameterError, match="'binary' cannot become a BitGroveRegressor"):
        bg.BitGroveRegressor.from_model(tmp_path / "model")
    with pytest.raises(ValueError, match="feature names"):
        back.predict(frame[frame.columns[::-1]])
    bare = bg.BitGroveClassifier.from_model(small().fit(X, Y).model_)
    assert not hasattr(bare, "feature_names_in_") and bare.predict(X).dtype == Y.dtype


def test_lazy_tables(tmp_path: Path) -> None:
    frame = pl.DataFrame({f"c{i}": X[:, i] for i in range(5)})
    table = frame.to_arrow()
    pa_parquet.write_table(table, tmp_path / "t.parquet")
    expected = small().fit(frame, Y)
    lazies = [
        lambda: frame.lazy(),
        lambda: pa.RecordBatchReader.from_batches(table.schema, table.to_batches()),
        lambda: pa_dataset.dataset(tmp_path / "t.parquet"),
        lambda: pa_parquet.ParquetFile(tmp_path / "t.parquet"),
    ]
    for lazy in lazies:
        assert small().fit(lazy(), Y).model_ == expected.model_
        np.testing.assert_array_equal(expected.predict(lazy()), expected.predict(frame))
        np.testing.assert_array_equal(
            expected.model_.predict(lazy()), expected.model_.predict(frame)
        )
        assert bg.Dataset(lazy(), Y).feature_names == list(frame.columns)


@pytest.mark.parametrize("cls", [bg.BitGroveClassifier, bg.BitGroveRegressor, bg.BitGroveRanker])
def test_docstrings_explain_every_parameter(cls: Any) -> None:
    for parameter in cls.parameters.values():
        assert f"\n{parameter.name} : " in cls.__doc__
        assert parameter.doc.split(". ")[0].split()[0] in cls.__doc__
    others = {"binary", "regression", "lambdarank"} - set(cls.parameters["objective"].choices)
    assert len(others) == 2 and "objective : one of" in cls.__doc__


def test_short_reprs() -> None:
    data = bg.Dataset(X, Y, weight=np.ones(len(Y)))
    assert repr(data) == "<bitgrove.Dataset 569 rows, 30 features, with label, weight>"
    model = bg.train({"objective": "binary"}, data, 3, valid_sets=[data])
    assert repr(model.info).startswith("<bitgrove.TrainInfo 3 trees, bin ")
    assert "judged on training" in repr(model.info)


def test_names_and_references() -> None:
    names = [f"n{i}" for i in range(30)]
    train_set = bg.Dataset(X, Y, feature_name=names)
    valid = bg.Dataset(X[:50], Y[:50], reference=train_set)
    assert train_set.feature_names == valid.feature_names == names
    bg.train({"objective": "binary"}, train_set, 2, valid_sets=valid)
    assert small().fit(X, Y, feature_name=names).model_.feature_names == names
    assert bg.Dataset(X, Y, feature_name="auto").feature_names[0] == "f0"
    with pytest.raises(DataError, match="29 features, the reference has 30"):
        bg.Dataset(X[:, :29], Y, reference=train_set)
    with pytest.raises(DataError, match="give one of them"):
        bg.Dataset(X, Y, feature_name=names, feature_names=names)
    sized, by_id = bg.Dataset(X[:4], [0, 1, 0, 1], group=[2, 2]), None
    by_id = bg.Dataset(X[:4], [0, 1, 0, 1], qid=[7, 7, 3, 3])
    assert by_id.group is not None and sized.group is not None
    assert by_id.group.tolist() == sized.group.tolist()


def test_keywords_of_predict() -> None:
    fitted = small().fit(X, Y)
    model = fitted.model_
    raw = model.predict_raw(X)
    np.testing.assert_array_equal(model.predict(X, raw_score=True), raw)
    np.testing.assert_array_equal(fitted.predict(X, raw_score=True), raw)
    np.testing.assert_array_equal(fitted.predict_proba(X, raw_score=True), raw)
    np.testing.assert_array_equal(fitted.predict(X, pred_leaf=True), model.predict_leaf(X))
    two = fitted.predict_proba(X, num_iteration=2)[:, 1]
    np.testing.assert_array_equal(two, model.predict(X, num_iteration=2))
    base = float(model.base_score[0])
    rest = model.predict(X, raw_score=True, start_iteration=2)
    np.testing.assert_allclose(raw, model.predict_raw(X, num_iteration=2) + rest - base)
    np.testing.assert_array_equal(rest, model[2:].predict_raw(X))
    assert model.predict(X, pred_leaf=True, start_iteration=1, num_iteration=2).shape[1] == 2
    assert model.predict_raw(X, start_iteration=5).tolist() == [base] * len(X)
    for wrong in (-1, 6, True, 1.5):
        with pytest.raises(ParameterError, match="start_iteration="):
            model.predict(X, start_iteration=wrong)
    for wrong in (3, slice(None, None, 2)):
        with pytest.raises(ParameterError, match="neighbouring"):
            _ = model[wrong]


def test_stages() -> None:
    fitted = small().fit(X, Y)
    stages = list(fitted.model_.staged_predict(X))
    assert len(stages) == 5
    for i, (stage, labels, proba) in enumerate(
        zip(stages, fitted.staged_predict(X), fitted.staged_predict_proba(X), strict=True)
    ):
        np.testing.assert_array_equal(stage, fitted.model_.predict(X, num_iteration=i + 1))
        np.testing.assert_array_equal(labels, fitted.predict(X, num_iteration=i + 1))
        np.testing.assert_array_equal(proba[:, 1], stage)
    iris, labels3 = load_iris(return_X_y=True)
    three = small().fit(iris, labels3)
    *_, last = three.staged_decision_function(iris)
    np.testing.assert_array_equal(last, three.decision_function(iris))
    values = bg.BitGroveRegressor(**SMALL).fit(iris, labels3)
    *_, last = values.staged_predict(iris)
    np.testing.assert_array_equal(last, values.predict(iris))


def test_parameters_as_keywords_of_train() -> None:
    data, valid = bg.Dataset(XTR, YTR), bg.Dataset(XVA, YVA)
    params = {"objective": "binary", "learning_rate": 0.3}
    by_dict = {**params, "n_estimators": 40, "early_stopping_rounds": 3}
    expected = bg.train(by_dict, data, valid_sets=valid)
    asked = bg.train(params, data, num_boost_round=40, early_stopping_rounds=3, valid_sets=valid)
    assert asked == expected
    assert bg.train(resolve(params), data, 40, early_stopping_rounds=3, valid_sets=valid) == asked
    for wrong, message in (
        ({"num_boost_round": 3, "n_estimators": 4}, "are the same parameter"),
        ({"learning_rate": 0.1}, "'learning_rate' is given twice"),
        ({"foo": 0.1}, "unknown parameter 'foo'"),
        ({"evals": [(valid, "a")], "valid_sets": [valid]}, "evals and valid_sets are the same"),
        ({"init_model": expected, "xgb_model": expected}, "give one of them"),
        ({"init_model": expected, "resume_from": expected}, "exclude each other"),
    ):
        with pytest.raises(ParameterError, match=message):
            bg.train(params, data, **wrong)


def test_threads_may_be_counted_from_all() -> None:
    digests = {small(n_jobs=n).fit(X, Y).model_.digest() for n in (0, -2, -100, 1)}
    assert len(digests) == 1
    model = small().fit(X, Y).model_
    np.testing.assert_array_equal(model.predict(X, n_jobs=-2), model.predict(X))


@pytest.mark.parametrize("kind", [pl.DataFrame, pa.table, pd.DataFrame])
def test_names_of_any_table_are_learnt(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where scikit-learn sees those of pandas alone, as its version for Python 3.10 does."""
    from sklearn.utils import validation

    found = validation._get_feature_names
    monkeypatch.setattr(
        validation, "_get_feature_names", lambda X: found(X) if hasattr(X, "iloc") else None
    )
    X = kind({"a": np.arange(60.0), "b": np.arange(60.0)[::-1].copy()})
    fitted = bg.BitGroveRegressor(n_estimators=2).fit(X, np.arange(60))
    assert (fitted.n_features_in_, list(fitted.feature_names_in_)) == (2, ["a", "b"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(fitted.predict(X)) == 60
    with pytest.raises(ValueError, match=r"columns differ|feature names"):
        fitted.predict(kind({"a": [1.0], "c": [2.0]}))
