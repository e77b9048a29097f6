"""How many threads a call may use."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from bitgrove.errors import BitgroveWarning

# Long before that they only wait for each other.
MOST_THREADS = 1024

Part = TypeVar("Part")
Result = TypeVar("Result")


def available_cores() -> int:
    """Cores this process may run on: affinity and OMP_NUM_THREADS are respected."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return min(cores, int(limit)) if limit.isdigit() and int(limit) > 0 else cores


def resolve_threads(n_jobs: int | None) -> int:
    """None, 0 and -1 mean all available cores, -2 all but one.

    More than MOST_THREADS are cut to that, with a warning."""
    if n_jobs is None or n_jobs <= 0:
        return max(1, min(MOST_THREADS, available_cores()) + 1 + min(n_jobs or -1, -1))
    if n_jobs > MOST_THREADS:
        warnings.warn(
            f"n_jobs={n_jobs}: at most {MOST_THREADS} threads are used", BitgroveWarning, 3
        )
    return int(min(n_jobs, MOST_THREADS))


def map_in_threads(work: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """work(part) of each part, by a thread for each; here, where the system refuses them."""
    if len(parts) > 1:
        with ThreadPoolExecutor(len(parts)) as threads:
            try:
                found = [threads.submit(work, part) for part in parts]
            except RuntimeError:  # no more threads
                threads.shutdown(cancel_futures=True)
            else:
                return [one.result() for one in found]
    return [work(part) for part in parts]
