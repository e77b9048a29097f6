"""What an MPI process of the tests does: `python mpi_worker.py JOB JSON`; rank 0 prints JSON."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import bitgrove as bg
from bitgrove.distributed import mpi
from bitgrove.distributed.comm import Comm, gather_facts
from bitgrove.distributed.nccl import NcclComm
from bitgrove.errors import RankFailure

sys.path.insert(0, str(Path(__file__).parents[1]))
from cases import CASES, Case
from staged_channel import StagedChannel


def digests(comm: Comm, jobs: list[tuple[str, str, dict[str, Any]]]) -> list[list[str]]:
    """Every rank's digest of each (case, how rows are dealt, changed parameters)."""
    found = []
    for name, dealing, changes in jobs:
        case: Case = CASES[name]()
        model = case.train_shard(comm, dealing, {"n_jobs": 1, **changes})
        found.append(gather_facts(comm, model.digest()))
    return found


def mixed(comm: Comm, how: tuple[str, list[str]]) -> list[list[str]]:
    """Every rank's digest when rank r trains on the r-th device."""
    name, devices = how
    return digests(comm, [(name, "uneven", {"device": devices[comm.rank]})])


def staged(comm: Comm, jobs: list[tuple[str, str, dict[str, Any]]]) -> list[list[str]]:
    """As digests, over NcclComm, whose sums go through the host."""
    return digests(NcclComm(comm, StagedChannel(comm)), jobs)


class FaultyComm:
    """Passes everything on; before the n-th call of a collective it does something bad."""

    def __init__(self, comm: Any, collective: str, n: int, fault: str) -> None:
        self._comm, self._calls, self._trap = comm, Counter[str](), (collective, n, fault)

    def __getattr__(self, name: str) -> Any:
        collective, n, fault = self.__dict__["_trap"]
        if name == collective:
            self._calls[name] += 1
            if self._calls[name] == n:
                _misbehave(fault)
        return getattr(self._comm, name)

    def sum_histograms(self, *args: Any) -> None:
        Comm.sum_histograms(self, *args)  # by the collectives of this one, not the passed-on ones

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("_comm", "_calls", "_trap"):
            self.__dict__[name] = value
        else:
            setattr(self._comm, name, value)


def _misbehave(fault: str) -> None:
    if fault == "raise":
        raise MemoryError("no memory left for a histogram")
    os.kill(os.getpid(), {"die": signal.SIGKILL, "hang": signal.SIGSTOP}[fault])


def fault(comm: Any, how: dict[str, Any]) -> None:
    """Trains until rank `rank` fails; every survivor writes what it raised, and when."""
    if comm.rank == how["rank"]:
        comm = FaultyComm(comm, how["collective"], how["n"], how["fault"])
    report = Path(how["folder"]) / f"rank-{comm.rank}.json"
    report.write_text(json.dumps({"pid": os.getpid()}))
    case = CASES["binary 4 bits no refit"]()
    started = time.monotonic()
    try:
        case.train_shard(comm, "uneven", {"n_jobs": 1, "distributed_timeout": how["timeout"]})
    except BaseException as error:
        facts = {
            "pid": os.getpid(),
            "kind": type(error).__name__,
            "rank": error.rank if isinstance(error, RankFailure) else comm.rank,
            "message": str(error),
            "seconds": time.monotonic() - started,
        }
        report.write_text(json.dumps(facts))
        _wait_for_reports(Path(how["folder"]), comm.size - (how["fault"] != "raise"))
        raise


def _wait_for_reports(folder: Path, n_expected: int) -> None:
    """The first uncaught error ends all processes: not before each has written its own."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        reports = [path.read_text() for path in folder.glob("rank-*.json")]
        if sum('"kind"' in text for text in reports) == n_expected:
            break
        time.sleep(0.05)


def again(comm: Comm, how: dict[str, Any]) -> list[list[str]]:
    """A training that one rank fails, then one with a new communicator in the same processes."""
    X, y = np.arange(20.0)[:, None], np.arange(20.0)
    if comm.rank == 1:
        y = np.full(20, 0.5)  # no class
    try:
        bg.train({"objective": "binary"}, bg.Dataset(X, y % 2), comm=comm)
        raise AssertionError("the first training must fail")
    except (RankFailure, bg.DataError):
        return digests(mpi(), [("regression", "uneven", {})])


def main() -> None:
    comm = mpi()
    jobs = {"digests": digests, "fault": fault, "again": again, "mixed": mixed, "staged": staged}
    job = jobs[sys.argv[1]]
    answer = job(comm, json.loads(sys.argv[2]))  # type: ignore[operator]
    if comm.rank == 0:
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
