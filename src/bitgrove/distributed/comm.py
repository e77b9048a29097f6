"""The communicator: what ranks say to each other, all of it integers or exact maxima.

Owns the protocol, the solo case and how a failure travels. Every collective is called by all ranks
in the same order and returns the same value on each (alltoall: each rank its own part).

Failing: a rank that raises tells the others with fail(); whoever waits in a collective, or enters
one later, then raises RankFailure with that rank and its reason. A rank from which nothing came for
`timeout` seconds is named the same way. After a failure a communicator is used up: the next
training needs a new one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bitgrove.distributed.messages import add_messages, pack_messages
from bitgrove.kernels.plans import HISTOGRAM_PART, Records

if TYPE_CHECKING:
    from bitgrove.backends.base import HistogramPool

Array = NDArray[Any]
I64 = NDArray[np.int64]
DEFAULT_TIMEOUT = 60.0


class Comm(Protocol):
    rank: int
    size: int
    timeout: float  # seconds a collective waits for a silent rank

    def allreduce_sum(self, values: Array) -> Array:
        """Elementwise integer sum over ranks."""

    def allreduce_max(self, values: Array) -> Array:
        """Elementwise maximum over ranks."""

    def allgather(self, values: Array, *, equal: bool = False) -> list[Array]:
        """Every rank's array, in rank order; lengths may differ unless they are known equal."""

    def alltoall(self, blocks: Sequence[Array]) -> list[Array]:
        """What each rank had in blocks[this rank], in rank order; lengths may differ."""

    def broadcast(self, values: Array, root: int = 0) -> Array:
        """The root's array on every rank; what the others pass is not looked at."""

    def sum_histograms(self, pool: HistogramPool, builds: Records, rank_bins: I64) -> None:
        """Sums built slots over ranks; rank r gets the sums of the bins rank_bins[r].

        As messages through the host, unless a Comm knows a shorter way.
        """
        parts = histogram_parts(builds, rank_bins)
        others = parts["message"] != self.rank
        came = list(enumerate(self.alltoall(pack_messages(pool, parts[others], self.size))))
        del came[self.rank]
        add_messages(pool, parts[~others], came)

    def fail(self, reason: str) -> None:
        """Tells the other ranks that this one has failed; returns at once and never raises."""

    def check(self) -> None:
        """RankFailure if a rank is known to have failed; for waiting that is no collective."""


class SoloComm(Comm):
    """One process holds all rows: every collective is the identity."""

    rank = 0
    size = 1
    timeout = DEFAULT_TIMEOUT

    def allreduce_sum(self, values: Array) -> Array:
        return values

    def allreduce_max(self, values: Array) -> Array:
        return values

    def allgather(self, values: Array, *, equal: bool = False) -> list[Array]:
        return [values]

    def alltoall(self, blocks: Sequence[Array]) -> list[Array]:
        return [blocks[0]]

    def broadcast(self, values: Array, root: int = 0) -> Array:
        return values

    def fail(self, reason: str) -> None:
        """Nobody to tell."""

    def check(self) -> None:
        """Nobody to ask."""


class WrappedComm(Comm):
    """A Comm around another one, whose ranks, patience and failures are its own."""

    def __init__(self, comm: Comm) -> None:
        self.comm, self.rank, self.size = comm, comm.rank, comm.size

    @property
    def timeout(self) -> float:
        return self.comm.timeout

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        self.comm.timeout = seconds

    def fail(self, reason: str) -> None:
        self.comm.fail(reason)

    def check(self) -> None:
        self.comm.check()


@contextmanager
def fails_together(comm: Comm) -> Iterator[None]:
    """Whatever is raised inside ends the work of every rank, with this rank and the reason."""
    try:
        yield
    except BaseException as error:
        if not getattr(error, "everywhere", False):
            comm.fail(f"{type(error).__name__}: {error}")
        raise


def gather_facts(comm: Comm, facts: Any) -> list[Any]:
    """Every rank's JSON value, in rank order."""
    if comm.size == 1:
        return [facts]
    text = np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)
    return [json.loads(part.tobytes()) for part in comm.allgather(text)]


def histogram_parts(builds: Records, rank_bins: I64) -> Records:
    """The built slots, divided among ranks by bins: `message` is the rank."""
    n_ranks, n_builds = len(rank_bins), len(builds)
    parts = np.zeros(n_ranks * n_builds, dtype=HISTOGRAM_PART)
    parts["message"] = np.repeat(np.arange(n_ranks), n_builds)
    parts["slot"] = np.tile(builds["slot"], n_ranks)
    parts["width"] = np.tile(builds["total_width"], n_ranks)
    parts["first_bin"], parts["last_bin"] = np.repeat(rank_bins, n_builds, axis=0).T
    return parts


def sum_records(comm: Comm, records: Array) -> Array:
    """Records of integers (kernels/plans.py), summed field by field over ranks."""
    if comm.size == 1:
        return records
    return comm.allreduce_sum(records.view(np.int64)).view(records.dtype)


def sum_integers(comm: Comm, values: Sequence[int]) -> Sequence[int]:
    """A few integers, each summed over ranks."""
    if comm.size == 1:
        return values
    found: list[int] = comm.allreduce_sum(np.array(values, dtype=np.int64)).tolist()
    return found


def max_integers(comm: Comm, values: Sequence[int]) -> Sequence[int]:
    """Of each of a few integers the largest of all ranks."""
    if comm.size == 1:
        return values
    found: list[int] = comm.allreduce_max(np.array(values, dtype=np.int64)).tolist()
    return found


def feature_block(comm: Comm, n_features: int, rank: int | None = None) -> tuple[int, int]:
    """The features [first, last) whose histograms a rank owns after the reduction."""
    rank = comm.rank if rank is None else rank
    return n_features * rank // comm.size, n_features * (rank + 1) // comm.size
