"""The scikit-learn estimators: conventions, labels, validation data, rankings, pickling."""

from __future__ import annotations

import inspect
import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import is_classifier, is_regressor
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from bitgrove.callbacks import checkpoint
from bitgrove.errors import BitgroveError, DataError, ParameterError
from bitgrove.estimators import BitGroveClassifier, BitGroveRanker, BitGroveRegressor
from bitgrove.model.model import load
from bitgrove.objectives import OBJECTIVES
from bitgrove.params import PARAMETERS

ESTIMATORS = {
    BitGroveClassifier: {name for name, o in OBJECTIVES.items() if o.is_classifier} | {"custom"},
    BitGroveRegressor: {
        name for name, o in OBJECTIVES.items() if not o.is_classifier and not o.needs_queries
    },
    BitGroveRanker: {name for name, o in OBJECTIVES.items() if o.needs_queries},
}


def fit(cls: type, X: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
    """A small fitted estimator; keyword arguments go to fit or to __init__, wherever they fit."""
    fit_names = set(inspect.signature(cls.fit).parameters)
    for_fit = {name: kwargs.pop(name) for name in list(kwargs) if name in fit_names}
    if cls is BitGroveRanker:
        sizes = ["group", *(["eval_group"] if "eval_set" in for_fit else [])]
        for_fit = {**{name: [len(y)] for name in sizes}, **for_fit}
    return cls(**{"n_estimators": 5, "n_jobs": 1, **kwargs}).fit(X, y, *args, **for_fit)


@pytest.fixture
def cancer() -> Any:
    return load_breast_cancer(return_X_y=True)


@pytest.fixture
def iris() -> Any:
    return load_iris(return_X_y=True)


@pytest.fixture
def diabetes() -> Any:
    return load_diabetes(return_X_y=True)


@parametrize_with_checks([BitGroveClassifier(n_jobs=1), BitGroveRegressor(n_jobs=1)])
def test_scikit_learn_conventions(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_signature_is_the_table(cls: type) -> None:
    shown = [p for p in PARAMETERS if p.type != "callable"]
    expected = {p.name: p.default for p in shown if set(p.objectives) & ESTIMATORS[cls]}
    expected |= {"importance_type": "gain", "warm_start": False, "validation_fraction": None}
    expected["categorical_features"] = "auto"
    if cls is BitGroveClassifier:
        expected["class_weight"] = None
    signature = inspect.signature(cls).parameters
    assert {name: p.default for name, p in signature.items()} == expected
    assert list(signature) == list(expected)
    assert all(p.kind is p.KEYWORD_ONLY for p in signature.values())
    assert cls().get_params() == expected


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_init_only_stores(cls: type) -> None:
    strange = {name: object() for name in inspect.signature(cls).parameters}
    assert vars(cls(**strange)) == vars(cls().set_params(**strange)) == strange


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_parameters_are_checked_in_fit(cls: type) -> None:
    X, y = np.arange(40.0).reshape(-1, 1), np.arange(40) % 2
    for bad in ({"num_leaves": 1}, {"learning_rate": "fast"}, {"importance_type": "w"}):
        name, value = next(iter(bad.items()))
        with pytest.raises(ParameterError, match=f"{name}={value!r}"):
            cls(**bad).fit(X, y)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_not_fitted(cls: type) -> None:
    assert is_classifier(cls()) == (cls is BitGroveClassifier)
    assert is_regressor(cls()) == (cls is BitGroveRegressor)
    with pytest.raises(NotFittedError):
        _ = cls().feature_importances_


def test_learning(cancer: Any, iris: Any, diabetes: Any) -> None:
    settings = {"n_estimators": 30, "n_jobs": 1}
    classifier, regressor = BitGroveClassifier(**settings), BitGroveRegressor(**settings)
    assert cross_val_score(classifier, *cancer, cv=3).mean() > 0.93
    assert cross_val_score(classifier, *iris, cv=3).mean() > 0.9
    assert cross_val_score(regressor, *diabetes, cv=3).mean() > 0.3
    X, y = cancer
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.3, np.nan, X)
    assert cross_val_score(classifier, X, y, cv=3).mean() > 0.9


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [(map(np.str_, "ny"), "O"), ((False, True), "?"), ((-3, 12), "i2"), ((0, 2), "f4")],
)
def test_labels_of_any_type(cancer: Any, labels: Any, dtype: str) -> None:
    X, y = cancer
    names = np.array(list(labels), dtype)
    plain = fit(BitGroveClassifier, X, y)
    named = fit(BitGroveClassifier, X, names[y])
    assert named.classes_.dtype == names.dtype
    assert named.classes_.tolist() == names.tolist() and named.n_classes_ == 2
    assert named.predict(X).dtype == names.dtype
    np.testing.assert_array_equal(named.predict(X), names[plain.predict(X)])
    np.testing.assert_array_equal(named.predict_proba(X), plain.predict_proba(X))
    assert named.score(X, names[y]) == plain.score(X, y) > 0.9


@pytest.mark.parametrize(
    ("dtype", "stored"), [("Int64", "i8"), ("boolean", "?"), ("int64[pyarrow]", "i8")]
)
def test_labels_of_nullable_types(cancer: Any, dtype: str, stored: str) -> None:
    """Without missing ones they stay what they are: floats cannot tell large numbers apart."""
    X, y = cancer
    names = np.array([False, True]) if stored == "?" else 2**60 + np.arange(2)
    given = pd.Series(names[y], dtype=dtype)
    named = fit(BitGroveClassifier, X, given, eval_set=[(X, given)])
    assert named.classes_.dtype == stored and named.classes_.tolist() == names.tolist()
    assert np.array_equal(named.predict(X), names[fit(BitGroveClassifier, X, y).predict(X)])
    frame = fit(BitGroveClassifier, X, given.to_frame())
    assert frame.classes_.tolist() == names.tolist()
    given[3] = pd.NA
    with pytest.raises((DataError, ValueError), match=r"NaN|no label in"):
        fit(BitGroveClassifier, X, given)


def test_many_classes(iris: Any) -> None:
    X, y = iris
    names = np.array(["setosa", "versicolor", "virginica"])
    fitted = fit(BitGroveClassifier, X, names[y])
    probabilities, scores = fitted.predict_proba(X), fitted.decision_function(X)
    assert probabilities.shape == scores.shape == (150, 3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(fitted.predict(X), names[scores.argmax(axis=1)])
    np.testing.assert_array_equal(fitted.predict(X), names[probabilities.argmax(axis=1)])
    assert fitted.model_.objective == "multiclass" and fitted.n_iter_ == 5


def test_two_class_outputs(cancer: Any) -> None:
    X, y = cancer
    fitted = fit(BitGroveClassifier, X, y, sigmoid=2.0)
    probabilities, scores = fitted.predict_proba(X), fitted.decision_function(X)
    assert probabilities.shape == (len(y), 2) and scores.shape == (len(y),)
    np.testing.assert_allclose(probabilities[:, 1], 1 / (1 + np.exp(-2 * scores)), rtol=1e-6)
    np.testing.assert_array_equal(fitted.predict(X), (probabilities[:, 1] > 0.5).astype(y.dtype))
    assert fitted.model_.objective == "binary"


def test_a_class_without_weight_is_no_class(iris: Any) -> None:
    X, y = iris
    weight = (y != 1).astype(float)
    weighted = fit(BitGroveClassifier, X, y, weight)
    removed = fit(BitGroveClassifier, X[y != 1], y[y != 1])
    assert weighted.classes_.tolist() == [0, 2]
    assert weighted.model_.to_bytes() == removed.model_.to_bytes()


def test_targets_that_cannot_be_learned() -> None:
    X, y = np.arange(30.0).reshape(-1, 1), np.arange(30)
    for one, weight in ((np.full(30, "a"), None), (y % 2, y % 2)):
        with pytest.raises(DataError, match=r"y holds 1 class .*; 2 are needed"):
            BitGroveClassifier().fit(X, one, weight)
    with pytest.raises(ValueError, match="Unknown label type"):
        BitGroveClassifier().fit(X, y + 0.5)
    with pytest.raises(DataError, match="labels of type datetime64"):
        BitGroveClassifier().fit(X, np.array(["2020-02-02", "2021-01-01"], "M8[D]")[y % 2])
    with pytest.raises(DataError, match="y must hold numbers"):
        BitGroveRegressor().fit(X, np.full(30, "a"))


def test_the_saved_model_knows_its_labels(cancer: Any, tmp_path: Any) -> None:
    X, y = cancer
    fitted = fit(BitGroveClassifier, X, np.array(["benign", "malign"])[y])
    path = tmp_path / "cancer.bitgrove"
    fitted.model_.save(path)
    loaded = load(path)
    assert loaded.classes == ["benign", "malign"]
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict_proba(X)[:, 1])
    assert fit(BitGroveRegressor, X, y).model_.classes is None


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_pickling_goes_through_the_model_file(cls: type, cancer: Any, tmp_path: Any) -> None:
    X, y = cancer
    fitted = fit(cls, X, y, eval_set=(X, y))
    data = pickle.dumps(fitted)
    assert fitted.model_.to_bytes() in data
    joblib.dump(fitted, tmp_path / "fitted.joblib")
    for back in (pickle.loads(data), joblib.load(tmp_path / "fitted.joblib")):
        assert back.model_.to_bytes() == fitted.model_.to_bytes()
        assert back.get_params() == fitted.get_params()
        assert back.evals_result_ == fitted.evals_result_ and back.n_iter_ == fitted.n_iter_ == 5
        np.testing.assert_array_equal(back.predict(X), fitted.predict(X))


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pd", "pl", "pa"])
def test_data_frames(table: Any, cancer: Any) -> None:
    X, y = cancer
    columns = {f"column {i}": values for i, values in enumerate(X.T)}
    fitted = fit(BitGroveClassifier, table(columns), y, eval_set=(table(columns), y))
    assert fitted.feature_names_in_.tolist() == list(columns) == fitted.model_.feature_names
    assert fitted.n_features_in_ == X.shape[1]
    scores = fitted.decision_function(table(columns))
    np.testing.assert_array_equal(scores, fit(BitGroveClassifier, X, y).decision_function(X))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        np.testing.assert_array_equal(scores, fitted.decision_function(X))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        mixed = fit(BitGroveClassifier, table(columns), y, eval_set=(X, y))
    assert mixed.evals_result_ == fitted.evals_result_
    with pytest.raises(ValueError, match=r"feature names|training columns"):
        fitted.predict(table(dict(reversed(columns.items()))))


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_sparse_is_the_same_as_dense(kind: Any, cancer: Any) -> None:
    X, y = cancer
    X = np.where(np.median(X, axis=0) > X, 0, X)
    dense, from_sparse = fit(BitGroveClassifier, X, y), fit(BitGroveClassifier, kind(X), y)
    assert from_sparse.model_.to_bytes() == dense.model_.to_bytes()
    np.testing.assert_array_equal(from_sparse.predict_proba(kind(X)), dense.predict_proba(X))


def test_random_state(cancer: Any) -> None:
    def digest(random_state: Any) -> str:
        fitted = fit(BitGroveClassifier, *cancer, random_state=random_state, gradient_bits=2)
        return str(fitted.model_.digest())

    assert digest(None) == digest(0) == digest(np.int64(0)) != digest(1)
    for make in (np.random.RandomState, np.random.default_rng):
        stream = make(5)
        assert digest(stream) == digest(make(5)) != digest(stream)
    with pytest.raises(ParameterError, match="random_state='x'"):
        digest("x")


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_threads_never_change_the_model(cls: type, cancer: Any) -> None:
    digests = {fit(cls, *cancer, n_jobs=n_jobs).model_.digest() for n_jobs in (1, 2, None, -1)}
    assert len(digests) == 1


def test_feature_importances(cancer: Any) -> None:
    X, y = cancer
    X = np.column_stack([X, np.zeros(len(y))])
    for kind in ("gain", "split", "cover"):
        fitted = fit(BitGroveClassifier, X, y, importance_type=kind)
        importance = fitted.feature_importances_
        raw = fitted.model_.feature_importance(kind)
        np.testing.assert_allclose(importance, raw / raw.sum())
        assert importance.shape == (31,) and importance[-1] == 0 and importance.sum() > 0
    unsplit = fit(BitGroveClassifier, np.zeros((50, 2)), np.arange(50) % 2)
    assert unsplit.feature_importances_.tolist() == [0, 0]


def test_early_stopping(diabetes: Any) -> None:
    X, y = diabetes
    fitted = BitGroveRegressor(n_estimators=500, early_stopping_rounds=5).fit(
        X[:300], y[:300], eval_set=(X[300:], y[300:]), eval_names=["held out"]
    )
    curve = fitted.evals_result_["held out"]["rmse"]
    best = int(np.argmin(curve)) + 1
    assert fitted.best_iteration_ == fitted.n_iter_ == best < 500
    residual = fitted.predict(X[300:]) - y[300:]
    np.testing.assert_allclose(np.sqrt(np.mean(residual**2)), min(curve))
    np.testing.assert_allclose(fitted.best_score_["held out"]["rmse"], min(curve))


def test_without_validation_data(diabetes: Any) -> None:
    with pytest.raises(ParameterError, match="early_stopping_rounds=5 needs validation data"):
        BitGroveRegressor(early_stopping_rounds=5).fit(*diabetes)
    fitted = fit(BitGroveRegressor, *diabetes)
    assert fitted.evals_result_ == {} and fitted.best_score_ == {}
    assert fitted.best_iteration_ is None and fitted.n_iter_ == 5


def test_eval_sets_in_all_forms(iris: Any) -> None:
    X, y = iris
    names = np.array(["a", "b", "c"])[y]
    weight = np.where(y == 0, 3.0, 1.0)

    def curves(eval_set: Any, **rest: Any) -> list[Any]:
        fitted = fit(BitGroveClassifier, X, names, eval_set=eval_set, **rest)
        return list(fitted.evals_result_.values())

    one = curves((X, names))
    assert one == curves([(X, names)]) == curves([[X.tolist(), names.tolist()]])
    assert len(one) == 1 and len(one[0]["multi_logloss"]) == 5
    weighted = curves((X, names), eval_sample_weight=weight)
    assert weighted == curves([(X, names)], eval_sample_weight=[weight]) != one
    assert weighted == curves((X, names), eval_sample_weight=list(weight))
    for pairs in ([(X, names)] * 2, ((X, names), (X, names))):
        assert curves(pairs, eval_sample_weight=[None, weight]) == one + weighted


def test_training_rows_may_be_judged_with_other_queries_and_scores(iris: Any) -> None:
    """The same X and y are the training set itself only if nothing else is said of them."""
    X, y = iris
    sizes = [30, 120]

    def ndcg(**more: Any) -> Any:
        model = BitGroveRanker(n_estimators=3, metric="ndcg@5", n_jobs=1)
        model.fit(X, y, group=sizes, eval_set=[(X, y)], **more)
        return model.evals_result_["valid_0" if more else "training"]["ndcg@5"]

    assert ndcg() != ndcg(eval_group=[[150]])
    with pytest.raises(DataError, match="1000"):
        ndcg(eval_group=[[1000]])

    def errors(train: Any, **more: Any) -> Any:
        model = BitGroveRegressor(n_estimators=3, n_jobs=1)
        model.fit(X, y, init_score=train, eval_set=[(X, y)], **more)
        (curves,) = model.evals_result_.values()
        return curves["rmse"]

    start = np.full(len(y), 7.0)
    assert errors(start) == errors(start, eval_init_score=[start])
    assert errors(start)[0] < errors(start, eval_init_score=[start + 10.0])[0]
    with pytest.raises(DataError, match="init_score"):
        errors(None, eval_init_score=[start])


def test_eval_set_mistakes(iris: Any) -> None:
    X, y = iris
    two = y < 2
    with pytest.raises(DataError, match="eval_set has classes that the training data has not: 2"):
        fit(BitGroveClassifier, X[two], y[two], eval_set=(X, y))
    with pytest.raises(DataError, match=r"eval_set has classes .*'0', '1'"):
        fit(BitGroveClassifier, X[two], y[two], eval_set=(X[two], y[two].astype(str)))
    for pairs in ([(X, y, y)], X):
        with pytest.raises(DataError, match="must be a pair"):
            fit(BitGroveClassifier, X, y, eval_set=pairs)
    with pytest.raises(DataError, match="eval_sample_weight has 1 members for 2 pairs"):
        fit(BitGroveClassifier, X, y, eval_set=[(X, y)] * 2, eval_sample_weight=[None])
    with pytest.raises(ValueError, match="expecting 4 features"):
        fit(BitGroveClassifier, X, y, eval_set=(X[:, :2], y))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fit(BitGroveClassifier, X, y, eval_set=(X, y[:-1]))


def test_bad_weights(iris: Any) -> None:
    for bad in (-np.ones(150), np.full(150, np.nan), np.zeros(150)):
        with pytest.raises(BitgroveError, match="weight"):
            fit(BitGroveClassifier, *iris, bad)


def test_fit_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    X, y = load_iris(return_X_y=True)
    path = tmp_path / "checkpoint.bitgrove"
    BitGroveClassifier(n_estimators=2).fit(X, y, callbacks=[checkpoint(path, every=1)])
    resumed = BitGroveClassifier(n_estimators=5).fit(X, y, resume_from=path)
    assert resumed.model_ == BitGroveClassifier(n_estimators=5).fit(X, y).model_
    with pytest.raises(ParameterError, match="num_leaves=7: the checkpoint was trained with 31"):
        BitGroveClassifier(n_estimators=5, num_leaves=7).fit(X, y, resume_from=path)
