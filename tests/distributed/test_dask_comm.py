"""The communicator on Dask: collectives, failures, and what a worker keeps afterwards."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from distributed import Client, Security, wait

from bitgrove.distributed.dask.comm import DaskComm, end_training, open_post_office
from bitgrove.distributed.dask.training import _workers
from bitgrove.errors import RankFailure, TrainingError
from dask_cases import cluster_of


@pytest.fixture(scope="module", params=["inproc", "tcp", "tls"])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    """Three workers in this process that talk in each of Dask's ways."""
    security = Security.temporary() if request.param == "tls" else None
    with cluster_of(3, protocol=request.param, security=security) as client:
        client.run(open_post_office)
        yield client


def run_ranks(client: Client, work: Callable[..., Any], timeout: float = 20.0) -> list[Any]:
    """work(comm) on each worker; results, or errors, in rank order."""
    addresses = sorted(client.scheduler_info()["workers"])

    def rank_task(rank: int) -> Any:
        with DaskComm("test", rank, addresses, timeout) as comm:
            return work(comm)

    ranks = [
        client.submit(rank_task, rank, workers=[address], pure=False)
        for rank, address in enumerate(addresses)
    ]
    wait(ranks, timeout=60)
    client.run(end_training, "test")
    return [rank.exception() or rank.result() for rank in ranks]


def collectives(comm: DaskComm) -> tuple[Any, ...]:
    comm.meet()
    mine = np.array([comm.rank, 10 * comm.rank], dtype=np.int64)
    blocks = [np.array([100 * comm.rank + r]) for r in range(comm.size)]
    dealt = [int(block[0]) for block in comm.alltoall(blocks)]
    blocks[0][:] = -1  # what was sent is not what is written later
    return (
        comm.allreduce_sum(mine).tolist(),
        comm.allreduce_max(mine).tolist(),
        dealt,
        [len(a) for a in comm.allgather(np.zeros(comm.rank))],
        [a.tolist() for a in comm.alltoall([np.full(r, comm.rank) for r in range(comm.size)])],
        comm.broadcast(mine, root=2).tolist(),
        comm.n_messages,
    )


def test_collectives(client: Client) -> None:
    assert run_ranks(client, collectives) == [
        (
            [3, 30],
            [2, 20],
            [r, 100 + r, 200 + r],
            [0, 1, 2],
            [[0] * r, [1] * r, [2] * r],
            [2, 20],
            14,
        )
        for r in range(3)
    ]


def test_large_blocks(client: Client) -> None:
    def work(comm: DaskComm) -> int:
        blocks = [np.full(3_000_000, r + 1, dtype=np.int32) for r in range(comm.size)]
        for block in comm.alltoall(blocks):
            assert block.dtype == np.int32 and (block == comm.rank + 1).all()
        return comm.n_bytes

    assert run_ranks(client, work) == [24_000_000] * 3


def test_a_failure_reaches_all(client: Client) -> None:
    def work(comm: DaskComm) -> None:
        if comm.rank == 1:
            comm.fail("MemoryError: too much")
            raise MemoryError("too much")
        comm.allreduce_sum(np.zeros(1))

    zero, one, two = run_ranks(client, work)
    assert isinstance(one, MemoryError)
    for error in (zero, two):
        assert isinstance(error, RankFailure)
        assert (error.rank, error.reason) == (1, "MemoryError: too much")


def test_a_silent_rank_is_named(client: Client) -> None:
    def work(comm: DaskComm) -> float:
        comm.meet()
        comm.timeout = 0.5
        if comm.rank == 2:
            time.sleep(2.5)
        started = time.monotonic()
        try:
            comm.allreduce_sum(np.zeros(1))
        except RankFailure as failure:
            assert failure.rank == 2 and "no word from it for 0.5 s" in failure.reason
            return time.monotonic() - started
        return -1.0

    assert all(0.0 <= waited < 2.4 for waited in run_ranks(client, work))


def test_a_rank_that_stops_early_is_named(client: Client) -> None:
    def work(comm: DaskComm) -> None:
        comm.meet()
        if comm.rank != 0:
            comm.allreduce_sum(np.zeros(1))

    _, one, two = run_ranks(client, work)
    assert isinstance(one, RankFailure) and one.rank == 0
    assert isinstance(two, RankFailure) and two.rank == 0


def test_nothing_stays_behind(client: Client) -> None:
    run_ranks(client, collectives)

    def leftovers(dask_worker: Any) -> tuple[int, int]:
        receiving = [op for op in dask_worker._comms.values() if op == "bitgrove_receive"]
        return len(dask_worker.extensions["bitgrove"]._boxes), len(receiving)

    deadline = time.monotonic() + 10
    while set(client.run(leftovers).values()) != {(0, 0)} and time.monotonic() < deadline:
        time.sleep(0.1)
    assert set(client.run(leftovers).values()) == {(0, 0)}


ENDED: list[str] = []


def wait_alone(addresses: list[str]) -> None:
    try:
        with DaskComm("lonely", 0, addresses) as comm:
            comm.meet()
    except TrainingError as error:
        ENDED.append(str(error))


def test_a_cancelled_training_ends(client: Client) -> None:
    """Rank 0 waits for the others, which never come, until nobody wants it."""
    addresses = sorted(client.scheduler_info()["workers"])
    ENDED.clear()
    waiting = client.submit(wait_alone, addresses, workers=[addresses[0]], pure=False)
    time.sleep(0.5)
    assert not ENDED
    waiting.cancel(force=True)
    deadline = time.monotonic() + 20
    while not ENDED and time.monotonic() < deadline:
        time.sleep(0.1)
    assert ENDED == ["the training was cancelled"]
    client.run(end_training, "lonely")


def test_a_worker_that_answers_nothing_is_not_waited_for(client: Client) -> None:
    """As one that is stopped: its machine takes the connection, it never says a word."""

    def rank_task(addresses: list[str]) -> float:
        started = time.monotonic()
        with (
            pytest.raises(RankFailure, match=r"rank 1: no word from it for 0.5 s"),
            DaskComm("silent", 0, addresses, 0.5),
        ):
            pass
        return time.monotonic() - started

    own = min(client.scheduler_info()["workers"])
    scheme = own.partition("://")[0]
    if scheme == "inproc":
        pytest.skip("has no connections")
    with socket.create_server(("127.0.0.1", 0)) as server:
        silent = f"{scheme}://127.0.0.1:{server.getsockname()[1]}"
        waited = client.submit(rank_task, [own, silent], workers=[own], pure=False).result(30)
    client.run(end_training, "silent")
    assert waited < 20


def test_workers_are_there_while_the_client_counts_them(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every two seconds a client keeps a description of the cluster that names no worker."""

    async def only_totals(n_workers: int = 0) -> None:
        client._scheduler_identity = {"workers": {}}  # type: ignore[assignment]

    monkeypatch.setattr(client, "_update_scheduler_info", only_totals)
    assert len(_workers(client)) == 3
