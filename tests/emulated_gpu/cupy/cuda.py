"""The parts of cupy.cuda that bitgrove uses, on the emulated GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from cupy import compiling

DEVICE_BYTES = 8 << 30


class CUDARuntimeError(RuntimeError):
    pass


class OutOfMemoryError(MemoryError):
    pass


class Memory:
    """A piece of the device's memory. To touch what lies behind it ends the process."""

    used_bytes = 0

    def __init__(self, n_bytes: int) -> None:
        self.ptr, self.n_bytes = 0, n_bytes
        driver = compiling.driver()
        self._free = driver.emulated_free
        if Memory.used_bytes + n_bytes > DEVICE_BYTES:
            raise OutOfMemoryError(f"out of memory allocating {n_bytes:,} bytes")
        allocate = driver.emulated_malloc
        allocate.restype, allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        self._free.restype, self._free.argtypes = None, [ctypes.c_void_p, ctypes.c_size_t]
        self.ptr = allocate(max(n_bytes, 1))
        if not self.ptr:
            raise OutOfMemoryError(f"out of memory allocating {n_bytes:,} bytes")
        Memory.used_bytes += n_bytes

    def __del__(self) -> None:
        if self.ptr:
            Memory.used_bytes -= self.n_bytes
            self._free(self.ptr, max(self.n_bytes, 1))


class MemoryPointer:
    def __init__(self, memory: Any, ptr: int) -> None:
        self.mem, self.ptr = memory, ptr

    def memset_async(self, byte: int, n_bytes: int, stream: Any = None) -> None:
        ctypes.memset(self.ptr, byte, n_bytes)


class MemoryPool:
    def malloc(self, n_bytes: int) -> MemoryPointer:
        memory = Memory(n_bytes)
        return MemoryPointer(memory, memory.ptr)

    def free_all_blocks(self) -> None:
        """Nothing is kept."""

    def free_bytes(self) -> int:
        return 0


DEFAULT_POOL = MemoryPool()
_allocators: list[Callable[[int], MemoryPointer]] = [DEFAULT_POOL.malloc]


def allocate(n_bytes: int) -> MemoryPointer:
    return _allocators[-1](n_bytes)


@contextmanager
def using_allocator(malloc: Callable[[int], MemoryPointer]) -> Iterator[None]:
    _allocators.append(malloc)
    try:
        yield
    finally:
        _allocators.pop()


class Device:
    def __init__(self, device: Any = None) -> None:
        self.id = 0 if device is None else int(device)
        self.attributes = {"MultiProcessorCount": 4}
        self.compute_capability = "80"
        if self.id != 0:
            raise CUDARuntimeError("cudaErrorInvalidDevice: invalid device ordinal")

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *what: object) -> None:
        pass

    def __int__(self) -> int:
        return self.id

    def synchronize(self) -> None:
        pass


class Stream:
    """All work is done when it was asked for."""

    null: Stream
    _n_streams = 0
    _current: list[Stream]

    def __init__(self, null: bool = False, non_blocking: bool = False) -> None:
        self.ptr = Stream._n_streams
        Stream._n_streams += 1

    def __enter__(self) -> Stream:
        Stream._current.append(self)
        return self

    def __exit__(self, *what: object) -> None:
        Stream._current.pop()

    def synchronize(self) -> None:
        pass


Stream.null = Stream()
Stream._current = [Stream.null]


def get_current_stream() -> Stream:
    return Stream._current[-1]


class Event:
    def __init__(self, **how: bool) -> None:
        pass

    def record(self, stream: Stream | None = None) -> None:
        pass

    def synchronize(self) -> None:
        pass


class _Pinned:
    """With what ctypes makes of an address: whoever has it keeps the memory."""

    _memory: Memory

    @property
    def ptr(self) -> int:
        return self._memory.ptr


def PinnedMemory(n_bytes: int) -> Any:
    memory = Memory(n_bytes)
    pinned = type("Pinned", (ctypes.c_char * n_bytes, _Pinned), {}).from_address(memory.ptr)
    pinned._memory = memory
    return pinned


def PinnedMemoryPointer(memory: Any, offset: int) -> Any:
    assert offset == 0
    return memory


alloc_pinned_memory = PinnedMemory

runtime = SimpleNamespace(
    CUDARuntimeError=CUDARuntimeError,
    getDeviceCount=lambda: 1,
    getDevice=lambda: 0,
    memGetInfo=lambda: (DEVICE_BYTES - Memory.used_bytes, DEVICE_BYTES),
    runtimeGetVersion=lambda: 13000,
    driverGetVersion=lambda: 13000,
    getDeviceProperties=lambda index: {"name": b"emulated GPU", "uuid": b"emulated"},
)
memory = SimpleNamespace(OutOfMemoryError=OutOfMemoryError)
compiler = SimpleNamespace(CompileException=compiling.CompileError)
