"""Ranks as threads of one process: for tests, and to try sharded training without a cluster.

Owns ThreadComm and run_threads. The ranks meet at a barrier; a rank that fails breaks it and leaves
its reason on the board, so that the others stop with it instead of waiting.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from bitgrove.distributed.comm import DEFAULT_TIMEOUT, Array, Comm, fails_together
from bitgrove.errors import RankFailure

T = TypeVar("T")


class _Board:
    """What the ranks share: a slot and a count of arrivals each, a barrier, the first failure."""

    def __init__(self, size: int) -> None:
        self.values: list[Any] = [None] * size
        self.arrivals = [0] * size
        self.barrier = threading.Barrier(size)
        self.failure: tuple[int, str] | None = None
        self._lock = threading.Lock()

    def fail(self, rank: int, reason: str) -> None:
        with self._lock:
            self.failure = self.failure or (rank, reason)
        self.barrier.abort()


class ThreadComm(Comm):
    """Collectives over a shared board; the semantics of Comm."""

    def __init__(self, rank: int, size: int, board: _Board) -> None:
        self.rank = rank
        self.size = size
        self.timeout = DEFAULT_TIMEOUT
        self._board = board

    def _meet(self) -> None:
        board = self._board
        board.arrivals[self.rank] += 1
        try:
            board.barrier.wait(self.timeout)
        except threading.BrokenBarrierError:
            if board.failure is None:
                silent = int(np.argmin(board.arrivals))
                board.fail(silent, f"no word from it for {self.timeout:g} s")
            assert board.failure is not None
            raise RankFailure(*board.failure) from None

    def _exchange(self, value: T) -> list[T]:
        self._board.values[self.rank] = value
        self._meet()
        everyone = list(self._board.values)
        self._meet()
        return everyone

    def allreduce_sum(self, values: Array) -> Array:
        return np.asarray(np.sum(self._exchange(values), axis=0, dtype=values.dtype))

    def allreduce_max(self, values: Array) -> Array:
        return np.asarray(np.max(self._exchange(values), axis=0))

    def allgather(self, values: Array, *, equal: bool = False) -> list[Array]:
        return [np.array(v) for v in self._exchange(np.array(values))]

    def alltoall(self, blocks: Sequence[Array]) -> list[Array]:
        return [np.array(theirs[self.rank]) for theirs in self._exchange([*map(np.array, blocks)])]

    def broadcast(self, values: Array, root: int = 0) -> Array:
        return np.array(self._exchange(np.array(values))[root])

    def fail(self, reason: str) -> None:
        self._board.fail(self.rank, reason)

    def check(self) -> None:
        if self._board.failure is not None:
            raise RankFailure(*self._board.failure)


def run_threads(n_ranks: int, work: Callable[[ThreadComm], T]) -> list[T]:
    """Runs work(comm) on n_ranks threads and returns the results in rank order.

    If ranks fail, the first failure that is not an echo of another one is raised.
    """
    board = _Board(n_ranks)
    results: list[Any] = [None] * n_ranks
    failures: list[BaseException | None] = [None] * n_ranks

    def run(rank: int) -> None:
        comm = ThreadComm(rank, n_ranks, board)
        try:
            with fails_together(comm):
                results[rank] = work(comm)
        except BaseException as failure:
            failures[rank] = failure

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(n_ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    raised = [f for f in failures if f is not None]
    if raised:
        causes = [f for f in raised if not isinstance(f, RankFailure)]
        raise (causes or raised)[0]
    return results
