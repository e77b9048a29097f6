"""Every registered metric on the GPU: the body of tests/objectives/test_panels.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.backends.cpu import CpuBackend
from bitgrove.backends.reference import ReferenceBackend
from bitgrove.distributed import run_threads
from bitgrove.distributed.comm import Comm
from bitgrove.objectives.metrics import Metric, make_metric
from bitgrove.objectives.metrics.values import Mae
from cases import signal, table
from panel_cases import KINDS, SIZES, WEIGHTS, Judged, check_panel, judge, judged_sets, part

ORACLE = ReferenceBackend()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("n_rows", [*SIZES, 2047, 2048, 2049])
def test_the_gpu_has_the_bits_of_the_oracle(
    backend: Any, n_rows: int, weight: str, kind: str
) -> None:
    check_panel(backend, ORACLE, n_rows, weight, kind)


@pytest.mark.parametrize("kind", ["one", "ties"])
@pytest.mark.parametrize("n_rows", [300_000, pytest.param(1_000_003, marks=pytest.mark.real_gpu)])
def test_many_tiles_of_the_sort(backend: Any, n_rows: int, kind: str) -> None:
    asked = [make_metric(name) for name in ("auc", "average_precision", "ndcg", "map")]
    *_, ranking = judged_sets(n_rows, "fractions", kind)
    one = ranking._replace(metrics=asked)
    assert judge(backend, [one]) == judge(CpuBackend(), [one])


@pytest.mark.parametrize("scores", ["equal", "two", "ascending", "wide"])
def test_orders_of_all_kinds(backend: Any, scores: str) -> None:
    *_, one = judged_sets(10_000, "none", "one")
    n = 10_000
    values = {
        "equal": np.full(n, 0.25),
        "two": np.where(np.arange(n) % 3 == 0, -0.0, 1e-300),
        "ascending": np.arange(n) - 5000.0,
        "wide": np.random.default_rng(1).normal(size=n) * 10.0 ** (np.arange(n) % 600 - 300.0),
    }[scores]
    one = one._replace(
        scores=values[None].copy(), metrics=[make_metric("auc"), make_metric("average_precision")]
    )
    assert judge(backend, [one]) == judge(ORACLE, [one])


def test_several_sets_at_once(backend: Any) -> None:
    first, *_ = judged_sets(300, "none", "one", seed=1)
    second, *_ = judged_sets(5000, "fractions", "ties", seed=2)
    assert judge(backend, [first, second]) == judge(ORACLE, [first, second])


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_on_different_backends(backend: Any, kind: str) -> None:
    """The GPU's rank sends the messages of the others."""
    for one in judged_sets(400, "fractions", kind):
        wanted = judge(ORACLE, [one])

        def work(comm: Comm, one: Judged = one) -> list[list[float]]:
            own = backend if comm.rank == 0 else ORACLE
            return judge(own, [part(one, comm.rank, comm.size)], comm)

        for size in (2, 3):
            assert run_threads(size, work) == [wanted] * size


class NoKernel(Mae):
    kernel = None


def test_a_metric_without_a_kernel(backend: Any) -> None:
    """It is made of a copy on the host."""
    sets = [s for s in judged_sets(700, "fractions", "one") if "mae" in names(s.metrics)]
    asked: list[Metric] = [NoKernel(), make_metric("mae"), NoKernel()]
    for one in sets:
        assert judge(backend, [one._replace(metrics=asked)]) == judge(
            ORACLE, [one._replace(metrics=asked)]
        )


def names(metrics: list[Metric]) -> list[str]:
    return [metric.name for metric in metrics]


def test_training_records_the_values_of_the_cpu(backend: Any) -> None:
    """Several sets, the training set among them, with a function of the user's."""
    X = table(3000, 5, 1, missing=0.1)
    y = (signal(X, 1) > 0.75).astype(float)
    weight = np.random.default_rng(1).exponential(size=3000)

    def gap(label: Any, prediction: Any) -> tuple[str, float, bool]:
        return "gap", float(np.abs(label - prediction).max()), False

    results, best = [], []
    for device in ("cpu", "cuda"):
        data = bg.Dataset(X[:2000], y[:2000], weight=weight[:2000])
        valid = bg.Dataset(X[2000:], y[2000:], weight=weight[2000:])
        params = {
            "objective": "binary", "n_estimators": 20, "learning_rate": 0.5, "device": device,
            "eval_metric": ["auc", "logloss", "f1", "average_precision", gap],
            "early_stopping_rounds": 3,
        }  # fmt: skip
        model = bg.train(params, data, valid_sets=[data, valid])
        results.append(model.info.evals_result)
        best.append(model.best_iteration)
    assert results[0] == results[1] and best[0] == best[1]
