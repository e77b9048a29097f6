"""One GPU as the backend uses it: its kernels, its default stream, its memory.

Owns Device and the decorator that makes it the current one. Everything is launched on the default
stream, whatever streams the caller uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from bitgrove import _core
from bitgrove.backends.cuda.memory import Answers, DeviceMemory, Mailbox
from bitgrove.backends.cuda.module import kernels_of
from bitgrove.machine.gpu import find_device, import_cupy

THREADS: int = _core.constants["THREADS"]
Grid = tuple[int, int]
P = ParamSpec("P")
R = TypeVar("R")


class Device:
    """name: "cuda" is the current GPU, "cuda:1" GPU 1."""

    def __init__(self, name: str) -> None:
        self.index = find_device(name)
        self.name = f"cuda:{self.index}"
        self.cupy = import_cupy()
        self.kernels = kernels_of(self.index)
        self.handle = self.cupy.cuda.Device(self.index)
        self.n_processors = int(self.handle.attributes["MultiProcessorCount"])
        # Kernels may be launched while the ones before them still run (kernels/device/blocks.h).
        self.launches_early = int(self.handle.compute_capability) >= 90
        self.stream = _core.Stream(0)  # CUDA's default stream
        with self.in_use():
            self.memory = DeviceMemory(self.cupy)
            self.mailbox = Mailbox(self.memory, self.stream)
            self.answers = Answers(self.memory, self.stream)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """The device, its default stream and no others, whatever the caller uses."""
        with self.handle, self.cupy.cuda.Stream.null:
            yield

    def is_current(self) -> bool:
        """Asking costs less than entering and leaving."""
        cuda = self.cupy.cuda
        return cuda.runtime.getDevice() == self.index and cuda.get_current_stream().ptr == 0

    def free_bytes(self) -> int:
        with self.handle:
            free, _ = self.cupy.cuda.runtime.memGetInfo()
        return int(free)

    def launch(
        self, file: str, kernel: str, grid: Grid, *args: Any, threads: int = THREADS
    ) -> None:
        self.stream.launch(self.kernels.get(file, kernel, threads), grid, *args)

    def grid(self, n_items: int) -> Grid:
        """Blocks for a kernel whose threads step through the items."""
        return max(1, min(blocks_of(n_items), 8 * self.n_processors)), 1


def blocks_of(n_items: int) -> int:
    """Blocks for a kernel of one item per thread."""
    return -(-n_items // THREADS)


class OnDevice(Protocol):
    device: Device


Owner = TypeVar("Owner", bound=OnDevice)


def on_device(
    verb: Callable[Concatenate[Owner, P], R],
) -> Callable[Concatenate[Owner, P], R]:
    """Runs a verb with its owner's device current, and the caller's again afterwards."""

    @wraps(verb)
    def run(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.device.is_current():
            return verb(self, *args, **kwargs)
        with self.device.in_use():
            return verb(self, *args, **kwargs)

    return run
