"""Random splits, the sets on which defaults go wrong, and paired differences."""

from __future__ import annotations

import math

import numpy as np
import pytest

import bitgrove as bg
from lab.datasets.entry import Wanted, resplit
from lab.datasets.table import DATASETS, SMALL_AND_DIFFICULT
from lab.datasets.task import Task
from lab.experiments import EXPERIMENTS
from lab.experiments.paired.defaults import CANDIDATES, Verdict
from lab.experiments.paired.gains import Paired, paired_gain
from lab.running.experiment import Cell, Results


@pytest.mark.parametrize("name", SMALL_AND_DIFFICULT)
def test_sets_have_the_labels_of_their_objective(name: str) -> None:
    entry = DATASETS[name]
    task = entry.load(Wanted(None, None, 2000))
    assert entry.found(None) and entry.source()
    assert task.name == name and task.objective == entry.objective
    assert task.X_train.dtype == task.y_train.dtype == np.float32
    assert len(task.X_train) <= 2100 and len(task.X_test) > 0
    if entry.objective in ("binary", "multiclass"):
        n_classes = 2 if entry.objective == "binary" else task.n_classes
        assert set(np.unique(task.y_train)) <= set(range(n_classes))


def test_flows_have_rare_classes_on_which_unbounded_leaves_run_away() -> None:
    task = DATASETS["flows"].load(Wanted(None, None, 30_000))
    shares = np.bincount(task.y_train.astype(int), minlength=5) / len(task.y_train)
    assert shares[0] > 0.85 and 0 < shares[4] < 0.001 and np.all(np.diff(shares) < 0)
    losses = {}
    for step in (0, None):
        params = {"objective": "multiclass", "num_class": 5, "num_leaves": 63, "n_estimators": 40,
                  "gradient_bits": None, "max_delta_step": step}  # fmt: skip
        train, test = task.train.dataset(), task.test.dataset()
        with pytest.warns(bg.BitgroveWarning) if step == 0 else _nothing():
            info = bg.train(params, train, valid_sets=test).info
        assert info is not None
        losses[step] = info.evals_result["valid_0"]["multi_logloss"][-1]
    assert losses[0] > 0.04 and losses[None] < 0.02


class _nothing:
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


def test_a_resplit_keeps_rows_and_queries_whole() -> None:
    task = DATASETS["ranking_like"].load(Wanted(None, None, 3000))
    one, two, again = (resplit(task, seed) for seed in (0, 1, 0))
    np.testing.assert_array_equal(one.X_test, again.X_test)
    assert one.X_test.shape != two.X_test.shape or not np.array_equal(one.X_test, two.X_test)

    def rows(of: Task) -> list[bytes]:
        return sorted(row.tobytes() for row in np.concatenate([of.X_train, of.X_test]))

    assert rows(one) == rows(two) == rows(task)
    assert one.group_train is not None and one.group_test is not None
    assert one.group_train.sum() == len(one.y_train) and one.group_test.sum() == len(one.y_test)
    queries = [
        {q.tobytes() for q in X[:, :4]} for X in (one.X_train, one.X_test)
    ]  # the first four columns are the query's
    assert not queries[0] & queries[1]
    assert 0.1 < len(one.y_test) / len(rows(one)) < 0.3


def test_a_resplit_of_weighted_rows_and_at_most_so_many() -> None:
    task = resplit(DATASETS["weights"].load(Wanted(None, None, 4000)), 3, 1000)
    assert 900 < len(task.X_train) < 1100 and len(task.X_test) >= 450
    assert task.weight_train is not None and len(task.weight_train) == len(task.X_train)


def test_paired_gains() -> None:
    assert paired_gain("rmse", [2.0, 4.0], [1.0, 3.0]) == Paired(pytest.approx(100 / 3), 0.0)
    gain = paired_gain("ndcg@10", [0.5, 0.5, 0.5], [0.5, 0.51, 0.52])
    assert gain.mean == pytest.approx(2.0) and gain.error == pytest.approx(2 / math.sqrt(3))
    assert not gain.beyond_noise and Paired(-1.0, 0.4).beyond_noise
    assert Paired(-1.0, 0.4).text() == "-1.00 ± 0.40*" and Paired(0.0, 0.0).text() == "+0.00 ± 0.00"


def test_a_verdict_names_what_diverges() -> None:
    values = {candidate: 0.1 + 0.001 * n for n, candidate in enumerate(CANDIDATES)}
    values["LightGBM's"] = 0.9
    results: Results = [
        (Cell("flows", f"{candidate}, full", seed), {"multi_logloss": value + 0.001 * seed})
        for seed in range(2)
        for candidate, value in values.items()
    ]
    verdict = Verdict("full", {"flows": "multiclass"}, results)
    assert verdict.diverged("LightGBM's") == ["flows"] and verdict.diverged("lambda 1") == []
    assert verdict.gain("flows", "lambda 1").mean > 80
    assert "flows" in verdict.summary().splitlines()[2]


def test_both_are_registered() -> None:
    assert {"defaults", "ranking_bits"} <= set(EXPERIMENTS)
