"""Losses: base scores, gradients of queries, what scores mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import bitgrove as bg
from bitgrove.backends.base import make_targets
from bitgrove.backends.reference import ReferenceBackend
from bitgrove.data.row_ids import one_run
from bitgrove.distributed import SoloComm, run_threads
from bitgrove.distributed.comm import Comm
from bitgrove.objectives import OBJECTIVES, LambdaRank, make_objective
from bitgrove.objectives.metrics import EvalData, make_metric
from bitgrove.params import resolve
from cases import signal, table

F64 = NDArray[np.float64]
N = 120
RNG = np.random.default_rng(0)
WEIGHT = RNG.exponential(size=N).astype(np.float32)
LABELS: dict[str, F64] = {
    "binary": RNG.integers(0, 2, N).astype(float),
    "regression": 10 + RNG.normal(size=N),
    "multiclass": RNG.choice([0.0, 1.0, 3.0], p=[0.5, 0.3, 0.2], size=N),  # no row of class 2
    "lambdarank": RNG.integers(0, 4, N).astype(float),
}
GROUP = np.array([1, 19, 60, 40])
SETTINGS: dict[str, Any] = {"multiclass": {"num_class": 4}}
FAST: dict[str, Any] = {"n_estimators": 4, "num_leaves": 7, "min_child_samples": 3, "n_jobs": 1}


def base(objective: str, weight: Any = None, comm: Comm | None = None, **params: Any) -> F64:
    comm = comm or SoloComm()
    rows = np.array_split(np.arange(N), comm.size)[comm.rank]
    part = None if weight is None else weight[rows]
    dataset = bg.Dataset(np.zeros((len(rows), 1)), LABELS[objective][rows], weight=part)
    checked = resolve({"objective": objective, **SETTINGS.get(objective, {}), **params})
    assert dataset.label is not None
    objective_of_labels = make_objective(checked, dataset, comm)
    return objective_of_labels.base_scores(dataset.label, dataset.weight, comm)


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_base_scores(weight: Any) -> None:
    y = LABELS["regression"]
    assert base("regression", weight)[0] == pytest.approx(np.average(y, weights=weight), rel=1e-12)
    p = np.average(LABELS["binary"], weights=weight)
    assert base("binary", weight)[0] == pytest.approx(np.log(p / (1 - p)), rel=1e-10)
    assert base("binary", weight, sigmoid=2.5)[0] == pytest.approx(
        np.log(p / (1 - p)) / 2.5, rel=1e-10
    )
    shares = [np.average(LABELS["multiclass"] == k, weights=weight) for k in range(4)]
    shares[2] = 1e-15  # absent: very small, not zero
    np.testing.assert_allclose(base("multiclass", weight), np.log(shares), rtol=1e-10)


def test_base_score_of_ranking_is_zero() -> None:
    dataset = bg.Dataset(np.zeros((N, 1)), LABELS["lambdarank"], group=GROUP)
    objective = make_objective(resolve({"objective": "lambdarank"}), dataset, SoloComm())
    assert objective.base_scores(LABELS["lambdarank"], None, SoloComm()).tolist() == [0.0]


@pytest.mark.parametrize("objective", ["binary", "regression", "multiclass"])
def test_base_scores_do_not_depend_on_ranks(objective: str) -> None:
    solo = base(objective, WEIGHT).tolist()
    for size in (2, 3, 5):
        found = run_threads(size, lambda comm: base(objective, WEIGHT, comm).tolist())
        assert found == [solo] * size


@pytest.mark.parametrize(("objective", "metric"), [("binary", "logloss"), ("regression", "rmse")])
def test_the_base_score_minimises_the_loss(objective: str, metric: str) -> None:
    """A model of no trees predicts it, and no other constant is better."""
    X, y = np.zeros((N, 1)), LABELS[objective]
    model = bg.train({**FAST, "objective": objective}, bg.Dataset(X, y, weight=WEIGHT))
    constant = model.predict(X, num_iteration=0)
    np.testing.assert_allclose(model.predict(X), constant, rtol=1e-6)  # nothing to learn

    def loss(shift: float) -> float:
        d = EvalData(constant + shift, y, WEIGHT.astype(float), None, np.zeros(0))
        return make_metric(metric).compute(d, SoloComm())

    assert loss(0.0) < min(loss(-1e-3), loss(1e-3))


def gradients(objective: str, scores: F64, weight: Any = None, **params: Any) -> Any:
    """(grad, hess), each (n_outputs, n_rows)."""
    group = GROUP if objective == "lambdarank" else None
    dataset = bg.Dataset(np.zeros((N, 1)), LABELS[objective], weight=weight, group=group)
    checked = resolve({"objective": objective, **SETTINGS.get(objective, {}), **params})
    rules = make_objective(checked, dataset, SoloComm())
    backend = ReferenceBackend()
    targets = make_targets(backend, rules, LABELS[objective], dataset.weight, group, one_run(N))
    return backend.gradients(rules, scores, targets)[:2]


def test_softmax_gradients_sum_to_zero() -> None:
    grad, hess = gradients("multiclass", 3 * RNG.normal(size=(4, N)))
    np.testing.assert_allclose(grad.sum(axis=0), 0.0, atol=1e-6)
    assert (hess > 0).all()


def queries() -> list[NDArray[np.int64]]:
    return np.split(np.arange(N), np.cumsum(GROUP)[:-1])


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("sigmoid", [0.01, 1.0, 3.0])
def test_lambdas_sum_to_zero_in_each_query(normalise: bool, sigmoid: float) -> None:
    scores = RNG.normal(size=(1, N))
    grad, hess = gradients("lambdarank", scores, sigmoid=sigmoid, lambdarank_norm=normalise)
    for rows in queries():
        size = np.abs(grad[0, rows]).sum()
        assert abs(grad[0, rows].sum()) <= 1e-6 * size
        assert (size > 0) == (len(rows) > 1)
    assert (hess >= 0).all()


def test_lambdas_pull_better_rows_up() -> None:
    """From equal scores the best grade of a query is pulled up and the worst pushed down."""
    grad, _ = gradients("lambdarank", np.zeros((1, N)), lambdarank_truncation_level=100)
    for rows in queries()[1:]:
        y = LABELS["lambdarank"][rows]
        assert (grad[0, rows[y == y.max()]] < 0).all()
        assert (grad[0, rows[y == y.min()]] > 0).all()


def pair_loss(scores: F64, sigmoid: float, truncation: int) -> Callable[[F64], float]:
    """Sum over pairs of |delta NDCG| * log(1 + exp(-sigmoid * gap)), the deltas held fixed."""
    terms = []
    for rows in queries():
        y = LABELS["lambdarank"][rows]
        gain = 2.0**y - 1
        order = np.argsort(-scores[rows], kind="stable")
        rank = np.empty(len(rows), dtype=int)
        rank[order] = np.arange(len(rows))
        discount = 1 / np.log2(2 + np.arange(len(rows)))
        best = (np.sort(gain)[::-1] * discount)[:truncation].sum()
        for a in range(len(rows)):
            for b in range(len(rows)):
                if y[a] > y[b] and min(rank[a], rank[b]) < truncation:
                    delta = abs((gain[a] - gain[b]) * (discount[rank[a]] - discount[rank[b]]))
                    terms.append((rows[a], rows[b], delta / best))
    high, low, delta = (np.array(column) for column in zip(*terms, strict=True))
    return lambda s: float(np.sum(delta * np.logaddexp(0.0, -sigmoid * (s[high] - s[low]))))


@pytest.mark.parametrize(("sigmoid", "truncation"), [(1.0, 30), (2.0, 5), (0.01, 1000)])
def test_lambdas_are_derivatives_of_the_pairwise_loss(sigmoid: float, truncation: int) -> None:
    scores = RNG.normal(size=N)
    rules = {"lambdarank_norm": False, "lambdarank_truncation_level": truncation}
    grad, hess = gradients("lambdarank", scores[None], sigmoid=sigmoid, **rules)
    loss, step = pair_loss(scores, sigmoid, truncation), 1e-3
    for row in range(0, N, 7):
        shift = np.zeros(N)
        shift[row] = step
        up, here, down = loss(scores + shift), loss(scores), loss(scores - shift)
        size = float(np.abs(grad).max())
        assert grad[0, row] == pytest.approx((up - down) / (2 * step), rel=1e-3, abs=1e-5 * size)
        curve = (up - 2 * here + down) / step**2
        assert hess[0, row] == pytest.approx(curve, rel=1e-2, abs=1e-5 * float(hess.max()))


def predictions(objective: str, scores: F64, **settings: float) -> F64:
    return OBJECTIVES[objective].from_settings(settings).link.predictions(scores)


def test_probabilities() -> None:
    scores = 20 * RNG.normal(size=(N, 4))
    p = predictions("multiclass", scores)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(
        p, np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True), rtol=1e-12
    )
    far = predictions("multiclass", np.array([[1e4, -1e4, 0.0], [-1e300, 1e300, 0.0]]))
    np.testing.assert_allclose(far, [[1, 0, 0], [0, 1, 0]], atol=1e-300)
    binary = predictions("binary", scores[:, :1], sigmoid=0.5)
    np.testing.assert_allclose(binary, 1 / (1 + np.exp(-0.5 * scores[:, 0])), rtol=1e-12)
    for name in ("regression", "lambdarank"):
        np.testing.assert_array_equal(predictions(name, scores[:, :1]), scores[:, 0])


def test_trained_probabilities_sum_to_one() -> None:
    X = table(300, 4, 1)
    y = np.digitize(signal(X, 1), [-0.5, 0.5, 1.5])
    model = bg.train({**FAST, "objective": "multiclass", "n_estimators": 20}, bg.Dataset(X, y))
    p = model.predict(X)
    assert p.shape == (300, 4) and (p > 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-14)
    assert (p.argmax(axis=1) == y).mean() > 0.6


def test_sigmoid_of_a_trained_model() -> None:
    X = table(300, 4, 2)
    y = (signal(X, 2) > 0).astype(float)
    for sigmoid in (0.5, 1.0, 2.0):
        params = {**FAST, "objective": "binary", "sigmoid": sigmoid}
        model = bg.train(params, bg.Dataset(X, y))
        raw = model.predict_raw(X)
        np.testing.assert_allclose(model.predict(X), 1 / (1 + np.exp(-sigmoid * raw)), rtol=1e-12)
        loaded = bg.Model.from_bytes(model.to_bytes())
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        assert ((model.predict(X) > 0.5) == (y > 0)).mean() > 0.7


@pytest.mark.parametrize("sigmoid", [1e-4, 1.0])
def test_ranking_learns_whatever_the_sigmoid(sigmoid: float) -> None:
    X = table(600, 4, 3)
    grade, group = np.clip(np.floor(signal(X, 3) + 2), 0, 4), [20] * 30
    data = bg.Dataset(X, grade, group=group)
    params = {**FAST, "objective": "lambdarank", "sigmoid": sigmoid, "min_child_weight": 0.0}
    model = bg.train(params, data, valid_sets=data)
    assert model.info is not None
    ndcg = model.info.evals_result["training"]["ndcg@10"]
    chance = RNG.normal(size=600)
    d = EvalData(chance, grade, np.ones(600), np.array(group), LambdaRank().gains)
    assert ndcg[-1] > make_metric("ndcg@10").compute(d, SoloComm()) + 0.1


def test_ready_made_and_own_label_gains() -> None:
    assert LambdaRank().gains[:5].tolist() == [0, 1, 3, 7, 15]
    X = table(N, 4, 4)
    data = bg.Dataset(X, LABELS["lambdarank"], group=GROUP)
    params = {**FAST, "objective": "lambdarank"}
    usual = bg.train(params, data)
    same = bg.train({**params, "label_gain": [0, 1, 3, 7]}, data)
    other = bg.train({**params, "label_gain": [0, 1, 2, 3]}, data)
    assert usual.trees[0].leaf_value.tolist() == same.trees[0].leaf_value.tolist()
    assert usual.trees[0].leaf_value.tolist() != other.trees[0].leaf_value.tolist()


def test_scale_pos_weight_is_a_weight_of_the_positives() -> None:
    X = table(N, 4, 5)
    y = LABELS["binary"]
    params = {**FAST, "objective": "binary"}
    scaled = bg.train({**params, "scale_pos_weight": 3.0}, bg.Dataset(X, y))
    weighted = bg.train(params, bg.Dataset(X, y, weight=np.where(y > 0, 3.0, 1.0)))
    np.testing.assert_array_equal(scaled.predict_raw(X), weighted.predict_raw(X))
    assert not np.array_equal(
        scaled.predict_raw(X), bg.train(params, bg.Dataset(X, y)).predict_raw(X)
    )
