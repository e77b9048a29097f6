"""How many threads a call may use."""

from __future__ import annotations

import os


def available_cores() -> int:
    """Cores this process may run on: affinity and OMP_NUM_THREADS are respected."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return min(cores, int(limit)) if limit.isdigit() and int(limit) > 0 else cores


def resolve_threads(n_jobs: int | None) -> int:
    """None and -1 mean all available cores."""
    return available_cores() if n_jobs is None or n_jobs < 1 else int(n_jobs)
