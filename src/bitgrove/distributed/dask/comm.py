"""Collectives over Dask's own connections between workers: no port of ours, TLS as Dask has it.

Owns DaskComm and the post office of a worker. A rank opens one connection to every other worker's
Dask port and only writes to it; the post office there reads, in the event loop, and puts what came
into the mailbox of the training; the thread that trains waits at that mailbox. Every collective is
one direct exchange: each rank sends each other rank its block, once.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from distributed import get_worker
from distributed.comm import connect
from distributed.protocol import to_serialize

from bitgrove.distributed.comm import DEFAULT_TIMEOUT, Array, Comm
from bitgrove.errors import RankFailure, TrainingError
from bitgrove.version import __version__

if TYPE_CHECKING:
    from typing_extensions import Self

_OPERATION = "bitgrove_receive"
_EXTENSION = "bitgrove"
_SMALL = 1 << 16  # bytes of an array that travel inside of the message
_TICK = 1.0  # seconds between two looks at whether anybody still wants the training


class Mailbox:
    """What has come in for one training on this worker; filled by the event loop."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._letters: dict[tuple[int, int], Any] = {}  # (step, rank that sent it)
        self._left: set[int] = set()
        self.failure: tuple[int, str] | None = None
        self.ended = False

    def put(self, step: int, rank: int, letter: Any) -> None:
        with self._changed:
            self._letters[step, rank] = letter
            self._changed.notify_all()

    def leave(self, rank: int) -> None:
        """The rank will send nothing more."""
        with self._changed:
            self._left.add(rank)
            self._changed.notify_all()

    def fail(self, rank: int, reason: str) -> None:
        """The first failure counts; the others follow from it."""
        with self._changed:
            self.failure = self.failure or (rank, reason)
            self._changed.notify_all()

    def end(self) -> None:
        """Nobody wants the training any more."""
        with self._changed:
            self.ended = True
            self._changed.notify_all()

    def take(self, step: int, ranks: Sequence[int], patience: _Patience) -> list[Any]:
        """One letter of each rank, in their order; a failure, or a silent rank, is an error."""
        with self._changed:
            while True:
                missing = [rank for rank in ranks if (step, rank) not in self._letters]
                gone = [rank for rank in missing if rank in self._left]
                if self.failure is None and gone:
                    self.failure = gone[0], "stopped before the others"
                if self.failure is None and missing and patience.over():
                    self.failure = missing[0], f"no word from it for {patience.seconds:g} s"
                if self.failure is not None:
                    raise RankFailure(*self.failure)
                if not missing:
                    return [self._letters.pop((step, rank)) for rank in ranks]
                if self.ended or not patience.wanted():
                    raise TrainingError("the training was cancelled")
                self._changed.wait(patience.tick())


class _Patience:
    """How long to wait, and whether anybody still wants the result."""

    def __init__(self, seconds: float, wanted: Callable[[], bool]) -> None:
        self.seconds, self.wanted = seconds, wanted
        self._deadline = time.monotonic() + seconds

    def over(self) -> bool:
        return time.monotonic() >= self._deadline

    def tick(self) -> float:
        return max(0.0, min(_TICK, self._deadline - time.monotonic()))


class PostOffice:
    """The mailboxes of a worker, one per training."""

    def __init__(self) -> None:
        self._boxes: dict[str, Mailbox] = {}
        self._lock = threading.Lock()

    def box(self, training: str) -> Mailbox:
        with self._lock:
            return self._boxes.setdefault(training, Mailbox())

    def end(self, training: str) -> None:
        """Wakes the rank that still waits, if there is one, and forgets the letters."""
        with self._lock:
            box = self._boxes.pop(training, None)
        if box is not None:
            box.end()

    def close(self) -> None:
        """Dask calls it when the worker closes."""
        for training in list(self._boxes):
            self.end(training)

    async def receive(self, comm: Any, training: str, rank: int) -> None:
        """Reads one rank's letters until it says goodbye; Dask calls it for each connection."""
        box = self.box(training)
        try:
            while (letter := await comm.read())["kind"] != "goodbye":
                if letter["kind"] == "failure":
                    box.fail(*letter["failure"])
                else:
                    box.put(letter["step"], rank, letter["value"])
        except (OSError, EOFError):  # Dask's CommClosedError is an OSError
            box.fail(rank, "its connection broke; the worker died, was stopped or is out of reach")
        box.leave(rank)


def open_post_office(dask_worker: Any) -> str:
    """Makes a worker ready for trainings; returns its version of bitgrove."""
    if _EXTENSION not in dask_worker.extensions:
        office = PostOffice()
        dask_worker.extensions[_EXTENSION] = office
        dask_worker.handlers[_OPERATION] = office.receive
    return __version__


def end_training(training: str, dask_worker: Any) -> None:
    """Nobody wants this training any more."""
    office = dask_worker.extensions.get(_EXTENSION)
    if office is not None:
        office.end(training)


class DaskComm(Comm):
    """One rank of a training, in a task of the Dask worker that holds its rows; use with `with`.

    addresses: of the workers, in rank order. Their post offices are open.
    """

    def __init__(
        self, training: str, rank: int, addresses: Sequence[str], timeout: float = DEFAULT_TIMEOUT
    ) -> None:
        self.rank, self.size, self.timeout = rank, len(addresses), timeout
        self.n_bytes = self.n_messages = 0
        self._worker = get_worker()
        self._task = self._worker.get_current_task()
        self._training, self._addresses, self._step = training, addresses, 0
        self._others = [other for other in range(self.size) if other != rank]
        self._box = self._worker.extensions[_EXTENSION].box(training)
        self._links: dict[int, _Link] = {}

    def __enter__(self) -> Self:
        """Connects to every other rank."""

        async def connect_all() -> None:
            await asyncio.gather(*map(self._connect, self._others))

        try:
            asyncio.run_coroutine_threadsafe(connect_all(), self._worker.loop.asyncio_loop).result()
        except RankFailure as failure:
            self._tell(failure.rank, failure.reason)
            self._say_goodbye()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._say_goodbye()

    async def _connect(self, other: int) -> None:
        # Dask's own limit does not cover the first words, which a stopped worker never says.
        try:
            self._links[other] = await asyncio.wait_for(
                self._greet(self._addresses[other]), self.timeout
            )
        except asyncio.TimeoutError:
            raise RankFailure(other, f"no word from it for {self.timeout:g} s") from None
        except OSError as error:
            raise RankFailure(other, f"its worker cannot be reached: {error}") from None

    async def _greet(self, address: str) -> _Link:
        comm = await connect(address, timeout=self.timeout, **self._worker.connection_args)
        greeting = {"op": _OPERATION, "training": self._training, "rank": self.rank}
        await comm.write({**greeting, "reply": False})
        return _Link(comm)

    def meet(self) -> None:
        """Waits, however long, until all ranks have come: their workers may be busy."""
        timeout, self.timeout = self.timeout, float("inf")
        self._exchange([None] * self.size)
        self.timeout = timeout

    def _exchange(self, letters: Sequence[Any]) -> list[Any]:
        """Sends letters[rank] to each rank; returns what each rank sent to this one.

        What is sent are copies: they may still be on their way when the caller writes to its own.
        """
        self._step += 1
        for other in self._others:
            letter = {"kind": "letter", "step": self._step, "value": _packed(letters[other])}
            self._send(other, letter)
        self.n_messages += len(self._others)
        self.n_bytes += sum(getattr(letters[other], "nbytes", 0) for other in self._others)
        try:
            came = self._box.take(
                self._step, self._others, _Patience(self.timeout, self._is_wanted)
            )
        except RankFailure as failure:
            self._tell(failure.rank, failure.reason)
            raise
        came = [_unpacked(letter) for letter in came]
        came.insert(self.rank, letters[self.rank])
        return came

    def _send(self, other: int, letter: dict[str, Any]) -> None:
        self._worker.loop.add_callback(self._write, other, letter)

    async def _write(self, other: int, letter: dict[str, Any]) -> None:
        try:
            await self._links[other].write(letter)
        except OSError:
            self._box.fail(other, "its connection broke; the worker died or is out of reach")

    def _tell(self, rank: int, reason: str) -> None:
        for other in self._links:
            self._send(other, {"kind": "failure", "failure": (rank, reason)})

    def _is_wanted(self) -> bool:
        """False once the client has cancelled the task or is gone."""
        task = self._worker.state.tasks.get(self._task)
        return task is not None and task.state in ("executing", "long-running")

    def fail(self, reason: str) -> None:
        self._tell(self.rank, reason)

    def check(self) -> None:
        if self._box.failure is not None:
            raise RankFailure(*self._box.failure)

    def _say_goodbye(self) -> None:
        """Closes the connections, once everything else is sent."""

        async def close_link(link: _Link) -> None:
            try:
                await link.write({"kind": "goodbye"})
                await link.comm.close()
            except OSError:
                link.comm.abort()

        for link in self._links.values():
            self._worker.loop.add_callback(close_link, link)

    def allreduce_sum(self, values: Array) -> Array:
        everyone = self._exchange([values] * self.size)
        return np.asarray(np.sum(everyone, axis=0, dtype=values.dtype))

    def allreduce_max(self, values: Array) -> Array:
        return np.asarray(np.max(self._exchange([values] * self.size), axis=0))

    def allgather(self, values: Array, *, equal: bool = False) -> list[Array]:
        return [np.array(v) for v in self._exchange([values] * self.size)]

    def alltoall(self, blocks: Sequence[Array]) -> list[Array]:
        return self._exchange(blocks)

    def broadcast(self, values: Array, root: int = 0) -> Array:
        mine = values if self.rank == root else None
        return np.array(self._exchange([mine] * self.size)[root])


def _packed(values: Array | None) -> Any:
    """A copy of the array in a form that Dask sends: its bytes where that is quicker."""
    if values is None:
        return None
    if values.nbytes > _SMALL or values.dtype.names:
        return to_serialize(np.array(values))
    return values.dtype.str, values.shape, values.tobytes()


def _unpacked(letter: Any) -> Any:
    if isinstance(letter, tuple):
        dtype, shape, content = letter
        return np.frombuffer(content, dtype=dtype).reshape(shape)
    return letter


class _Link:
    """A connection to another rank's worker that is only written to, one letter at a time."""

    def __init__(self, comm: Any) -> None:
        self.comm, self._turn = comm, asyncio.Lock()

    async def write(self, letter: dict[str, Any]) -> None:
        async with self._turn:
            await self.comm.write(letter)
