"""Ranks as MPI processes: integer collectives of mpi4py that end when a rank fails.

Owns MpiComm and mpi(). Collectives are non-blocking ones that are waited for by looking again and
again, and in between at a second communicator where failures are told. When nothing happens for
`timeout` seconds the waiting ranks hold a roll call there; who does not answer is named.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np

from bitgrove.distributed.comm import DEFAULT_TIMEOUT, Array, Comm
from bitgrove.distributed.mpi.deaths import DeathWatch
from bitgrove.errors import RankFailure, TrainingError

_FAILURE, _HERE = 1, 2  # tags of the second communicator
_LONGEST_GRACE = 5.0  # seconds to answer a roll call
# Seconds of looking, and giving way to others, before a rank sleeps between looks. Where ranks
# share cores, one that looks takes time from one that works.
_SPIN, _SPIN_WHEN_CROWDED = 1e-3, 1e-4
_LONGEST_NAP = 2e-4


def _library() -> Any:
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise ImportError(
            "training over MPI needs mpi4py and an MPI library: pip install bitgrove[mpi]"
        ) from error
    return MPI


def mpi(communicator: Any = None, *, timeout: float = DEFAULT_TIMEOUT) -> MpiComm:
    """A Comm over all MPI processes, or over those of an mpi4py communicator; all must call it.

    An error that nobody catches on one rank ends the processes of all ranks.
    """
    MPI = _library()
    _end_all_on_uncaught_errors(MPI)
    return MpiComm(MPI.COMM_WORLD if communicator is None else communicator, timeout)


class MpiComm(Comm):
    """The semantics of Comm over duplicates of an mpi4py communicator."""

    def __init__(self, communicator: Any, timeout: float = DEFAULT_TIMEOUT) -> None:
        self._mpi = _library()
        self.rank, self.size, self.timeout = communicator.rank, communicator.size, timeout
        self._n_started = 0
        self._heard: dict[int, int] = {}  # rank -> its number of collectives, in a roll call
        self._answered = False
        self._failed: tuple[int, str] | None = None
        # Buffers that MPI may still read or write: they must not be freed.
        self._kept: list[Any] = []
        _deaths.hold(self)
        neighbours = communicator.Split_type(self._mpi.COMM_TYPE_SHARED)  # on this machine
        crowded = neighbours.size > (os.cpu_count() or 1)
        self._spin = _SPIN_WHEN_CROWDED if crowded else _SPIN
        neighbours.Free()
        self._control = communicator.Dup()
        self._data = communicator.Dup()

    def allreduce_sum(self, values: Array) -> Array:
        total = np.array(values, order="C")
        words = _wrapping(total)
        self._finish(self._data.Iallreduce(self._mpi.IN_PLACE, words, self._mpi.SUM), words)
        return total

    def allreduce_max(self, values: Array) -> Array:
        largest = np.array(values, order="C")
        request = self._data.Iallreduce(self._mpi.IN_PLACE, largest, self._mpi.MAX)
        self._finish(request, largest)
        return largest

    def allgather(self, values: Array, *, equal: bool = False) -> list[Array]:
        sent = np.ascontiguousarray(values)
        if equal:
            counts = np.full(self.size, sent.size, dtype=np.int64)
        else:
            counts = np.concatenate(self.allgather(np.array([sent.size]), equal=True))
        everyone = np.empty(int(counts.sum()), dtype=sent.dtype)
        self._finish(self._data.Iallgatherv(sent, [everyone, counts.tolist()]), sent, everyone)
        return np.split(everyone, np.cumsum(counts)[:-1])

    def alltoall(self, blocks: Sequence[Array]) -> list[Array]:
        exchange = _Exchange(self._mpi, self._data, [np.ravel(block) for block in blocks])
        self._finish(exchange)
        return exchange.received

    def broadcast(self, values: Array, root: int = 0) -> Array:
        head = np.array([values.size], dtype=np.int64)
        self._finish(self._data.Ibcast(head, root), head)
        shared = np.array(values, order="C") if self.rank == root else np.empty(head, values.dtype)
        self._finish(self._data.Ibcast(shared, root), shared)
        return shared

    def fail(self, reason: str) -> None:
        if self._failed is None:
            self._failed = (self.rank, reason)
            self._tell(_FAILURE, {"rank": self.rank, "reason": reason})

    def check(self) -> None:
        if self._failed is not None:
            raise RankFailure(*self._failed)
        self._listen()
        if _deaths.n_deaths:
            self._hold_roll_call(min(_LONGEST_GRACE, self.timeout / 4))

    # -------------------------------------------------------------- waiting

    def _finish(self, request: Any, *buffers: Array) -> None:
        """Waits for a collective; RankFailure if a rank failed or fell silent."""
        self._n_started += 1
        self._answered = False
        grace = min(_LONGEST_GRACE, self.timeout / 4)
        started, nap = time.monotonic(), 2e-5
        roll_call = started + self.timeout - grace
        try:
            while not self._has_finished(request):
                now = time.monotonic()
                if now < started + self._spin:
                    os.sched_yield()
                    continue
                self._listen()
                if now > roll_call or _deaths.n_deaths:
                    self._hold_roll_call(grace)
                time.sleep(nap)
                nap = min(2 * nap, _LONGEST_NAP)
        except BaseException:
            self._kept += [request, *buffers]
            raise

    def _has_finished(self, request: Any) -> bool:
        try:
            return bool(request.Test())
        except self._mpi.Exception:  # a connection broke: the roll call finds out whose
            self._hold_roll_call(min(_LONGEST_GRACE, self.timeout / 4))
            raise

    def _listen(self) -> None:
        """Reads what other ranks said: raises their failure, answers their roll call."""
        status = self._mpi.Status()
        while self._control.Iprobe(self._mpi.ANY_SOURCE, self._mpi.ANY_TAG, status):
            message = bytearray(status.Get_count(self._mpi.BYTE))
            source, tag = status.Get_source(), status.Get_tag()
            self._control.Recv([message, self._mpi.BYTE], source, tag)
            facts = json.loads(message)
            if tag == _FAILURE:
                self._failed = (facts["rank"], facts["reason"])
                raise RankFailure(*self._failed)
            self._heard[source] = facts["n_started"]
            self._answer()

    def _answer(self) -> None:
        if not self._answered:
            self._answered = True
            self._tell(_HERE, {"n_started": self._n_started})

    def _hold_roll_call(self, grace: float) -> None:
        """Names a rank that does not answer; without one, the collective that did not end."""
        self._answer()
        others = set(range(self.size)) - {self.rank}
        until = time.monotonic() + grace
        while others - self._heard.keys() and time.monotonic() < until:
            self._listen()
            time.sleep(1e-3)
        silent = sorted(others - self._heard.keys())
        if silent:
            also = f" (nor from {', '.join(map(str, silent[1:]))})" if silent[1:] else ""
            died = "it died, or " if _deaths.n_deaths else ""
            reason = f"{died}no word from it{also} for {self.timeout:g} s (distributed_timeout)"
            self._give_up(silent[0], reason)
        if _deaths.n_deaths:  # every rank answered, so the report is an old one
            _deaths.n_deaths = 0
            return
        places = {rank: n for rank, n in self._heard.items() if n != self._n_started}
        rank = min(places, default=self.rank)
        self._give_up(
            rank,
            f"collective {self._n_started} of rank {self.rank} did not end within "
            f"{self.timeout:g} s though all ranks answer; this rank is at {places.get(rank)}",
        )

    def _give_up(self, rank: int, reason: str) -> None:
        self._failed = (rank, reason)
        _silent_ranks.append(rank)
        self._tell(_FAILURE, {"rank": rank, "reason": reason})
        raise RankFailure(rank, reason)

    def _tell(self, tag: int, facts: dict[str, Any]) -> None:
        """Sends to all others what each will see when it next listens; never waits long."""
        message = json.dumps(facts).encode()
        sent = []
        for rank in set(range(self.size)) - {self.rank}:
            try:
                sent.append(self._control.Isend([message, self._mpi.BYTE], rank, tag))
            except self._mpi.Exception:  # that one is gone
                continue
        self._kept += [message, *sent]
        until = time.monotonic() + 0.2
        while time.monotonic() < until and not all(self._has_left(s) for s in sent):
            time.sleep(1e-3)

    def _has_left(self, request: Any) -> bool:
        try:
            return bool(request.Test())
        except self._mpi.Exception:
            return True


class _Exchange:
    """One message to each other rank and one from each, whose lengths nobody else has to know.

    Waited for like a request of MPI.
    """

    def __init__(self, MPI: Any, communicator: Any, blocks: list[Array]) -> None:
        self._mpi, self._communicator, rank = MPI, communicator, communicator.rank
        self.received = list(blocks)  # those of other ranks are replaced as they come
        self._missing = [other for other in range(len(blocks)) if other != rank]
        self._requests = [
            communicator.Isend([blocks[other], MPI.BYTE], other) for other in self._missing
        ]

    def Test(self) -> bool:
        status = self._mpi.Status()
        for other in list(self._missing):
            message = self._communicator.Improbe(other, status=status)
            if message is not None:
                block = np.empty(status.Get_count(self._mpi.BYTE), dtype=np.uint8)
                self._requests.append(message.Irecv([block, self._mpi.BYTE]))
                self.received[other] = block.view(self.received[other].dtype)
                self._missing.remove(other)
        return not self._missing and bool(self._mpi.Request.Testall(self._requests))


# Of the process, because all communicators share them: reported deaths, and ranks that never
# answered a roll call.
_deaths = DeathWatch()
_silent_ranks: list[int] = []
_hooked: list[Any] = []


def _wrapping(array: Array) -> Array:
    """The same memory as unsigned integers, whose sums wrap around in every MPI library."""
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "i" else array


def end_all(code: int) -> None:
    """Ends the processes of all ranks, also of those that hang."""
    sys.stdout.flush()
    sys.stderr.flush()
    _library().COMM_WORLD.Abort(code)


def _end_all_on_uncaught_errors(MPI: Any) -> None:
    """Without it the ranks that are left would wait in MPI_Finalize for ever."""
    if _hooked or MPI.COMM_WORLD.size == 1:
        return
    shown = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        shown(kind, error, trace)
        if not isinstance(error, RankFailure):
            time.sleep(1.0)  # the others may want to say what they heard
        end_all(1)

    sys.excepthook = hook
    atexit.register(lambda: end_all(1) if _silent_ranks else None)
    _hooked.append(hook)


def launched_size() -> int:
    """Number of processes the MPI launcher started, by its environment; 1 without a launcher."""
    for name in ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS", "PMIX_SIZE"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return 1


def launched_comm() -> MpiComm | None:
    """The Comm of a program started by an MPI launcher; None where there is none."""
    n_expected = launched_size()
    if n_expected == 1:
        return None
    comm = mpi()
    if comm.size != n_expected:
        raise TrainingError(
            f"the launcher started {n_expected} processes but mpi4py sees {comm.size}; it was "
            "built for another MPI library than the one mpiexec belongs to"
        )
    return comm
