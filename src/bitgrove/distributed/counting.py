"""A Comm that counts: what crosses between ranks, how often, and how long that takes.

Receives any Comm and passes everything on. Bytes are those of the values this rank has to send, in
the cheapest algorithm: its blocks for the others (alltoall), its array to each other rank
(allgather, broadcast), twice all but its share of the array (allreduce). What a network adds to
that (headers, acknowledgements) has to be measured on the network.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from bitgrove.distributed.comm import Array, Comm, WrappedComm

T = TypeVar("T")


class CountingComm(WrappedComm):
    """The semantics of Comm; `calls` and `sent_bytes` by collective, `seconds` in all of them."""

    def __init__(self, comm: Comm) -> None:
        super().__init__(comm)
        self.calls: Counter[str] = Counter()
        self.sent_bytes: Counter[str] = Counter()
        self.seconds = 0.0

    def _count(self, name: str, n_bytes: float, call: Callable[[], T]) -> T:
        started = time.perf_counter()
        result = call()
        self.seconds += time.perf_counter() - started
        self.calls[name] += 1
        self.sent_bytes[name] += round(n_bytes)
        return result

    def allreduce_sum(self, values: Array) -> Array:
        n_bytes = 2 * values.nbytes * (self.size - 1) / self.size
        return self._count("allreduce", n_bytes, lambda: self.comm.allreduce_sum(values))

    def allreduce_max(self, values: Array) -> Array:
        n_bytes = 2 * values.nbytes * (self.size - 1) / self.size
        return self._count("allreduce", n_bytes, lambda: self.comm.allreduce_max(values))

    def allgather(self, values: Array, *, equal: bool = False) -> list[Array]:
        n_bytes = values.nbytes * (self.size - 1)
        return self._count("allgather", n_bytes, lambda: self.comm.allgather(values, equal=equal))

    def alltoall(self, blocks: Sequence[Array]) -> list[Array]:
        n_bytes = sum(block.nbytes for rank, block in enumerate(blocks) if rank != self.rank)
        return self._count("alltoall", n_bytes, lambda: self.comm.alltoall(blocks))

    def broadcast(self, values: Array, root: int = 0) -> Array:
        n_bytes = values.nbytes * (self.size - 1) if self.rank == root else 0
        return self._count("broadcast", n_bytes, lambda: self.comm.broadcast(values, root))
