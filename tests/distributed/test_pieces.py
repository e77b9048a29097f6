"""Shards joined from pieces that are no neighbours: row ids follow the order of the whole table."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bitgrove as bg
from bitgrove.data.row_ids import RowRun, number_rows, row_ids
from bitgrove.distributed import SoloComm, ThreadComm, run_threads
from bitgrove.errors import DataError
from cases import Case


def pieces_of(case: Case, n_pieces: int) -> list[bg.Dataset]:
    """The rows in n_pieces uneven pieces, cut between queries."""
    borders = case._borders(n_pieces)
    pieces = []
    for begin, end in pairwise(borders):
        group = case.group
        if group is not None:
            ends = np.cumsum(group)
            group = group[(ends > begin) & (ends <= end)]
        weight = None if case.weight is None else case.weight[begin:end]
        extra = {"weight": weight, "group": group, **case.kinds}
        pieces.append(bg.Dataset(case.X[begin:end], case.y[begin:end], **extra))
    return pieces


def test_dealt_pieces_equal_solo(case: Case, solo_digest: str) -> None:
    """Every third piece to a rank, in another order than in the table."""
    pieces = pieces_of(case, 8)

    def work(comm: ThreadComm) -> bg.Model:
        mine = list(range(comm.rank, 8, 3))[::-1]
        shard = bg.Dataset.joined([pieces[i] for i in mine], mine)
        valid = None if case.valid is None else bg.Dataset(*case.valid[:2], group=case.valid[2])
        params = {**case.params, "n_jobs": 1}
        return bg.train(params, shard, valid_sets=valid, comm=comm)

    assert {m.digest() for m in run_threads(3, work)} == {solo_digest}


def test_zero_weights_keep_the_order() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)), rng.normal(size=400)
    weight = rng.integers(0, 3, size=400) / 2
    weight[100:200] = 0.0  # a piece of which nothing is left
    params = {"objective": "regression", "n_estimators": 4, "gradient_bits": 2}
    params |= {"subsample": 0.7, "bin_sample_rows": 100}
    solo = bg.train(params, bg.Dataset(X, y, weight=weight))

    def work(comm: ThreadComm) -> bg.Model:
        mine = [3, 1] if comm.rank else [0, 2]
        rows = [slice(100 * i, 100 * i + 100) for i in mine]
        shard = bg.Dataset.joined([bg.Dataset(X[r], y[r], weight=weight[r]) for r in rows], mine)
        return bg.train({**params, "n_jobs": 1}, shard, comm=comm)

    assert {m.digest() for m in run_threads(2, work)} == {solo.digest()}


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=12))
def test_every_row_has_its_own_id(dealt: list[tuple[int, int]]) -> None:
    """dealt: (rank, rows) of each piece of the table."""

    def work(comm: ThreadComm) -> list[int]:
        mine = [(p, size) for p, (rank, size) in enumerate(dealt) if rank == comm.rank][::-1]
        runs, n_total = number_rows(comm, sum(size for _, size in mine), mine)
        assert n_total == sum(size for _, size in dealt)
        assert [r.begin for r in runs[1:]] == [r.end for r in runs[:-1]]
        return row_ids(runs).tolist()

    starts = np.cumsum([0, *(size for _, size in dealt)])
    for rank, found in enumerate(run_threads(3, work)):
        pieces = [p for p, (owner, _) in enumerate(dealt) if owner == rank][::-1]
        assert found == [i for p in pieces for i in range(starts[p], starts[p + 1])]


def test_a_rank_without_rows_takes_no_position() -> None:
    """Its number is the position of somebody's piece: that piece keeps its ids."""

    def work(comm: ThreadComm) -> list[int]:
        mine = {0: [(0, 3), (2, 2)], 1: [(1, 4)], 2: None}[comm.rank]
        n_rows = sum(size for _, size in mine or [])
        return row_ids(number_rows(comm, n_rows, mine)[0]).tolist()

    assert run_threads(3, work) == [[0, 1, 2, 7, 8], [3, 4, 5, 6], []]


def test_an_empty_shard_beside_pieces_equals_solo(case: Case, solo_digest: str) -> None:
    pieces = pieces_of(case, 4)

    def work(comm: ThreadComm) -> bg.Model:
        mine = {0: [2, 0], 1: [3, 1], 2: []}[comm.rank]
        nothing = bg.Dataset(case.X[:0])
        shard = bg.Dataset.joined([pieces[i] for i in mine], mine) if mine else nothing
        valid = None if case.valid is None else bg.Dataset(*case.valid[:2], group=case.valid[2])
        return bg.train({**case.params, "n_jobs": 1}, shard, valid_sets=valid, comm=comm)

    assert {m.digest() for m in run_threads(3, work)} == {solo_digest}


def test_two_pieces_at_one_position_are_refused() -> None:
    def work(comm: ThreadComm) -> None:
        number_rows(comm, 3, [(5, 3)])

    with pytest.raises(DataError, match="position 5"):
        run_threads(2, work)


def test_neighbours_are_one_run() -> None:
    runs, n_total = number_rows(SoloComm(), 9, [(0, 2), (1, 3), (2, 4)])
    assert (runs, n_total) == ([RowRun(0, 9, 0)], 9)
    runs, _ = number_rows(SoloComm(), 7, None)
    assert runs == [RowRun(0, 7, 0)]


def test_too_many_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bitgrove.data.dataset.MAX_ROWS", 5)
    piece = bg.Dataset(np.zeros((3, 1)), np.zeros(3))
    with pytest.raises(DataError, match="6 rows"):
        bg.Dataset.joined([piece, piece], [0, 1])
