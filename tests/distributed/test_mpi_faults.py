"""MPI processes that raise, die or hang: training ends everywhere and names the rank."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cases import CASES
from mpi_launch import WORKER, mpiexec, run_job

TIMEOUT = 4.0
# Where a rank fails: while edges are found, in a tree, in the exchange of histograms, at splits.
PLACES = {
    "binning": ("alltoall", 1),
    "tree": ("allreduce_sum", 12),
    "reduce": ("alltoall", 7),
    "splits": ("allgather", 9),
}


def run(folder: Path, rank: int, place: str, fault: str) -> dict[int, dict[str, Any]]:
    """What each rank wrote; every process must be gone soon after the first one failed."""
    collective, n = PLACES[place]
    how = {"rank": rank, "collective": collective, "n": n, "fault": fault,
           "timeout": TIMEOUT, "folder": str(folder)}  # fmt: skip
    # Without the option Hydra always kills the survivors of a death before they can say a word.
    done = mpiexec(
        3, sys.executable, str(WORKER), "fault", json.dumps(how),
        options=("-disable-auto-cleanup",), seconds=90,
    )  # fmt: skip
    assert done.returncode != 0
    reports = {r: json.loads((folder / f"rank-{r}.json").read_text()) for r in range(3)}
    _wait_until_gone([facts["pid"] for facts in reports.values()])
    return reports


def _wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 20
    alive = pids
    while alive and time.monotonic() < deadline:
        alive = [pid for pid in alive if os.path.exists(f"/proc/{pid}")]
        time.sleep(0.1)
    assert not alive, "processes outlived the training"


@pytest.mark.parametrize("place", PLACES)
def test_a_rank_that_raises(place: str, tmp_path: Path) -> None:
    reports = run(tmp_path, 1, place, "raise")
    assert reports[1]["kind"] == "MemoryError"
    for rank in (0, 2):
        assert reports[rank]["kind"] == "RankFailure" and reports[rank]["rank"] == 1
        assert "rank 1: MemoryError: no memory left" in reports[rank]["message"]
        assert reports[rank]["seconds"] < TIMEOUT + 30


@pytest.mark.parametrize(
    ("fault", "rank", "place"),
    [("die", 2, "binning"), ("die", 0, "tree"), ("die", 1, "reduce"),
     ("hang", 2, "tree"), ("hang", 0, "reduce")],
)  # fmt: skip
def test_a_rank_that_dies_or_hangs(rank: int, place: str, fault: str, tmp_path: Path) -> None:
    reports = run(tmp_path, rank, place, fault)
    assert "kind" not in reports.pop(rank)  # it could not say anything
    if fault == "die":  # Hydra may still have ended the others first: then no rank could speak
        reports = {r: facts for r, facts in reports.items() if "kind" in facts}
    for facts in reports.values():
        assert facts["kind"] == "RankFailure" and facts["rank"] == rank
        assert f"rank {rank}: " in facts["message"] and "no word from it" in facts["message"]
        assert facts["seconds"] < TIMEOUT + 30


def test_processes_train_again_after_a_failure() -> None:
    digest = CASES["regression"]().train().digest()
    assert run_job(3, "again", {}) == [[digest] * 3]
