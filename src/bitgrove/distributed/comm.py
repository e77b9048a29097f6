"""The communicator: what ranks say to each other, all of it integers or exact maxima.

Owns the protocol and the solo case. Every collective is called by all ranks in the same order and
returns the same value on each (reduce_scatter_sum: each rank its own block).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
T = TypeVar("T")


class Comm(Protocol):
    rank: int
    size: int

    def allreduce_sum(self, values: Array) -> Array:
        """Elementwise integer sum over ranks."""

    def allreduce_max(self, values: Array) -> Array:
        """Elementwise maximum over ranks."""

    def reduce_scatter_sum(self, blocks: Sequence[Array]) -> Array:
        """Sum over ranks of blocks[rank], for this rank; blocks has one entry per rank."""

    def allgather(self, values: Array) -> list[Array]:
        """Every rank's array, in rank order; lengths may differ."""

    def broadcast(self, value: T, root: int = 0) -> T:
        """The root's value on every rank."""


class SoloComm:
    """One process holds all rows: every collective is the identity."""

    rank = 0
    size = 1

    def allreduce_sum(self, values: Array) -> Array:
        return values

    def allreduce_max(self, values: Array) -> Array:
        return values

    def reduce_scatter_sum(self, blocks: Sequence[Array]) -> Array:
        return blocks[0]

    def allgather(self, values: Array) -> list[Array]:
        return [values]

    def broadcast(self, value: T, root: int = 0) -> T:
        return value


def rows_before(comm: Comm, n_rows: int) -> tuple[int, int]:
    """(rows on lower ranks, rows on all ranks): the global id of this rank's first row."""
    counts = [int(c[0]) for c in comm.allgather(np.array([n_rows], dtype=np.int64))]
    return sum(counts[: comm.rank]), sum(counts)


def feature_block(comm: Comm, n_features: int, rank: int | None = None) -> tuple[int, int]:
    """The features [first, last) whose histograms a rank owns after the reduction."""
    rank = comm.rank if rank is None else rank
    return n_features * rank // comm.size, n_features * (rank + 1) // comm.size
