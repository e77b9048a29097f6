"""Sharded training: the same bytes on every rank and for every number of ranks."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.distributed import SoloComm, ThreadComm, run_threads
from bitgrove.distributed.comm import feature_block
from cases import CASES, Case


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 5])
def test_digests_equal_solo(case: Case, solo_digest: str, n_ranks: int) -> None:
    models = case.train_on_shards(n_ranks, n_jobs=1)
    assert [model.digest() for model in models] == [solo_digest] * n_ranks


@pytest.mark.parametrize("name", ["binary 3 bits nearest", "ranking", "regression weighted"])
def test_reference_shards_equal_solo(name: str) -> None:
    case = CASES[name]()
    digest = case.train(device="reference").digest()
    assert {m.digest() for m in case.train_on_shards(3, device="reference")} == {digest}


@pytest.mark.parametrize("name", ["binary 2 bits", "binary 5 bits regularised", "multiclass"])
def test_unpacked_shards_equal_solo(name: str) -> None:
    case = CASES[name]()
    models = case.train_on_shards(3, n_jobs=1, packed=False)
    assert {m.digest() for m in models} == {case.train().digest()}


def test_more_ranks_than_features() -> None:
    case = CASES["tall narrow"]()
    assert {m.digest() for m in case.train_on_shards(4, n_jobs=1)} == {case.train().digest()}


def test_a_failing_rank_ends_all_with_its_error() -> None:
    case = CASES["regression"]()

    def work(comm: ThreadComm) -> bg.Model:
        y = case.y[comm.rank :: 3].copy()
        if comm.rank == 1:
            raise MemoryError("rank 1 lost its shard")
        return bg.train(case.params, bg.Dataset(case.X[comm.rank :: 3], y), comm=comm)

    before = threading.active_count()
    with pytest.raises(MemoryError, match="rank 1 lost its shard"):
        run_threads(3, work)
    assert threading.active_count() == before


def test_collectives() -> None:
    def work(comm: ThreadComm) -> tuple[list[int], ...]:
        mine = np.array([comm.rank, 10 * comm.rank], dtype=np.int64)
        blocks = [np.array([100 * comm.rank + r]) for r in range(comm.size)]
        return (
            comm.allreduce_sum(mine).tolist(),
            comm.allreduce_max(mine).tolist(),
            [len(a) for a in comm.allgather(np.zeros(comm.rank + 1))],
            [a.tolist() for a in comm.alltoall(blocks)],
            comm.broadcast(mine, root=2).tolist(),
        )

    assert run_threads(3, work) == [
        (
            [3, 30],
            [2, 20],
            [1, 2, 3],
            [[r], [100 + r], [200 + r]],
            [2, 20],
        )
        for r in range(3)
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_feature_blocks_cover_all_features_once(size: int) -> None:
    comm = SoloComm()
    comm.size = size
    blocks = [feature_block(comm, 5, rank) for rank in range(size)]
    assert [f for first, last in blocks for f in range(first, last)] == list(range(5))
