"""Ranks that do not fit together, or fail: one error everywhere, naming the rank; never a hang."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.distributed import Comm, ThreadComm, run_threads
from bitgrove.errors import RankFailure
from cases import CASES, signal, table

X = table(90, 3, 0)
Y = signal(X, 0)
PARAMS = {"objective": "regression", "n_estimators": 2, "num_leaves": 4, "min_child_samples": 2}


def outcomes(n_ranks: int, work: Callable[[Comm], Any]) -> list[BaseException | Any]:
    """What each rank raised or returned."""

    def caught(comm: ThreadComm) -> Any:
        try:
            return work(comm)
        except Exception as error:
            return error

    return run_threads(n_ranks, caught)


def shard(comm: Comm, **changes: Any) -> bg.Dataset:
    mine = slice(30 * comm.rank, 30 * (comm.rank + 1))
    given = {"X": X[mine], "label": Y[mine], **changes}
    return bg.Dataset(given.pop("X"), given.pop("label"), **given)


@pytest.mark.parametrize("empty", [0, 1, 2])
def test_a_rank_without_rows_takes_part(empty: int) -> None:
    """Also when its empty Dataset was made without the weights that the others have."""
    for name in ("regression weighted", "binary sampled", "multiclass", "regression heavy tail"):
        case = CASES[name]()
        borders = np.delete([0, 0, len(case.y), len(case.y)], empty).tolist()
        borders = sorted([*borders, len(case.y) // 3])

        def work(comm: Comm, case: Any = case, borders: list[int] = borders) -> str:
            rows = slice(borders[comm.rank], borders[comm.rank + 1])
            weight = None if case.weight is None or rows.start == rows.stop else case.weight[rows]
            dataset = bg.Dataset(case.X[rows], case.y[rows], weight=weight)
            return bg.train({**case.params, "n_jobs": 1}, dataset, comm=comm).digest()

        assert set(run_threads(3, work)) == {case.train().digest()}


def test_ranking_and_validation_with_a_rank_without_rows() -> None:
    case = CASES["ranking early stopping"]()
    assert case.valid is not None

    def work(comm: Comm) -> str:
        rows = slice(None) if comm.rank == 1 else slice(0, 0)
        group = case.group if comm.rank == 1 else None
        X, y, valid_group = case.valid  # type: ignore[misc]
        valid = bg.Dataset(X[rows], y[rows], group=valid_group if comm.rank == 1 else None)
        dataset = bg.Dataset(case.X[rows], case.y[rows], group=group)
        params = {**case.params, "n_jobs": 1}
        return bg.train(params, dataset, valid_sets=valid, comm=comm).digest()

    assert set(run_threads(3, work)) == {case.train().digest()}


def test_shards_of_float32_and_float64_are_the_table_of_both() -> None:
    narrow = X.copy()
    narrow[:30] = narrow[:30].astype(np.float32)

    def work(comm: Comm) -> str:
        mine = X[30 * comm.rank : 30 * comm.rank + 30]
        mine = mine.astype(np.float32) if comm.rank == 0 else mine
        return bg.train(PARAMS, shard(comm, X=mine), comm=comm).digest()

    assert set(run_threads(3, work)) == {bg.train(PARAMS, bg.Dataset(narrow, Y)).digest()}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": X[:30, :2]}, "rank 0 has 3 features but rank 1 has 2"),
        ({"feature_names": ["f0", "f2", "f1"]}, "column 1 is 'f1' on rank 0 but 'f2' on rank 1"),
        ({"weight": np.ones(30)}, "weight: rank 1 has one but rank 0 has none"),
        ({"label": None}, "label: rank 0 has one but rank 1 has none"),
        ({"group": [30]}, "group: rank 1 has one but rank 0 has none"),
    ],
)
def test_shards_that_differ(change: dict[str, Any], message: str) -> None:
    def work(comm: Comm) -> bg.Model:
        return bg.train(PARAMS, shard(comm, **(change if comm.rank == 1 else {})), comm=comm)

    errors = outcomes(3, work)
    assert [type(e) for e in errors] == [bg.DataError] * 3
    assert all(message in str(e) for e in errors)


def test_parameters_that_differ() -> None:
    def work(comm: Comm, name: str, value: Any) -> bg.Model:
        changed = {name: value} if comm.rank == 2 else {}
        return bg.train({**PARAMS, **changed}, shard(comm), comm=comm)

    for name, value in [("num_leaves", 5), ("objective", "binary"), ("frontier_alpha", 0.5)]:
        errors = outcomes(3, lambda comm, n=name, v=value: work(comm, n, v))
        assert [type(e) for e in errors] == [bg.ParameterError] * 3
        assert all(f"{name}: rank 0 has" in str(e) and "rank 2 has" in str(e) for e in errors)
    models = outcomes(3, lambda comm: work(comm, "verbosity", -1))  # everyone's own affair
    assert len({m.digest() for m in models}) == 1


def test_validation_sets_that_differ() -> None:
    def work(comm: Comm) -> bg.Model:
        valid = [shard(comm)] * (1 + comm.rank // 2)
        return bg.train(PARAMS, shard(comm), valid_sets=valid, comm=comm)

    errors = outcomes(3, work)
    assert all("validation sets: rank 0 has ['valid_0'] but rank 2" in str(e) for e in errors)


@pytest.mark.parametrize(
    ("params", "label", "message"),
    [
        ({"objective": "binary"}, np.full(30, 2.0), "needs labels 0 and 1"),
        ({"objective": "multiclass"}, np.full(30, -1.0), "needs whole labels"),
        ({"n_estimators": 0}, None, "n_estimators=0"),
    ],
)
def test_a_fault_of_one_rank_ends_all(params: dict[str, Any], label: Any, message: str) -> None:
    def work(comm: Comm) -> bg.Model:
        good = {**PARAMS, **(params if label is not None else {})}
        bad = {**PARAMS, **params}
        mine = label if comm.rank == 1 and label is not None else np.arange(30) % 2.0
        return bg.train(bad if comm.rank == 1 else good, shard(comm, label=mine), comm=comm)

    errors = outcomes(3, work)
    assert message in str(errors[1]) and not isinstance(errors[1], RankFailure)
    for error in (errors[0], errors[2]):
        assert isinstance(error, RankFailure) and error.rank == 1
        assert "rank 1: " in str(error) and message in str(error)


def test_a_silent_rank_is_named_within_the_timeout() -> None:
    def work(comm: Comm) -> bg.Model | None:
        if comm.rank == 1:
            time.sleep(1.5)
            return None
        return bg.train({**PARAMS, "distributed_timeout": 0.5}, shard(comm), comm=comm)

    started = time.monotonic()
    errors = outcomes(3, work)
    assert time.monotonic() - started < 30
    for error in (errors[0], errors[2]):
        assert isinstance(error, RankFailure) and error.rank == 1
        assert "no word from it for 0.5 s" in str(error)


def test_a_callback_that_stops_one_rank_stops_all() -> None:
    def work(comm: Comm) -> int:
        stop = [lambda state: state.iteration == 2] if comm.rank == 2 else []
        params = {**PARAMS, "n_estimators": 9}
        return bg.train(params, shard(comm), comm=comm, callbacks=stop).n_iterations

    assert run_threads(3, work) == [2, 2, 2]


def test_no_rows_at_all_is_an_error_on_every_rank() -> None:
    errors = outcomes(2, lambda comm: bg.train(PARAMS, bg.Dataset(X[:0], Y[:0]), comm=comm))
    assert all("0 sample(s)" in str(e) for e in errors)
    zeros = np.zeros(30)
    errors = outcomes(2, lambda c: bg.train(PARAMS, shard(c, weight=zeros), comm=c))
    assert all("all weights are zero" in str(e) for e in errors)


def test_a_rank_failure_travels_between_processes() -> None:
    copy = pickle.loads(pickle.dumps(RankFailure(3, "DataError: label")))
    assert (copy.rank, copy.reason, str(copy)) == (
        3,
        "DataError: label",
        "rank 3: DataError: label",
    )
