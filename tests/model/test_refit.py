"""Model.refit: new leaf values for old trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import bitgrove as bg
from bitgrove.distributed import run_threads
from bitgrove.errors import DataError, ParameterError
from cases import CASES, Case, signal, table

X = table(600, 5, 1)
Y = signal(X, 1)


def trained(case: Case, **more: Any) -> tuple[bg.Model, bg.Dataset]:
    params = {k: v for k, v in case.params.items() if k != "early_stopping_rounds"}
    data = bg.Dataset(case.X, case.y, weight=case.weight, group=case.group)
    return bg.train(
        {"n_jobs": 2, **params, **more, "refit_leaves": True, "subsample": 1.0}, data
    ), data


@pytest.mark.parametrize("smooth", [0.0, 7.5])
@pytest.mark.parametrize("name", ["binary 2 bits", "multiclass", "regression weighted", "ranking"])
def test_the_training_rows_give_the_trained_values(name: str, smooth: float) -> None:
    model, data = trained(CASES[name](), reg_alpha=0.1, path_smooth=smooth)
    assert model.refit(data, decay_rate=0.0) == model
    again = model.refit(data, decay_rate=0.7)
    for one, other in zip(model.trees, again.trees, strict=True):
        assert other.feature.tobytes() == one.feature.tobytes()


def test_new_rows() -> None:
    model = bg.train({"objective": "regression"}, bg.Dataset(X[:300], Y[:300]), 20)
    moved = Y + 3.0
    fresh = model.refit(X, moved, decay_rate=0.0)
    errors = [np.mean((m.predict(X) - moved) ** 2) for m in (model, fresh)]
    assert errors[1] < 0.3 * errors[0]
    # One tree, one rule: the mean of the new residuals in each leaf, mixed with the old value.
    stump = bg.train(
        {"objective": "regression", "learning_rate": 0.5}, bg.Dataset(X[:300], Y[:300]), 1
    )
    mixed = stump.refit(X, moved, decay_rate=0.25)
    leaves = stump.predict_leaf(X)[:, 0]
    old, new = stump.trees[0], mixed.trees[0]
    for leaf in range(old.n_leaves):
        residual = (moved - stump.base_score[0])[leaves == leaf]
        expected = 0.25 * old.leaf_value[leaf] + 0.75 * 0.5 * residual.mean()
        assert new.leaf_value[leaf] == pytest.approx(expected, rel=1e-6)
        assert new.leaf_rows[leaf] == len(residual)
    assert model.refit(X[:1], Y[:1]).trees[0].leaf_rows.sum() == 1  # the others stay as they are


@pytest.mark.parametrize("name", ["binary 2 bits", "multiclass", "regression weighted"])
def test_ranks_never_change_it(name: str) -> None:
    case = CASES[name]()
    model, data = trained(case)
    expected = model.refit(data, decay_rate=0.5).digest()

    def rank(comm: Any) -> str:
        rows = np.array_split(np.arange(len(case.y)), comm.size)[comm.rank]
        weight = None if case.weight is None else case.weight[rows]
        shard = bg.Dataset(case.X[rows], case.y[rows], weight=weight)
        return model.refit(shard, decay_rate=0.5, comm=comm).digest()

    for n_ranks in (2, 3):
        assert set(run_threads(n_ranks, rank)) == {expected}


def test_labels_are_those_of_the_classes() -> None:
    rows, codes = load_breast_cancer(return_X_y=True)
    labels = np.array(["no", "yes"])[codes]
    model = bg.BitGroveClassifier(n_estimators=4).fit(rows, labels).model_
    assert model.refit(rows, labels, decay_rate=0.0) == model
    with pytest.raises(DataError, match="does not know the class 'maybe'"):
        model.refit(rows[:2], ["no", "maybe"])


def test_what_cannot_be_refitted() -> None:
    model = bg.train({"objective": "regression"}, bg.Dataset(X, Y), 2)
    for wrong in (-0.1, 1.1, True):
        with pytest.raises(ParameterError, match="decay_rate="):
            model.refit(X, Y, decay_rate=wrong)
    with pytest.raises(DataError, match="label"):
        model.refit(X)
    with pytest.raises(DataError):
        model.refit(X[:, :2], Y)


def test_rows_start_at_their_own_scores() -> None:
    """As in the training; and those of a model with a base score are added to it."""
    start = 3.0 * X[:, 0] + 0.25
    data = bg.Dataset(X, Y + start, init_score=start)
    model = bg.train({"objective": "regression"}, data, 8)
    assert model.refit(data, decay_rate=0.0) == model
    assert model.refit(X, Y + start, init_score=start, decay_rate=0.0) == model
    assert model.refit(X, Y + start, decay_rate=0.0) != model
    several = np.column_stack([start, -start])
    targets = np.column_stack([Y + start, Y - start])
    data = bg.Dataset(X, targets, init_score=several)
    both = bg.train({"objective": "regression"}, data, 8)
    assert both.refit(data, decay_rate=0.0) == both
    with pytest.raises(DataError, match="init_score: has 1 values per row, the model 2 outputs"):
        both.refit(X, targets, init_score=start)
    usual = bg.train({"objective": "regression"}, bg.Dataset(X, Y), 8)
    np.testing.assert_allclose(
        usual.refit(X, Y + start, init_score=start, decay_rate=0.0).predict(X), usual.predict(X)
    )


def test_a_dataset_has_its_own_parts() -> None:
    model = bg.train({"objective": "regression"}, bg.Dataset(X, Y), 2)
    with pytest.raises(DataError, match="a Dataset has its own label"):
        model.refit(bg.Dataset(X, Y), Y)


def test_several_labels() -> None:
    labels = (np.column_stack([X[:, 0], X[:, 1], -X[:, 0]]) > 0.0).astype(int)
    model = bg.BitGroveClassifier(n_estimators=4).fit(X, labels).model_
    assert model.refit(X, labels, decay_rate=0.0) == model
    assert model.refit(X, labels.tolist(), decay_rate=0.0) == model
    single = bg.BitGroveClassifier(n_estimators=4).fit(X, labels[:, 0]).model_
    assert single.refit(X, labels[:, :1], decay_rate=0.0) == single
    with pytest.raises(DataError, match="2 columns"):
        model.refit(X, labels[:, :2])
