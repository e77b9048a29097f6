"""What reading a file of a stranger may take, whatever is in it."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import TypeVar

import numpy as np

T = TypeVar("T")
MOST_SECONDS = 1.0  # for one file
MOST_BYTES = 80, 4_000_000  # of memory: per byte of file, and in any case
_MEASURED = 0.02  # of all cases: watching memory takes time


def read_within(
    read: Callable[[], T], refusal: type[Exception], n_bytes: int, rng: np.random.Generator
) -> T | None:
    """What was read, or None where it was refused; AssertionError for too much time or memory."""
    if rng.random() < _MEASURED:
        tracemalloc.start()
        try:
            found = _read(read, refusal)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < MOST_BYTES[0] * n_bytes + MOST_BYTES[1], (peak, n_bytes)
        return found
    started = time.perf_counter()
    found = _read(read, refusal)
    if time.perf_counter() - started > MOST_SECONDS:  # another process may have had the core
        started = time.process_time()
        _read(read, refusal)
        assert time.process_time() - started < MOST_SECONDS
    return found


def _read(read: Callable[[], T], refusal: type[Exception]) -> T | None:
    try:
        return read()
    except refusal:
        return None
