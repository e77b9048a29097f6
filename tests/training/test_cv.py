"""Cross-validation: folds, shared bins, early stopping on the mean, results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, TimeSeriesSplit

import bitgrove as bg
from bitgrove.errors import DataError, ParameterError
from cases import signal, table

X, Y = load_breast_cancer(return_X_y=True)
PARAMS = {"objective": "binary", "metric": ["auc", "logloss"], "n_jobs": 1, "num_leaves": 7}


def test_the_mean_is_that_of_the_folds() -> None:
    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, Y))
    data = bg.Dataset(X, Y)
    result = bg.cv(PARAMS, data, 6, nfold=3)
    assert set(result) == {
        "valid auc-mean", "valid auc-stdv", "valid logloss-mean", "valid logloss-stdv",
    }  # fmt: skip
    assert len(result["valid auc-mean"]) == 6 and result.best_iteration is None
    scores = [
        roc_auc_score(Y[test], model.predict(X[test]))
        for model, (_, test) in zip(result.cvbooster, folds, strict=True)
    ]
    assert result["valid auc-mean"][-1] == pytest.approx(np.mean(scores))
    assert result["valid auc-stdv"][-1] == pytest.approx(np.std(scores))
    assert bg.cv(PARAMS, data, 6, folds=folds) == result
    frame = result.to_frame()
    assert frame.shape == (6, 4) and list(frame.columns) == list(result)


def test_folds_share_the_bins_of_all_rows() -> None:
    few = [(np.arange(60), np.arange(60, 100))]
    (model,) = bg.cv({**PARAMS, "max_bin": 15}, bg.Dataset(X, Y), 3, folds=few).cvbooster
    whole = bg.train({**PARAMS, "max_bin": 15, "num_leaves": 31}, bg.Dataset(X, Y), 50)
    edges = {(f, t) for tree in whole.trees for f, t in zip(tree.feature, tree.threshold)}  # noqa: B905
    own = bg.train({**PARAMS, "max_bin": 15}, bg.Dataset(X[:60], Y[:60]), 3)
    used, cut = (
        {(f, t) for tree in m.trees for f, t in zip(tree.feature, tree.threshold)}  # noqa: B905
        for m in (model, own)
    )
    assert len(used & edges) > len(cut & edges)
    subset = bg.Dataset(X, Y).subset(np.arange(60))
    again = bg.train({**PARAMS, "max_bin": 15}, subset, 3)
    assert [t.threshold.tolist() for t in again.trees] == [
        t.threshold.tolist() for t in model.trees
    ]


def test_early_stopping_looks_at_the_mean() -> None:
    result = bg.cv(
        {**PARAMS, "learning_rate": 0.5, "metric": "logloss"}, bg.Dataset(X, Y), 200,
        early_stopping_rounds=4,
    )  # fmt: skip
    curve = result["valid logloss-mean"]
    assert result.best_iteration == len(curve) == 1 + int(np.argmin(curve)) < 200
    assert all(model.n_iterations == len(curve) for model in result.cvbooster)
    whole = bg.cv({**PARAMS, "learning_rate": 0.5, "metric": "logloss"}, bg.Dataset(X, Y), 40)
    assert whole["valid logloss-mean"][: len(curve)] == curve


@pytest.mark.parametrize("splitter", [KFold(3), TimeSeriesSplit(3), GroupKFold(3)], ids=repr)
def test_splitters_of_scikit_learn(splitter: Any) -> None:
    groups = np.arange(len(Y)) % 7
    by_object = bg.cv(PARAMS, bg.Dataset(X, Y), 2, folds=splitter, groups=groups)
    by_rows = bg.cv(PARAMS, bg.Dataset(X, Y), 2, folds=splitter.split(X, Y, groups))
    assert by_object == by_rows and len(by_object.cvbooster) == 3


def test_other_folds() -> None:
    data = bg.Dataset(X, Y)
    groups = np.arange(len(Y)) % 7
    by_group = bg.cv(PARAMS, data, 2, nfold=3, groups=groups)
    assert by_group == bg.cv(PARAMS, data, 2, folds=GroupKFold(3), groups=groups)
    later = bg.cv(PARAMS, data, 2, nfold=3, time_order=True)
    assert later == bg.cv(PARAMS, data, 2, folds=TimeSeriesSplit(3))
    plain = bg.cv(PARAMS, data, 2, nfold=3, stratified=False, shuffle=False)
    assert plain == bg.cv(PARAMS, data, 2, folds=KFold(3))
    rows = table(300, 4, 0)
    queries = bg.Dataset(rows, np.clip(np.round(signal(rows, 0)), 0, 3), group=[10] * 30)
    ranked = bg.cv({"objective": "lambdarank", "n_jobs": 1}, queries, 3, nfold=3)
    assert ranked["valid ndcg@10-mean"][-1] > 0.5
    later = bg.cv({"objective": "lambdarank", "n_jobs": 1}, queries, 3, nfold=3, time_order=True)
    parts = TimeSeriesSplit(3).split(np.zeros(30))
    whole = [[(10 * q[:, None] + np.arange(10)).ravel() for q in pair] for pair in parts]
    assert later == bg.cv({"objective": "lambdarank", "n_jobs": 1}, queries, 3, folds=whole)


def test_bad_folds() -> None:
    data = bg.Dataset(X, Y)
    for wrong, message in (
        ({"nfold": 1}, "nfold=1"),
        ({"nfold": 10**6}, "cv: "),
        ({"folds": [([0, 1], [10**6])]}, "row numbers must lie in 0..568"),
        ({"folds": [([0.5], [1])]}, "lists of row numbers"),
        ({"folds": [1]}, "pairs of"),
        ({"num_leavs": 3}, "unknown parameter"),
        ({"time_order": True, "groups": Y}, "groups: time_order=True does not keep them together"),
        ({"folds": [([0, 1], [2])], "groups": Y}, "groups: a list of folds does not keep them"),
    ):
        with pytest.raises((ParameterError, DataError), match=message):
            bg.cv(PARAMS, data, 2, **wrong)
    with pytest.raises(DataError, match="has none"):
        bg.cv(PARAMS, bg.Dataset(X), 2)


def test_a_fold_without_one_of_the_classes() -> None:
    labels = np.repeat([0, 1, 2], 40)
    rows = table(120, 3, 0)
    folds = [(np.arange(80), np.arange(80, 120)), (np.arange(40, 120), np.arange(40))]
    result = bg.cv(
        {"objective": "multiclass", "n_jobs": 1}, bg.Dataset(rows, labels), 2, folds=folds
    )
    assert [model.n_outputs for model in result.cvbooster] == [3, 3]
