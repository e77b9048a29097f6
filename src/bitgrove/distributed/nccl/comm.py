"""GPU ranks that sum their histograms with NCCL, from device memory to device memory.

Owns NcclComm, nccl() and the channel to the library. Everything small, and how failures travel,
goes over the Comm that is wrapped (MPI, for example); only the sums of histograms do not. They are
integers, so the model is the same bytes as with histograms staged through the host.

NCCL itself waits for ever. So this module polls for the end of a sum, and between two polls asks
the wrapped Comm for failures; after `timeout` seconds it aborts NCCL's work, and the ranks hold a
roll call over the wrapped Comm.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends.base import HistogramPool
from bitgrove.backends.cuda.memory import DeviceMemory
from bitgrove.distributed.comm import Array, Comm, WrappedComm, gather_facts
from bitgrove.errors import ParameterError, RankFailure, TrainingError, everywhere
from bitgrove.kernels.plans import Records
from bitgrove.machine.gpu import find_device, import_cupy

I64 = NDArray[np.int64]
Bins = tuple[int, int]
_LOOKS = 2000  # polls that only yield the core; after them the waiting rank sleeps between polls
_NAP = 1e-4


class Channel(Protocol):
    """Sums blocks of a histogram pool over ranks; tests have one without GPUs."""

    def check_pool(self, pool: Any) -> None:
        """ParameterError if the pool is not on this channel's device."""

    def start(self, pool: Any, slots: I64, rank_bins: Sequence[Bins]) -> None:
        """Begins to sum, over ranks, the bins of each rank into a block on that rank."""

    def has_ended(self) -> bool:
        """Whether the sums are there; raises what the library reports."""

    def finish(self, pool: Any, slots: I64, bins: Bins) -> None:
        """Writes this rank's sums into the pool."""

    def abort(self) -> None:
        """Ends whatever is under way; the channel is then used up."""


class NcclComm(WrappedComm):
    """The semantics of the Comm that it wraps, and sum_histograms()."""

    def __init__(self, comm: Comm, channel: Channel) -> None:
        super().__init__(comm)
        self._channel = channel

    def sum_histograms(self, pool: HistogramPool, builds: Records, rank_bins: I64) -> None:
        """From device memory to device memory; RankFailure if a rank failed or fell silent."""
        slots, blocks = builds["slot"].astype(np.int64), rank_bins.tolist()
        self._channel.check_pool(pool)
        try:
            self._channel.start(pool, slots, blocks)
            self._wait()
        except BaseException:
            self._channel.abort()
            raise
        self._channel.finish(pool, slots, blocks[self.rank])

    def _wait(self) -> None:
        until, n_looks = time.monotonic() + self.timeout, 0
        while not self._channel.has_ended():
            n_looks += 1
            if n_looks < _LOOKS:
                os.sched_yield()
                continue
            self.comm.check()
            if time.monotonic() > until:
                self._channel.abort()
                # A rank that hangs or has ended is missing here, too: the wrapped Comm names it.
                self.comm.allreduce_max(np.zeros(1, dtype=np.int64))
                raise RankFailure(
                    self.rank,
                    f"NCCL did not sum the histograms within {self.timeout:g} s "
                    "(distributed_timeout) though all ranks answer",
                )
            time.sleep(_NAP)

    def allreduce_sum(self, values: Array) -> Array:
        return self.comm.allreduce_sum(values)

    def allreduce_max(self, values: Array) -> Array:
        return self.comm.allreduce_max(values)

    def allgather(self, values: Array, *, equal: bool = False) -> list[Array]:
        return self.comm.allgather(values, equal=equal)

    def alltoall(self, blocks: Sequence[Array]) -> list[Array]:
        return self.comm.alltoall(blocks)

    def broadcast(self, values: Array, root: int = 0) -> Array:
        return self.comm.broadcast(values, root)


def nccl(comm: Comm, device: str = "cuda") -> NcclComm:
    """A Comm whose histograms are summed by NCCL; all ranks of `comm` must call it.

    device: the GPU of this rank, as in the parameter of that name. Every rank needs its own one.
    ParameterError, the same on all ranks, names what is missing and where.
    """
    facts = gather_facts(comm, _facts(comm.rank, device))
    _check(facts)
    return NcclComm(comm, NcclChannel(comm.rank, comm.size, device, facts[0]["id"]))


def _facts(rank: int, device: str) -> dict[str, Any]:
    """What the others must know of this rank's GPU and library; or what is wrong with them."""
    try:
        index, library = find_device(device), _library()
    except ParameterError as error:
        return {"error": str(error)}
    properties = import_cupy().cuda.runtime.getDeviceProperties(index)
    facts: dict[str, Any] = {"gpu": [socket.gethostname(), bytes(properties["uuid"]).hex()],
             "version": int(library.get_version())}  # fmt: skip
    if rank == 0:
        key = library.get_unique_id()  # bytes, in older versions of CuPy a tuple
        facts["id"] = key.hex() if isinstance(key, bytes) else list(key)
    return facts


def _check(facts: Sequence[dict[str, Any]]) -> None:
    for rank, own in enumerate(facts):
        if "error" in own:
            raise everywhere(ParameterError, f"NCCL on rank {rank}: {own['error']}")
    for rank, own in enumerate(facts):
        first = next(other for other, theirs in enumerate(facts) if theirs["gpu"] == own["gpu"])
        if first != rank:
            raise everywhere(
                ParameterError,
                f"NCCL: ranks {first} and {rank} have the same GPU of {own['gpu'][0]}; give each "
                "rank its own (device='cuda:1', CUDA_VISIBLE_DEVICES), or train without nccl()",
            )
        if own["version"] != facts[0]["version"]:
            raise everywhere(
                ParameterError,
                f"NCCL: rank 0 has version {facts[0]['version']} but rank {rank} "
                f"{own['version']}; all ranks need the same",
            )


def _library() -> Any:
    try:
        from cupy.cuda import nccl as library
    except ImportError as error:
        raise ParameterError(f"CuPy cannot load NCCL: {error}") from None
    if not library.available:
        raise ParameterError(
            "this CuPy has no NCCL; install the library (pip install nvidia-nccl-cu13, or -cu12) "
            "or train without nccl(): histograms then go through the host"
        )
    return library


class NcclChannel:
    """One rank's NCCL communicator and the buffers of a sum, on the device's default stream."""

    def __init__(self, rank: int, size: int, device: str, unique_id: str | list[int]) -> None:
        self._cupy, self._library = import_cupy(), _library()
        self.device = self._cupy.cuda.Device(find_device(device))
        self._rank = rank
        self._blocks: list[Any] = []
        self._ended: Any = None
        self._memory = DeviceMemory(self._cupy)
        key = bytes.fromhex(unique_id) if isinstance(unique_id, str) else tuple(unique_id)
        with self.device:
            self._communicator = self._library.NcclCommunicator(size, key, rank)

    def check_pool(self, pool: Any) -> None:
        device = getattr(pool, "device", None)
        where, own = "the CPU" if device is None else device.name, f"cuda:{self.device.id}"
        if where != own:
            raise ParameterError(
                f"device: histograms are on {where}, but nccl() was given {own}; train with "
                "that device, or without nccl()"
            )

    def start(self, pool: Any, slots: I64, rank_bins: Sequence[Bins]) -> None:
        library, stream = self._library, self._cupy.cuda.Stream.null
        with self.device, stream, self._memory.in_use():
            index = self._cupy.asarray(slots)
            self._blocks = [pool.storage[index, first:last] for first, last in rank_bins]
            library.groupStart()
            for root, block in enumerate(self._blocks):
                if block.size == 0:  # more ranks than features
                    continue
                # In place on the root. Sums of unsigned integers wrap around, as in the kernels.
                self._communicator.reduce(
                    block.data.ptr, block.data.ptr, block.size, library.NCCL_UINT64,
                    library.NCCL_SUM, root, stream.ptr,
                )  # fmt: skip
            library.groupEnd()
            self._ended = stream.record()

    def has_ended(self) -> bool:
        try:
            self._communicator.check_async_error()
        except self._library.NcclError as error:
            raise TrainingError(f"NCCL: {error}; a rank or its GPU may be gone") from error
        return bool(self._ended.done)

    def finish(self, pool: Any, slots: I64, bins: Bins) -> None:
        with self.device, self._cupy.cuda.Stream.null, self._memory.in_use():
            pool.storage[self._cupy.asarray(slots), bins[0] : bins[1]] = self._blocks[self._rank]
        self._blocks = []

    def abort(self) -> None:
        self._communicator.abort()
