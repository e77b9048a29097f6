"""The ranker: queries as sizes or ids, eval sets, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.metrics import ndcg_score
from sklearn.utils.estimator_checks import estimator_checks_generator

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


def test_score_is_the_mean_ndcg(queries: Any) -> None:
    X, y, qid = queries
    fitted = fit(X, y, qid=qid)
    gains = [2.0**grades - 1.0 for grades in y.reshape(40, 15)]
    in_row_order = fitted.predict(X).reshape(40, 15) - 1e-9 * np.arange(15)  # where they tie
    expected = ndcg_score(gains, in_row_order, k=10)
    assert fitted.score(X, y, qid=qid) == pytest.approx(expected, rel=1e-6)
    assert fitted.score(X, y, group=[15] * 40) == fitted.score(X, y, qid=qid)
    with pytest.raises(DataError, match="give group or qid"):
        fitted.score(X, y)
    with pytest.raises(NotFittedError):
        BitGroveRanker().score(X, y, qid=qid)


def test_weights_of_queries_say_how_to_repeat_them(queries: Any) -> None:
    X, y, qid = queries
    weight, group = np.arange(1.0, 41.0), [15] * 40
    said = r"40 entries, one per query; give one per row: np\.repeat\(weight, rows of each"
    for name, rows in (("qid", qid), ("group", group)):
        with pytest.raises(DataError, match=said):
            fit(X, y, sample_weight=weight, **{name: rows})
        with pytest.raises(DataError, match=said):
            bg.Dataset(X, y, weight=list(weight), **{name: rows})
    data = bg.Dataset(X, y, group=group)
    with pytest.raises(DataError, match=said):
        data.set_weight(weight)
    assert data.set_weight(np.repeat(weight, group)).weight is not None
    assert fit(X, y, sample_weight=np.repeat(weight, group), group=group).n_iter_ == 5
    with pytest.raises(DataError, match="weight has 39 entries but X has 600 rows"):
        fit(X, y, sample_weight=weight[1:], group=group)


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


class OneQuery(BitGroveRanker):
    """scikit-learn's checks know no queries: all rows are one."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        return super().fit(X, y, sample_weight, qid=np.zeros(np.asarray(y).size))

    def score(self, X: Any, y: Any) -> float:  # type: ignore[override]
        return super().score(X, y, qid=np.zeros(np.asarray(y).size))


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=check.func.__name__)
        for _, check in estimator_checks_generator(OneQuery())
        # A row twice in a query changes everyone's rank: that is not the same as a weight of 2.
        if "sample_weight_equivalence" not in check.func.__name__
    ],
)
def test_scikit_learn_conventions_of_the_ranker(check: Any) -> None:
    check(OneQuery(n_jobs=1))
