"""Ranks as threads of one process: for tests, and to try sharded training without a cluster.

Owns ThreadComm and run_threads. A rank that raises breaks the barrier, so that the others stop
with an error instead of waiting for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from bitgrove.distributed.comm import Array
from bitgrove.errors import TrainingError

T = TypeVar("T")


class _Board:
    """What the ranks share: one slot each and a barrier."""

    def __init__(self, size: int) -> None:
        self.values: list[Any] = [None] * size
        self.barrier = threading.Barrier(size)


class ThreadComm:
    """Collectives over a shared board; the semantics of Comm."""

    def __init__(self, rank: int, size: int, board: _Board) -> None:
        self.rank = rank
        self.size = size
        self._board = board

    def _exchange(self, value: T) -> list[T]:
        try:
            self._board.values[self.rank] = value
            self._board.barrier.wait()
            everyone = list(self._board.values)
            self._board.barrier.wait()
        except threading.BrokenBarrierError:
            raise TrainingError(f"rank {self.rank} stopped because another rank failed") from None
        return everyone

    def allreduce_sum(self, values: Array) -> Array:
        return np.asarray(np.sum(self._exchange(values), axis=0, dtype=values.dtype))

    def allreduce_max(self, values: Array) -> Array:
        return np.asarray(np.max(self._exchange(values), axis=0))

    def reduce_scatter_sum(self, blocks: Sequence[Array]) -> Array:
        mine = [theirs[self.rank] for theirs in self._exchange(blocks)]
        result = np.asarray(np.sum(mine, axis=0, dtype=blocks[self.rank].dtype))
        self._exchange(None)  # the blocks may be views: nobody writes before all have read
        return result

    def allgather(self, values: Array) -> list[Array]:
        return [np.array(v) for v in self._exchange(np.array(values))]

    def broadcast(self, value: T, root: int = 0) -> T:
        return self._exchange(value)[root]


def run_threads(n_ranks: int, work: Callable[[ThreadComm], T]) -> list[T]:
    """Runs work(comm) on n_ranks threads and returns the results in rank order.

    If ranks fail, the first failure that is not an echo of another one is raised.
    """
    board = _Board(n_ranks)
    results: list[Any] = [None] * n_ranks
    failures: list[BaseException | None] = [None] * n_ranks

    def run(rank: int) -> None:
        try:
            results[rank] = work(ThreadComm(rank, n_ranks, board))
        except BaseException as failure:
            failures[rank] = failure
            board.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(n_ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    raised = [f for f in failures if f is not None]
    if raised:
        causes = [f for f in raised if "another rank failed" not in str(f)]
        raise (causes or raised)[0]
    return results
