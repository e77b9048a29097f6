"""Metrics against scikit-learn, and the same bits however the rows are dealt to ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import metrics as sk

import bitgrove as bg
from bitgrove.distributed import SoloComm, run_threads
from bitgrove.distributed.comm import Comm
from bitgrove.objectives.metrics import METRICS, EvalData, judged_by, make_metric, register
from cases import signal, table

N = 400
GAINS = 2.0 ** np.arange(31) - 1.0
GROUP = np.array([1, 2, 50, 7, 40, 100, 30, 70, 60, 40])
POSITIVE = {
    "poisson", "poisson_deviance", "gamma", "gamma_deviance", "tweedie", "tweedie_deviance",
    "rmsle",
}  # fmt: skip
WEIGHTS = ["none", "fractions", "with zeros", "1e-30 to 1e30"]


def weights(kind: str) -> NDArray[np.float64]:
    rng = np.random.default_rng(1)
    return {
        "none": np.ones(N),
        "fractions": rng.exponential(size=N),
        "with zeros": rng.integers(0, 3, N).astype(float),
        "1e-30 to 1e30": 10.0 ** rng.uniform(-30, 30, N),
    }[kind]


def data(metric: str, weight: str = "none", ties: bool = False) -> EvalData:
    """Random labels and predictions that fit the metric; ties leave few distinct predictions."""
    rng = np.random.default_rng(2)
    judges = make_metric(metric).judges[0]
    if judges == "probability":
        label = rng.integers(0, 2, N).astype(float)
        prediction = np.clip(0.4 * label + rng.uniform(0, 0.6, N), 1e-9, 1.0)
        if metric == "cross_entropy":
            label = rng.uniform(size=N)
    elif metric in POSITIVE:
        label = rng.exponential(size=N) * (rng.random(N) < 0.7 if "gamma" not in metric else 1.0)
        prediction = rng.exponential(size=N) + 0.1
    elif judges == "value":
        label = 100 * rng.normal(size=N)
        prediction = label + rng.standard_t(2, size=N)
    elif judges == "class probabilities":
        label = rng.integers(0, 4, N).astype(float)
        prediction = rng.dirichlet(np.ones(4), size=N)
    else:
        label = rng.integers(0, 5, N).astype(float)
        prediction = label + 3 * rng.normal(size=N)
    if ties:
        prediction = np.ceil(5 * prediction) / 5
    return EvalData(prediction, label, weights(weight), GROUP, GAINS)


def value(metric: str, d: EvalData, comm: Comm | None = None) -> float:
    return make_metric(metric).compute(d, comm or SoloComm())


def expected(metric: str, d: EvalData) -> float:
    """What scikit-learn says."""
    y, p, w = d.label, d.prediction, d.weight

    def mean(terms: NDArray[np.float64]) -> float:
        return float(np.average(terms, weights=w))

    functions: dict[str, Any] = {
        "auc": lambda: sk.roc_auc_score(y, p, sample_weight=w),
        "logloss": lambda: sk.log_loss(y, p, sample_weight=w),
        "error": lambda: 1.0 - sk.accuracy_score(y, p > 0.5, sample_weight=w),
        "rmse": lambda: sk.root_mean_squared_error(y, p, sample_weight=w),
        "mae": lambda: sk.mean_absolute_error(y, p, sample_weight=w),
        "multi_logloss": lambda: sk.log_loss(y, p, sample_weight=w, labels=range(4)),
        "multi_error": lambda: 1.0 - sk.accuracy_score(y, p.argmax(axis=1), sample_weight=w),
        "ndcg": lambda: sklearn_ndcg(d, 10),
        "average_precision": lambda: sk.average_precision_score(y, p, sample_weight=w),
        "brier": lambda: sk.brier_score_loss(y, p, sample_weight=w),
        "cross_entropy": lambda: mean(-(y * np.log(p) + (1 - y) * np.log1p(-np.minimum(p, 1)))),
        "accuracy": lambda: sk.accuracy_score(y, p > 0.5, sample_weight=w),
        "balanced_accuracy": lambda: sk.balanced_accuracy_score(y, p > 0.5, sample_weight=w),
        "f1": lambda: sk.f1_score(y, p > 0.5, sample_weight=w),
        "kappa": lambda: sk.cohen_kappa_score(y, p > 0.5, sample_weight=w),
        "subset_accuracy": lambda: sk.accuracy_score(y, p > 0.5, sample_weight=w),
        "mse": lambda: sk.mean_squared_error(y, p, sample_weight=w),
        "rmsle": lambda: sk.root_mean_squared_log_error(y, p, sample_weight=w),
        "r2": lambda: sk.r2_score(y, p, sample_weight=w),
        "mape": lambda: mean(abs(y - p) / np.maximum(abs(y), 1)),
        "quantile": lambda: sk.mean_pinball_loss(y, p, alpha=0.9, sample_weight=w),
        "expectile": lambda: mean(np.where(p > y, 0.1, 0.9) * (y - p) ** 2),
        "huber": lambda: mean(
            np.where(abs(y - p) < 0.9, (y - p) ** 2 / 2, 0.9 * (abs(y - p) - 0.45))
        ),
        "fair": lambda: mean(abs(y - p) - np.log1p(abs(y - p))),
        "poisson": lambda: mean(p - y * np.log(p)),
        "poisson_deviance": lambda: sk.mean_poisson_deviance(y, p, sample_weight=w),
        "gamma": lambda: mean(y / p + np.log(p)),
        "gamma_deviance": lambda: sk.mean_gamma_deviance(y, p, sample_weight=w),
        "tweedie": lambda: mean(2 * np.sqrt(p) + 2 * y / np.sqrt(p)),
        "tweedie_deviance": lambda: sk.mean_tweedie_deviance(y, p, power=1.5, sample_weight=w),
        "map": lambda: of_queries(d, average_precision_at_10),
        "precision": lambda: of_queries(d, lambda hits: hits[:10].sum() / 10),
        "mrr": lambda: of_queries(
            d, lambda hits: max([*hits[:10] / np.arange(1, 11)[: len(hits)]])
        ),
    }
    return float(functions[metric]())


def of_queries(d: EvalData, value_of: Callable[[NDArray[np.bool_]], float]) -> float:
    """The mean over queries of a value of their rows, relevant or not, from the top rank down."""
    values = []
    for rows in np.split(np.arange(N), np.cumsum(GROUP)[:-1]):
        order = np.argsort(-d.prediction[rows], kind="stable")
        values.append(value_of(d.label[rows][order] > 0))
    return float(np.mean(values))


def average_precision_at_10(hits: NDArray[np.bool_]) -> float:
    if not hits.any():
        return 1.0
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float((precision * hits)[:10].sum() / min(hits.sum(), 10))


def sklearn_ndcg(d: EvalData, k: int) -> float:
    wanted = []
    for rows in np.split(np.arange(N), np.cumsum(GROUP)[:-1]):
        gain, score = GAINS[d.label[rows].astype(int)], d.prediction[rows]
        if len(rows) == 1 or not gain.any():  # scikit-learn has no value for these
            wanted.append(1.0)
        else:
            wanted.append(sk.ndcg_score([gain], [score], k=k, ignore_ties=True))
    return float(np.mean(wanted))


NAMES = list(METRICS)  # a new metric needs its formula in `expected`


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("metric", NAMES)
def test_against_scikit_learn(metric: str, weight: str) -> None:
    d = data(metric, weight)
    assert value(metric, d) == pytest.approx(expected(metric, d), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("weight", WEIGHTS)
def test_auc_counts_ties_as_half(weight: str) -> None:
    d = data("auc", weight, ties=True)
    assert len(np.unique(d.prediction)) <= 6
    assert value("auc", d) == pytest.approx(expected("auc", d), rel=1e-9)
    constant = EvalData(np.full(N, 0.3), d.label, d.weight, None, GAINS)
    assert value("auc", constant) == 0.5


def test_auc_of_perfect_reversed_and_single_class_predictions() -> None:
    y = np.repeat([0.0, 1.0], [30, 10])
    score = np.arange(40.0)

    def auc(score: NDArray[np.float64], y: NDArray[np.float64]) -> float:
        return value("auc", EvalData(score, y, np.ones(40), None, GAINS))

    assert (auc(score, y), auc(-score, y)) == (1.0, 0.0)
    assert (auc(score, 0 * y), auc(score, 0 * y + 1)) == (0.5, 0.5)


def test_auc_of_huge_weights_is_exact() -> None:
    """Products of weights go far beyond 64 bits."""
    score, y = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.0, 1.0, 0.0, 1.0])
    for scale in (1e-38, 1.0, 1e38):
        weight = scale * np.array([1.0, 1.0, 3.0, 3.0])
        assert value("auc", EvalData(score, y, weight, None, GAINS)) == (1 * 1 + 3 * 4) / (4 * 4)


@pytest.mark.parametrize("k", [1, 3, 10, 1000])
def test_ndcg_against_scikit_learn(k: int) -> None:
    d = data("ndcg")
    found = value(f"ndcg@{k}", d)
    assert found == pytest.approx(sklearn_ndcg(d, k), rel=1e-12)
    assert 0.1 < found < 0.99


def test_ndcg_breaks_ties_by_row_order() -> None:
    group = np.array([4])

    def ndcg(grades: list[float]) -> float:
        d = EvalData(np.zeros(4), np.array(grades), np.ones(4), group, GAINS)
        return value("ndcg@2", d)

    discount = 1 / np.log2([2, 3])
    assert ndcg([2, 0, 1, 0]) == pytest.approx(3 / (3 + discount[1]), rel=1e-12)
    assert ndcg([0, 2, 1, 0]) == pytest.approx(3 * discount[1] / (3 + discount[1]), rel=1e-12)
    assert ndcg([0, 0, 1, 2]) == 0.0


def test_ndcg_of_queries_without_relevant_rows_is_one() -> None:
    label = np.array([0, 0, 0, 1, 0, 0.0])
    d = EvalData(np.array([1, 2, 3, 1, 2, 3.0]), label, np.ones(6), np.array([3, 3]), GAINS)
    assert value("ndcg@3", d) == pytest.approx((1.0 + 0.5) / 2, rel=1e-12)


def shard(d: EvalData, rank: int, size: int, by_query: bool) -> EvalData:
    """This rank's uneven part of the rows; of whole queries if asked."""
    ends = np.cumsum(GROUP) if by_query else np.arange(1, N + 1)
    n = len(ends)
    borders = [n * r * (r + 1) // (size * (size + 1)) for r in range(size + 1)]
    borders = [max(b, r) for r, b in enumerate(borders)]  # at least one each
    first, last = borders[rank], borders[rank + 1]
    rows = slice(0 if first == 0 else int(ends[first - 1]), int(ends[last - 1]))
    group = GROUP[first:last] if by_query else None
    return EvalData(d.prediction[rows], d.label[rows], d.weight[rows], group, GAINS)


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("metric", NAMES)
def test_the_same_bits_on_any_number_of_ranks(metric: str, weight: str) -> None:
    d = data(metric, weight, ties=metric == "auc")
    by_query = "ranking score" in make_metric(metric).judges
    solo = value(metric, d)
    for size in (1, 2, 3, 5):

        def work(comm: Comm) -> float:
            return value(metric, shard(d, comm.rank, comm.size, by_query), comm)

        assert run_threads(size, work) == [solo] * size
    backwards = EvalData(d.prediction[::-1], d.label[::-1], d.weight[::-1], GROUP[::-1], GAINS)
    if not by_query:
        assert value(metric, backwards) == solo


@pytest.mark.parametrize("metric", ["auc", "logloss", "error"])
def test_ranks_without_positives_or_without_weight(metric: str) -> None:
    d = data(metric, "fractions")
    order = np.argsort(d.label, kind="stable")  # the first ranks have negatives only
    d = EvalData(d.prediction[order], d.label[order], d.weight[order].copy(), None, GAINS)
    d.weight[:40] = 0.0
    assert d.label[: N // 3].max() == 0.0

    def work(comm: Comm) -> float:
        rows = np.array_split(np.arange(N), comm.size)[comm.rank]
        part = EvalData(d.prediction[rows], d.label[rows], d.weight[rows], None, GAINS)
        return value(metric, part, comm)

    for size in (3, 10):
        assert run_threads(size, work) == [value(metric, d)] * size
    assert value(metric, d) == pytest.approx(expected(metric, d), rel=1e-9)


def test_directions_and_names() -> None:
    higher = {name for name in NAMES if make_metric(name).higher_is_better}
    assert higher == {
        "auc", "ndcg", "average_precision", "accuracy", "balanced_accuracy", "f1", "kappa", "r2",
        "subset_accuracy", "map", "precision", "mrr",
    }  # fmt: skip
    assert [make_metric(n).name for n in ("ndcg", "ndcg@3", "auc")] == ["ndcg@10", "ndcg@3", "auc"]
    for name, metric in METRICS.items():
        assert judged_by(metric()), f"no objective makes predictions that {name} judges"
        assert all(make_metric(synonym).base_name == name for synonym in metric.synonyms)
    with pytest.raises(ValueError, match="'auc' is taken"):
        register(METRICS["auc"])


@pytest.mark.parametrize("objective", ["binary", "regression", "multiclass", "lambdarank"])
def test_recorded_values_are_those_of_the_predictions(objective: str) -> None:
    """The last value recorded in training is the metric of the finished model's predictions."""
    X = table(N, 4, 3, missing=0.1)
    y = signal(X, 3)
    names, label = {
        "binary": (["auc", "logloss", "error"], y > 0),
        "regression": (["rmse", "mae"], y),
        "multiclass": (["multi_logloss", "multi_error"], np.digitize(y, [-1, 0, 1])),
        "lambdarank": (["ndcg@3", "ndcg", "ndcg@10"], np.clip(np.floor(y + 2), 0, 4)),
    }[objective]
    weight = weights("fractions")
    valid = bg.Dataset(X, label, weight=weight, group=GROUP)
    params = {"objective": objective, "n_estimators": 3, "eval_metric": names, "n_jobs": 1}
    model = bg.train(params, bg.Dataset(X, label, group=GROUP), valid_sets=valid)
    d = EvalData(model.predict(X), label.astype(float), weight, GROUP, GAINS)
    assert model.info is not None
    recorded = {name: values[-1] for name, values in model.info.evals_result["valid_0"].items()}
    assert recorded == pytest.approx({make_metric(n).name: value(n, d) for n in names}, rel=1e-6)
    assert all(len(v) == 3 for v in model.info.evals_result["valid_0"].values())
    if objective != "lambdarank":
        assert recorded == pytest.approx({n: expected(n, d) for n in names}, rel=1e-6)


def test_class_weight_is_not_part_of_the_metrics() -> None:
    """The training set's metrics are comparable with those of validation sets."""
    X = table(N, 4, 3)
    y = (signal(X, 3) > 1).astype(float)
    train_set = bg.Dataset(X, y)
    params = {"objective": "binary", "scale_pos_weight": 5.0, "n_estimators": 2, "n_jobs": 1}
    model = bg.train(params, train_set, valid_sets=[train_set, bg.Dataset(X, y)])
    assert model.info is not None
    assert model.info.evals_result["training"] == model.info.evals_result["valid_1"]
