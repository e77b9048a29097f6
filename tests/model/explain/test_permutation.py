"""Permutation importance: the definition, done by hand on the user's own table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.metrics import log_loss, roc_auc_score

import bitgrove
from bitgrove.errors import DataError, ParameterError

SEED, REPEATS = 7, 2


def homes(n: int = 400) -> tuple[pd.DataFrame, NDArray[Any]]:
    """A number, a category of few levels, one of many (which becomes statistics), and a dummy."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "area": rng.normal(size=n),
            "town": rng.choice(["rome", "oslo", "riga"], n),
            "owner": [f"owner {k}" for k in rng.integers(0, 90, n)],
            "dummy": np.zeros(n),
        }
    )
    worth = table["area"] + 2.0 * (table["town"] == "rome") + table["owner"].str[-1].astype(int) / 5
    return table, np.where(worth + rng.normal(size=n) > 1.5, "yes", "no")


def by_hand(model: bitgrove.Model, table: pd.DataFrame, judge: Any) -> NDArray[Any]:
    """judge: larger is worse."""
    whole = judge(model.predict(table))
    found = np.zeros((table.shape[1], REPEATS))
    for f, name in enumerate(table.columns):
        for k in range(REPEATS):
            order = np.random.default_rng((SEED, f, k)).permutation(len(table))
            dealt = table.assign(**{name: table[name].to_numpy()[order]})
            found[f, k] = judge(model.predict(dealt)) - whole
    return found


@pytest.mark.parametrize("metric", [None, "auc"])
def test_it_is_what_shuffling_a_column_of_the_table_costs(metric: str | None) -> None:
    table, y = homes()
    model = bitgrove.BitGroveClassifier(n_estimators=10, num_leaves=7).fit(table, y).model_
    weight = np.random.default_rng(1).integers(1, 4, len(y))
    found = model.permutation_importance(
        table, y, metric=metric, n_repeats=REPEATS, random_state=SEED, sample_weight=weight
    )

    def judge(p: NDArray[Any]) -> float:
        if metric == "auc":
            return -float(roc_auc_score(y == "yes", p, sample_weight=weight))
        return float(log_loss(y == "yes", p, sample_weight=weight))

    np.testing.assert_allclose(found.importances, by_hand(model, table, judge), rtol=0, atol=1e-8)
    assert found.metric == (metric or "logloss")
    assert (found.importances[3] == 0).all() and (found.importances_mean[:3] > 0).all()
    np.testing.assert_array_equal(found.importances_std, found.importances.std(axis=1))


def test_a_ranking_is_judged_by_query() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(120, 3))
    y = (X[:, 0] > 0).astype(int) + (X[:, 0] > 1)
    group = [10] * 12
    data = bitgrove.Dataset(X, y, group=group)
    model = bitgrove.train({"objective": "lambdarank", "n_estimators": 5}, data)
    found = model.permutation_importance(data, n_repeats=1)
    assert found.importances[0, 0] > 0.1 > abs(found.importances[2, 0])
    again = model.permutation_importance(X, y, group=group, n_repeats=1)
    np.testing.assert_array_equal(again.importances, found.importances)
    with pytest.raises(DataError, match="group or qid"):
        model.permutation_importance(X, y)


def test_rows_start_at_their_own_scores() -> None:
    """As a validation set of the training: the metric is the one that it had."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 3))
    start = 2.0 * X[:, 1]
    data = bitgrove.Dataset(X, X[:, 0] + start > 0, init_score=start)
    params = {"objective": "binary", "n_estimators": 5}
    model = bitgrove.train(params, data, valid_sets=data)
    found = model.permutation_importance(data, n_repeats=1, random_state=SEED)
    assert model.info is not None
    assert found.score == model.info.evals_result["training"]["logloss"][-1]
    dealt = X.copy()
    dealt[:, 0] = X[np.random.default_rng((SEED, 0, 0)).permutation(300), 0]
    chances = 1.0 / (1.0 + np.exp(-model.predict_raw(dealt) - start))
    worse = log_loss(data.label, chances) - found.score
    np.testing.assert_allclose(found.importances[0, 0], worse, rtol=1e-6)


def test_a_sparse_table_is_as_its_dense_twin() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(150, 3)) * (rng.random((150, 3)) < 0.3)
    model = bitgrove.train(
        {"objective": "regression", "n_estimators": 3}, bitgrove.Dataset(X, X[:, 0])
    )
    dense, sparse = (model.permutation_importance(one, X[:, 0], n_repeats=2)
                     for one in (X, csr_array(X)))  # fmt: skip
    assert dense.importances[0].min() > 0
    np.testing.assert_array_equal(sparse.importances, dense.importances)


def test_what_cannot_be_judged_is_refused() -> None:
    table, y = homes(60)
    model = bitgrove.BitGroveClassifier(n_estimators=2).fit(table, y).model_
    with pytest.raises(DataError, match="true labels"):
        model.permutation_importance(table)
    with pytest.raises(ParameterError, match="n_repeats=0"):
        model.permutation_importance(table, y, n_repeats=0)
    for metric in ("nothing", "rmse", ["auc", "logloss"], lambda label, p: ("mine", 0.0, True)):
        with pytest.raises(ParameterError, match="metric="):
            model.permutation_importance(table, y, metric=metric)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="town"):
        model.permutation_importance(table[["area"]], y)
