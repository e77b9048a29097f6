"""Several labels of a row in one classifier, as scikit-learn has them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as sk
from sklearn.datasets import make_multilabel_classification
from sklearn.model_selection import cross_val_score
from sklearn.multioutput import MultiOutputClassifier

import bitgrove as bg

X, Y = make_multilabel_classification(400, n_features=8, n_classes=3, random_state=0)
FAST: dict[str, Any] = {"n_estimators": 10, "num_leaves": 7, "n_jobs": 1}


def test_each_label_is_learnt_as_on_its_own() -> None:
    """In full precision: the noise of rounding differs from tree to tree."""
    model = bg.BitGroveClassifier(**FAST, gradient_bits=None).fit(X, Y)
    single = MultiOutputClassifier(bg.BitGroveClassifier(**FAST, gradient_bits=None)).fit(X, Y)
    expected = np.column_stack([p[:, 1] for p in single.predict_proba(X)])
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(X), single.predict(X))
    assert model.score(X, Y) == sk.accuracy_score(Y, model.predict(X))


def test_shapes_and_types() -> None:
    for dtype in (np.int64, np.int8, bool, np.float64):
        model = bg.BitGroveClassifier(**FAST).fit(X, Y.astype(dtype))
        assert model.predict(X).dtype == dtype and model.predict(X).shape == Y.shape
        assert [c.tolist() for c in model.classes_] == [[0, 1]] * 3 and model.n_classes_ == [2] * 3
    assert model.predict_proba(X).shape == model.decision_function(X).shape == Y.shape
    np.testing.assert_array_equal(model.predict(X), model.predict_proba(X) > 0.5)
    *_, last = model.staged_predict_proba(X)
    np.testing.assert_array_equal(last, model.predict_proba(X))
    assert len(list(model.staged_predict(X))) == 10


def test_it_is_the_model_of_train(tmp_path: Path) -> None:
    model = bg.BitGroveClassifier(**FAST).fit(X, Y)
    trained = bg.train({"objective": "binary", **FAST}, bg.Dataset(X, Y))
    assert model.model_.with_classes([0, 1]).digest() == trained.with_classes([0, 1]).digest()
    model.save_model(tmp_path / "labels.bitgrove")
    loaded = bg.BitGroveClassifier.from_model(tmp_path / "labels.bitgrove")
    assert bg.verify(model.model_, X, Y)
    for again in (loaded, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert again.n_classes_ == [2, 2, 2]


@pytest.mark.parametrize("scoring", ["accuracy", "f1_macro", "roc_auc", "average_precision"])
def test_scorers(scoring: str) -> None:
    found = cross_val_score(bg.BitGroveClassifier(**FAST), X, Y, scoring=scoring, cv=2)
    assert np.isfinite(found).all() and found.mean() > 0.3


def test_metrics_and_early_stopping() -> None:
    names = ["logloss", "auc", "f1", "hamming_loss", "subset_accuracy"]
    model = bg.BitGroveClassifier(**{**FAST, "n_estimators": 60}, early_stopping_rounds=5)
    model.fit(X[:300], Y[:300], eval_set=(X[300:], Y[300:]), eval_metric=names)
    found, p, y = model.best_score_["valid_0"], model.predict_proba(X[300:]), Y[300:]
    assert found["auc"] == pytest.approx(sk.roc_auc_score(y, p))
    assert found["f1"] == pytest.approx(sk.f1_score(y, p > 0.5, average="macro"))
    assert found["error"] == pytest.approx(sk.hamming_loss(y, p > 0.5))
    assert found["subset_accuracy"] == pytest.approx(sk.accuracy_score(y, p > 0.5))
    held = bg.BitGroveClassifier(**FAST, early_stopping_rounds=3, validation_fraction=0.2)
    assert held.fit(X, Y).best_iteration_ is not None


def test_focal_takes_labels_too() -> None:
    model = bg.BitGroveClassifier(**FAST, objective="focal").fit(X, Y)
    assert sk.roc_auc_score(Y, model.predict_proba(X)) > 0.8


def test_what_is_no_label() -> None:
    fit = bg.BitGroveClassifier(**FAST).fit
    for bad in (Y + 1, Y * 0.5, np.array([["a", "b"]] * len(X))):
        with pytest.raises(bg.DataError, match="columns: each is a label, 0 or 1"):
            fit(X, bad)
    with pytest.raises(bg.DataError, match="y must have 3 columns"):
        fit(X, Y, eval_set=(X, Y[:, 0]))
    with pytest.raises(bg.DataError, match="y has 3 columns, that of the training one"):
        fit(X, Y[:, 0], eval_set=(X, Y))
    with pytest.raises(bg.ParameterError, match="objective='multiclass' takes one column of y"):
        bg.BitGroveClassifier(**FAST, objective="multiclass").fit(X, Y)
    with pytest.raises(bg.ParameterError, match="class_weight='balanced': y has 3 columns"):
        bg.BitGroveClassifier(**FAST, class_weight="balanced").fit(X, Y)
