"""The ranker: queries as sizes or ids, eval sets, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import ndcg_score

import bitgrove as bg
from bitgrove.errors import BitgroveError, DataError
from bitgrove.estimators import BitGroveRanker


def fit(X: Any, y: Any, n_estimators: int = 5, eval_metric: Any = None, **how: Any) -> Any:
    ranker = BitGroveRanker(n_estimators=n_estimators, eval_metric=eval_metric, n_jobs=1)
    return ranker.fit(X, y, **how)


@pytest.fixture
def queries() -> tuple[Any, Any, Any]:
    """40 queries of 15 rows; relevance follows the first feature."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(600, 4))
    grades = np.clip(np.round(X[:, 0] + 0.3 * rng.normal(size=600) + 1), 0, 4)
    return X, grades, np.repeat(np.arange(40), 15)


def test_ranker_learns_to_rank(queries: Any) -> None:
    X, y, qid = queries
    fitted = fit(X, y, qid=qid, n_estimators=20)
    scores = fitted.predict(X)
    assert ndcg_score(y.reshape(40, 15), scores.reshape(40, 15)) > 0.95
    assert fitted.feature_importances_.argmax() == 0


def test_ranker_takes_sizes_or_ids(queries: Any) -> None:
    X, y, qid = queries
    names = np.array([f"query {i}" for i in qid[::-1]], dtype=object)

    def digest(**queries: Any) -> str:
        return str(fit(X, y, **queries).model_.digest())

    assert digest(group=[15] * 40) == digest(group=np.full(40, 15)) == digest(qid=qid)
    assert digest(qid=qid) == digest(qid=names) != digest(group=[600])


def test_ranker_mistakes(queries: Any) -> None:
    X, y, qid = queries
    with pytest.raises(DataError, match=r"either group .* or qid"):
        fit(X, y, group=[600], qid=qid)
    with pytest.raises(DataError, match=r"either group .* or qid .* neither was given"):
        fit(X, y)
    with pytest.raises(DataError, match=r"either eval_group .* neither was given"):
        fit(X, y, qid=qid, eval_set=(X[:15], y[:15]))
    with pytest.raises(DataError, match="must be adjacent"):
        fit(X, y, qid=np.arange(600) % 40)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fit(X, y, qid=qid[:-1])
    with pytest.raises(BitgroveError, match="group"):
        fit(X, y, group=[599])
    with pytest.raises(BitgroveError, match="label"):
        fit(X, y - 1, qid=qid)


def test_ranker_eval_sets(queries: Any) -> None:
    X, y, qid = queries
    held, kept = (X[450:], y[450:]), {"qid": qid[:450]}

    def curves(**rest: Any) -> list[Any]:
        fitted = fit(X[:450], y[:450], eval_metric="ndcg@5", **kept, **rest)
        return list(fitted.evals_result_.values())

    sizes = [15] * 10
    one = curves(eval_set=held, eval_group=sizes)
    assert one == curves(eval_set=[held], eval_group=[sizes])
    assert one == curves(eval_set=held, eval_qid=qid[450:])
    assert one != curves(eval_set=held, eval_group=[150])
    two = curves(eval_set=[held, held], eval_group=[sizes, None], eval_qid=[None, qid[450:]])
    assert two == one + one
    assert one[0]["ndcg@5"][-1] > 0.8


def test_ids_of_queries_are_told_apart(queries: Any) -> None:
    """Large ones, also those of pandas' nullable types, which scikit-learn would make floats."""
    X, y, qid = queries
    wanted = fit(X, y, qid=qid).model_.digest()
    large = pd.Series(qid + 2**60, dtype="Int64")
    for ids in (qid + 2**60, large, large.to_frame(), qid.astype("datetime64[s]")):
        assert fit(X, y, qid=ids).model_.digest() == wanted


@pytest.mark.parametrize("dtype", ["Int64", "float64", "object", "datetime64[s]"])
def test_a_query_without_an_id_is_refused(queries: Any, dtype: str) -> None:
    X, y, qid = queries
    ids = pd.Series(qid).astype(dtype).mask(qid == 3)
    with pytest.raises(DataError, match="qid has no value in row 45"):
        fit(X, y, qid=ids)
    with pytest.raises(DataError, match="qid has no value in row 45"):
        bg.Dataset(X, y, qid=ids)
