"""Memory of one GPU: large arrays, small ones that cross, and whether everything will fit.

Owns DeviceMemory (arrays from one CuPy pool of ours, given back to the system after a training by
POOL.give_back), PinnedMemory, Mailbox (small arrays that are sent) and Answers (sums that kernels
tell the host).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bitgrove import _core
from bitgrove.errors import DeviceMemoryError
from bitgrove.kernels.plans import Records

_ALIGNMENT = 16  # of what is sent
_LEAST_RING = 1 << 20
_LEAST_ANSWER = 4096  # words: of a tree with many leaves
# Label, weight, scores, packed rows and row lists; gradients and hessians of two iterations.
BYTES_PER_ROW = 64
BYTES_PER_OUTPUT = 24  # of a row for every other output: scores, gradients, hessians


class Pool:
    """CuPy's pool, one for all trainings: CuPy frees no blocks by itself, so give_back() does."""

    def __init__(self) -> None:
        self._pool: Any = None
        self._devices: dict[int, Any] = {}

    def of(self, cupy: Any) -> Any:
        device = cupy.cuda.Device()
        self._devices[device.id] = device
        self._pool = self._pool or cupy.cuda.MemoryPool()
        return self._pool

    def give_back(self) -> None:
        """Gives what no array uses any more back to the system."""
        for device in self._devices.values():
            with device:
                self._pool.free_all_blocks()


POOL = Pool()


def address_of(array: Any, first: int = 0) -> int:
    """Where an item of a contiguous array lies, on the device or in pinned memory; 0 for None."""
    if array is None:
        return 0
    start = array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr
    return int(start) + first * int(array.itemsize)


class DeviceMemory:
    """Arrays of one device, from a pool that others do not use."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self._pool = POOL.of(cupy)
        self._scratch: dict[str, Any] = {}
        self._kept: dict[str, Any] = {}

    def require(self, n_bytes: int, what: str) -> None:
        """Refuses before anything is allocated what the device cannot hold."""
        free, total = self.cupy.cuda.runtime.memGetInfo()
        if n_bytes > free:
            self.give_back()
            free, total = self.cupy.cuda.runtime.memGetInfo()
        if n_bytes > free:
            raise DeviceMemoryError(
                f"{what} needs about {n_bytes / 2**30:.1f} GiB on the GPU, of whose "
                f"{total / 2**30:.1f} GiB {free / 2**30:.1f} are free; free some, lower "
                "histogram_pool_mb, use fewer rows or features, or device='cpu'"
            )

    def give_back(self) -> None:
        """What pools keep and nobody uses."""
        self.cupy.get_default_memory_pool().free_all_blocks()
        POOL.give_back()

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> Any:
        shape = (shape,) if isinstance(shape, int) else shape
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        try:
            pointer = self._pool.malloc(max(n_bytes, 1))
        except self.cupy.cuda.memory.OutOfMemoryError as error:
            raise DeviceMemoryError(
                f"the GPU has no room for {n_bytes / 2**20:.0f} MiB more: {error}; lower "
                "histogram_pool_mb, use fewer rows or features, or device='cpu'"
            ) from None
        return self.cupy.ndarray(shape, dtype=dtype, memptr=pointer)

    def zeros(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> Any:
        array = self.empty(shape, dtype)
        self.fill(array, 0)
        return array

    def fill(self, array: Any, byte: int) -> None:
        array.data.memset_async(byte, array.nbytes, self.cupy.cuda.get_current_stream())

    def upload(self, values: NDArray[Any]) -> Any:
        array = self.empty(values.shape, values.dtype)
        stream = self.cupy.cuda.get_current_stream()
        array.set(np.ascontiguousarray(values), stream)
        stream.synchronize()
        return array

    def scratch(self, name: str, n_items: int, dtype: DTypeLike) -> Any:
        """An array that is kept between calls; what grows starts as zeros."""
        array = self._scratch.get(name)
        if array is None or len(array) < n_items:
            self._scratch.pop(name, None)
            array = self._scratch[name] = self.zeros(n_items, dtype)
        return array

    def kept(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """An array of one training, used again by every tree: its numbers are those of the last."""
        array = self._kept.get(name)
        if array is None or array.shape != shape or array.dtype != dtype:
            self._kept.pop(name, None)
            array = self._kept[name] = self.empty(shape, dtype)
        return array

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """CuPy's own functions allocate here, too."""
        with self.cupy.cuda.using_allocator(self._pool.malloc):
            yield


class PinnedMemory:
    """Host memory that the device can write to; replaced when more of it is asked for."""

    def __init__(self, cupy: Any) -> None:
        self._cupy, self._size = cupy, 0

    def at_least(self, n_bytes: int) -> int:
        """Its address."""
        if n_bytes > self._size:
            self._cupy.cuda.get_current_stream().synchronize()
            self._size = n_bytes
            self._memory = self._cupy.cuda.alloc_pinned_memory(n_bytes)
        return int(self._memory.ptr)


def pinned_bytes(cupy: Any, n_bytes: int) -> NDArray[np.uint8]:
    """An array in memory of the host that kernels can read; given back with its last view."""
    cuda = cupy.cuda
    try:
        memory = cuda.PinnedMemoryPointer(cuda.PinnedMemory(max(n_bytes, 1)), 0)
    except cuda.runtime.CUDARuntimeError as error:
        raise DeviceMemoryError(
            f"{n_bytes / 1e9:.3g} GB of the host's memory cannot be pinned for bins that have no "
            f"room on the GPU: {error}; use fewer rows or features, or device='cpu'"
        ) from None
    return np.frombuffer(memory, np.uint8, n_bytes)


class Mailbox:
    """Small arrays to the device; nobody waits until one is fetched.

    They lie in a ring. A verb sends once: later ones may start it again.
    """

    def __init__(self, memory: DeviceMemory, stream: Any) -> None:
        self._memory, self._pinned = memory, PinnedMemory(memory.cupy)
        self._ring = _core.Ring()
        self._ring.stream = stream

    def send(self, *arrays: NDArray[Any]) -> list[int]:
        """Device addresses of copies of the arrays."""
        self._make_room(sum(array.nbytes + _ALIGNMENT for array in arrays))
        contiguous = (a if a.flags.c_contiguous else np.ascontiguousarray(a) for a in arrays)
        places: list[int] = self._ring.send(*contiguous)
        return places

    def fetch(self, address: int, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """What the device made of a sent array; waits for it."""
        result = np.empty(shape, dtype=dtype)
        self._ring.fetch(address, result)
        return result

    def _make_room(self, n_bytes: int) -> None:
        """Where none is left the ring starts again, after all work is done."""
        ring = self._ring
        if n_bytes <= ring.room:
            return
        ring.stream.wait()
        if n_bytes > ring.n_bytes:
            ring.n_bytes = max(_LEAST_RING, 4 * n_bytes)
            self._device = self._memory.empty(ring.n_bytes, np.uint8)
            ring.device, ring.host = address_of(self._device), self._pinned.at_least(ring.n_bytes)
        ring.restart()


class Telling:
    """Records that launched kernels will tell."""

    def __init__(self, core: _core.Answer, dtype: np.dtype[Any], n_records: int) -> None:
        self._core, self._dtype, self._n_records = core, dtype, n_records
        self._records: Records | None = None

    def read(self) -> Records:
        if self._records is None:
            self._records = self._core.read(self._dtype, self._n_records)
        return self._records


class Answers:
    """Sums that kernels add up, and tell the host when the last of their blocks is done."""

    def __init__(self, memory: DeviceMemory, stream: Any) -> None:
        self._memory, self._pinned = memory, PinnedMemory(memory.cupy)
        self.core = _core.Answer(stream)
        self._telling: Telling | None = None

    def make_room(self, n_words: int) -> None:
        """Also for an answer that the core expects; the last one must have been told by then."""
        if self._telling is not None:
            self._telling.read()
            self._telling = None
        if n_words > self.core.room:
            n_words = max(n_words, _LEAST_ANSWER)
            self._sums = self._memory.zeros(n_words + 1, np.int64)  # and the blocks that are done
            n_done = address_of(self._sums, n_words)
            told = self._pinned.at_least(8 * (n_words + 1))
            self.core.use_memory(address_of(self._sums), n_done, told, n_words)

    def expect(self, n_bytes: int, n_blocks: int) -> _core.Answer:
        """One answer of the next launches, which have n_blocks blocks in all; they are given it."""
        n_words = n_bytes // 8
        self.make_room(n_words)
        self.core.expect(n_words, n_blocks)
        return self.core

    def telling(self, dtype: np.dtype[Any], n_records: int) -> Telling:
        """The answer that is expected, to be read when somebody wants it."""
        self._telling = Telling(self.core, dtype, n_records)
        return self._telling
