"""How many threads a call may use.

A process made by fork() inherits GNU OpenMP's memory but not its threads, and would wait for them
for ever: there, everything runs on one thread. Processes that are spawned (joblib's default) are
not affected.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from bitgrove.errors import BitgroveWarning

# GNU OpenMP keeps the threads of a team on the stack of the one that calls; it ends where they are
# tens of thousands, and long before that they only wait for each other.
MOST_THREADS = 1024

Part = TypeVar("Part")
Result = TypeVar("Result")
_forked = False


def _after_fork() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def available_cores() -> int:
    """Cores this process may run on: affinity and OMP_NUM_THREADS are respected."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return min(cores, int(limit)) if limit.isdigit() and int(limit) > 0 else cores


def resolve_threads(n_jobs: int | None) -> int:
    """None, 0 and -1 mean all available cores, -2 all but one; one in a forked process.

    More than MOST_THREADS are cut to that, with a warning."""
    if _forked:
        return 1
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
