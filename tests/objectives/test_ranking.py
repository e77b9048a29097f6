"""Losses of ranking against their definitions, and against LightGBM and XGBoost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import bitgrove as bg
from bitgrove.arithmetic.exact_math import row_hash
from bitgrove.backends.base import make_targets
from bitgrove.backends.reference import ReferenceBackend
from bitgrove.data.row_ids import one_run
from bitgrove.distributed import SoloComm
from bitgrove.objectives import OBJECTIVES
from bitgrove.objectives.metrics import EvalData, make_metric
from cases import CASES, signal, table
from kernel_cases import SIMD, cpu

F64 = NDArray[np.float64]
GROUP = np.array([12, 1, 20, 7])
N = int(GROUP.sum())
RNG = np.random.default_rng(7)
SCORES = np.round(RNG.normal(size=N) * 4) / 4  # some are equal
GRADES = RNG.integers(0, 3, N).astype(float)
QUERIES = np.split(np.arange(N), np.cumsum(GROUP)[:-1])


def average_precision(relevant: NDArray[np.bool_]) -> float:
    """Of rows in rank order."""
    hits = np.cumsum(relevant)
    return float(np.sum((hits / (np.arange(len(relevant)) + 1.0))[relevant]) / relevant.sum())


def map_loss(scores: F64, deltas: dict[tuple[int, int], float]) -> float:
    return sum(
        float(delta * np.logaddexp(0.0, scores[low] - scores[high]))
        for (high, low), delta in deltas.items()
    )


def exchanges(truncation: int) -> dict[tuple[int, int], float]:
    """|delta AP| of all pairs of a relevant row and another, by exchanging them."""
    found = {}
    for rows in QUERIES:
        order = rows[np.argsort(-SCORES[rows], kind="stable")]
        relevant = GRADES[order] > 0
        for i in range(min(truncation, len(order))):
            for j in range(i + 1, len(order)):
                if relevant[i] == relevant[j]:
                    continue
                other = relevant.copy()
                other[[i, j]] = other[[j, i]]
                high, low = (order[i], order[j]) if relevant[i] else (order[j], order[i])
                found[high, low] = abs(average_precision(relevant) - average_precision(other))
    return found


def many_queries(rng: np.random.Generator, name: str, sizes: list[int]) -> Any:
    """Scores, of which many are equal, grades, and the objective."""
    n_rows, settings = sum(sizes), {"lambdarank_truncation_level": int(rng.integers(1, 60))}
    scores = np.round(rng.normal(size=(1, n_rows)) * rng.choice([1, 8, 1000])) / 8
    grades = rng.integers(0, rng.choice([2, 5, 31]), n_rows).astype(float)
    return OBJECTIVES[name].from_settings(settings), scores, grades


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["lambdarank", "rank_pairwise", "rank_map"]),
    st.lists(st.integers(1, 40) | st.sampled_from([256, 257]), min_size=1, max_size=5),
)
def test_pairs_in_batches_are_the_references(seed: int, name: str, sizes: list[int]) -> None:
    """Queries of any length, with any number of grades and equal scores: the same bits."""
    objective, scores, grades = many_queries(np.random.default_rng(seed), name, sizes)
    found = []
    for backend in [ReferenceBackend(), *(cpu(1, simd) for simd in SIMD)]:
        targets = make_targets(
            backend, objective, grades, None, np.array(sizes), one_run(len(grades))
        )
        gradients = backend.gradients(objective, scores, targets)
        found.append((gradients.grad.tobytes(), gradients.hess.tobytes()))
    assert len(set(found)) == 1


@pytest.mark.parametrize("truncation", [3, 100])
def test_map_pulls_by_what_an_exchange_changes(truncation: int) -> None:
    given_settings = {"lambdarank_norm": False, "lambdarank_truncation_level": truncation}
    objective = OBJECTIVES["rank_map"].from_settings(given_settings)
    grad, hess = objective.derivatives(SCORES[None], GRADES, objective.tables(GRADES, GROUP))
    deltas, step = exchanges(truncation), 1e-4
    for row in range(N):
        shift = step * (np.arange(N) == row)
        up, here, down = (map_loss(SCORES + d, deltas) for d in (shift, 0.0 * shift, -shift))
        assert grad[0, row] == pytest.approx((up - down) / (2 * step), abs=1e-6)
        assert hess[0, row] == pytest.approx((up - 2 * here + down) / step**2, abs=1e-4)


def xendcg(scores: F64, worth: F64) -> tuple[F64, F64]:
    """LightGBM's loops for one query, with the worths that were drawn."""
    rho = np.exp(scores - scores.max())
    rho /= rho.sum()
    lambdas = rho - worth / worth.sum()
    terms = lambdas / (1.0 - rho)
    for _ in range(2):
        more = rho * (terms.sum() - terms)
        lambdas = lambdas + more
        terms = more / (1.0 - rho)
    return lambdas, rho * (1.0 - rho)


def test_xendcg_is_lightgbms() -> None:
    objective = OBJECTIVES["rank_xendcg"].from_settings({}).at(3, seed=5)
    ids = np.arange(100, 100 + N, dtype=np.uint64)
    tables = objective.tables(GRADES, GROUP, ids)
    grad, hess = objective.derivatives(SCORES[None], GRADES, tables)
    drawn = row_hash(objective.key, ids).astype(np.float64) / 2.0**64  # type: ignore[attr-defined]
    for rows in QUERIES:
        if len(rows) == 1:
            assert grad[0, rows] == hess[0, rows] == 0.0
            continue
        expected = xendcg(SCORES[rows], 2.0 ** GRADES[rows] - drawn[rows])
        np.testing.assert_allclose(grad[0, rows], expected[0], rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(hess[0, rows], expected[1], rtol=1e-6, atol=1e-9)


def test_xendcg_draws_anew_in_every_iteration() -> None:
    objective = OBJECTIVES["rank_xendcg"].from_settings({})
    ids = np.arange(N, dtype=np.uint64)
    tables = objective.tables(GRADES, GROUP, ids)
    found = [
        objective.at(iteration, seed).derivatives(SCORES[None], GRADES, tables)[0]
        for iteration, seed in ((0, 0), (1, 0), (0, 1), (0, 0))
    ]
    assert np.array_equal(found[0], found[3])
    assert not np.array_equal(found[0], found[1]) and not np.array_equal(found[0], found[2])


@pytest.mark.parametrize("gap", [1.0, 30.0, 700.0])
@pytest.mark.parametrize("top_is_relevant", [False, True])
def test_xendcg_of_rows_that_are_certain_is_finite(gap: float, top_is_relevant: bool) -> None:
    objective = OBJECTIVES["rank_xendcg"].from_settings({"label_gain": [0.0, 1e-30, 1e30]})
    scores, n_rows = np.zeros((1, 50)), np.array([50])
    scores[0, 0] = gap
    label = np.repeat([0.0, 1.0, 2.0], [20, 20, 10])
    label[0] = 2.0 if top_is_relevant else 0.0
    tables = objective.tables(label, n_rows, np.arange(50, dtype=np.uint64))
    grad, hess = objective.derivatives(scores, label, tables)
    assert np.abs(grad).max() < 16.0 and hess.min() >= 0.0


def judged(metric: str, label: F64, prediction: F64, group: NDArray[np.int64]) -> float:
    gains = 2.0 ** np.arange(5) - 1.0
    data = EvalData(prediction, label, np.ones(len(label)), group, gains)
    return make_metric(metric).compute(data, SoloComm())


def ranking_data() -> tuple[F64, F64, NDArray[np.int64]]:
    group = np.random.default_rng(1).integers(5, 30, size=160)
    X = table(int(group.sum()), 6, 1)
    return X, np.clip(np.floor(signal(X, 1)), 0, 3), group


SHAPE: dict[str, Any] = {"num_leaves": 15, "learning_rate": 0.1, "n_jobs": 1}


def test_xendcg_ranks_as_lightgbm_does() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    X, y, group = ranking_data()
    n_train, n_queries = int(group[:100].sum()), 100
    params = {"objective": "rank_xendcg", **SHAPE}
    ours = bg.train(
        {**params, "n_estimators": 40}, bg.Dataset(X[:n_train], y[:n_train], group=group[:100])
    )
    theirs = lightgbm.train(
        {**params, "verbosity": -1},
        lightgbm.Dataset(X[:n_train], y[:n_train], group=group[:n_queries]),
        num_boost_round=40,
    )
    found, expected = (
        judged("ndcg@5", y[n_train:], model.predict(X[n_train:]), group[n_queries:])
        for model in (ours, theirs)
    )
    assert found > expected - 0.02, (found, expected)


def test_map_ranks_as_xgboost_does() -> None:
    xgboost = pytest.importorskip("xgboost")
    X, y, group = ranking_data()
    y = (y > 1).astype(float)
    n_train, n_queries = int(group[:100].sum()), 100
    ours = bg.train(
        {"objective": "rank:map", **SHAPE, "n_estimators": 40},
        bg.Dataset(X[:n_train], y[:n_train], group=group[:n_queries]),
    )
    rows = xgboost.DMatrix(X[:n_train], y[:n_train])
    rows.set_group(group[:n_queries])
    how = {"objective": "rank:map", "max_leaves": 15, "grow_policy": "lossguide", "max_depth": 0}
    theirs = xgboost.train({**how, "eta": 0.1, "nthread": 1}, rows, num_boost_round=40)
    found = judged("map@10", y[n_train:], ours.predict(X[n_train:]), group[n_queries:])
    other = theirs.predict(xgboost.DMatrix(X[n_train:])).astype(np.float64)
    assert found > judged("map@10", y[n_train:], other, group[n_queries:]) - 0.02


@pytest.mark.parametrize("name", ["rank_map", "rank_xendcg"])
def test_the_ranker_takes_them(name: str) -> None:
    case = CASES["ranking"]()
    ranker = bg.BitGroveRanker(objective=name, n_estimators=30, num_leaves=7)
    ranker.fit(case.X, case.y, group=case.group)
    assert ranker.model_.objective == name
    assert np.corrcoef(ranker.predict(case.X), case.y)[0, 1] > 0.5


@pytest.mark.parametrize("name", ["rank_map", "rank_xendcg"])
@pytest.mark.parametrize("bad", [-1.0, 0.5, 31.0])
def test_labels_are_grades(name: str, bad: float) -> None:
    label = np.array([0.0, 1.0, bad])
    with pytest.raises(bg.DataError, match=f"label: {name} needs whole grades 0 to 30"):
        bg.train({"objective": name}, bg.Dataset(np.zeros((3, 1)), label, group=[3]))
    with pytest.raises(bg.DataError, match=f"group: {name} needs"):
        bg.train({"objective": name}, bg.Dataset(np.zeros((3, 1)), [0, 1, 2]))


def test_parameters_of_pairs_have_no_meaning_for_lists() -> None:
    with pytest.raises(bg.ParameterError, match="lambdarank_norm=False has no meaning"):
        bg.train({"objective": "rank_xendcg", "lambdarank_norm": False}, bg.Dataset([[0.0]], [0.0]))


def test_refitting_draws_the_same_numbers() -> None:
    case = CASES["ranking xendcg"]()
    model = case.train(refit_leaves=True)
    again = model.refit(bg.Dataset(case.X, case.y, group=case.group), decay_rate=0.0)
    np.testing.assert_allclose(again.predict(case.X), model.predict(case.X), rtol=1e-6, atol=1e-9)
