"""Cases over MPI: three processes train, one of them does its deed, the others write what they say.

`python -m lab.benchmarks.faults.mpi HOW` is a rank; `run` starts them and returns the Outcome.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import bitgrove as bg
from bitgrove.distributed import mpi
from lab.benchmarks.faults.cases import N_RANKS, PARAMS, TIMEOUT, VICTIM, Case, Outcome, rows
from lab.benchmarks.faults.deeds import MARK, trained_twice
from lab.benchmarks.network.shaped_network import MPI_OVER_TCP, detach_words, inside, network

_PATIENCE = 90.0  # seconds after which a run is a hang


# ---------------------------------------------------------------- a rank


def _different(deed: str, X: Any, y: Any, params: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The rows and parameters of the rank that is not like the others."""
    if deed == "other columns":
        X = X[:, :-1]
    if deed == "other parameters":
        params = {**params, "num_leaves": 7}
    if deed == "a negative label":
        y = np.where(np.arange(len(y)) == 7, -1.0, y)
    return X, y, params


def rank(how: dict[str, Any]) -> None:
    """Trains; what it raised, or the digest of its model, goes into a file of its own."""
    comm = mpi(timeout=TIMEOUT)
    X, y = (np.array_split(part, comm.size)[comm.rank] for part in rows())
    params: dict[str, Any] = {**PARAMS, "distributed_timeout": TIMEOUT}
    mine = how if comm.rank == VICTIM else None
    if mine:
        X, y, params = _different(how["deed"], X, y, params)
    report = Path(how["folder"]) / f"rank-{comm.rank}.json"
    report.write_text(json.dumps({"pid": os.getpid()}))
    started = time.time()
    try:
        data = bg.Dataset(X, y)
        model = trained_twice(partial(bg.train, params, data), comm, mine)
        facts: dict[str, Any] = {"kind": "model", "message": model.digest()}
    except BaseException as error:
        facts = {"kind": type(error).__name__, "message": str(error)}
        raise
    finally:
        facts |= {"pid": os.getpid(), "started": started, "at": time.time()}
        report.write_text(json.dumps(facts))
        if facts["kind"] != "model":
            _wait_for_others(Path(how["folder"]))


def _wait_for_others(folder: Path) -> None:
    """The first error that nobody catches ends all processes: not before they wrote theirs."""
    until = time.monotonic() + 2.0
    while time.monotonic() < until:
        if all('"kind"' in path.read_text() for path in folder.glob("rank-*.json")):
            return
        time.sleep(0.02)


# ---------------------------------------------------------------- all of them


def run(case: Case) -> Outcome:
    solo = bg.train(PARAMS, bg.Dataset(*rows())).digest()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        how = {"folder": str(folder), "deed": case.deed, "when": case.when, **case.more}
        if case.apart:
            stack.enter_context(network(N_RANKS, None))
            how["words"] = detach_words(VICTIM)
        said, ended = _launch(json.dumps(how), case.apart)
        reports = {r: json.loads((folder / f"rank-{r}.json").read_text()) for r in range(N_RANKS)}
        deed = folder / MARK
        started = (
            json.loads(deed.read_text())["at"]
            if deed.exists()
            else reports[0].get("started", ended)
        )
        _end([report["pid"] for report in reports.values()])
    others = [report for r, report in reports.items() if r != VICTIM]
    spoke = [report for report in others if "kind" in report]
    if not spoke:  # the launcher was faster
        named = [line.strip("= ") for line in said.splitlines() if " PID " in line]
        return Outcome("(the launcher)", " ".join(named) or said[-200:], ended - started)
    seconds = max(report["at"] for report in spoke) - started
    if all(report.get("kind") == "model" for report in reports.values()):
        same = {report["message"] for report in reports.values()} == {solo}
        return Outcome("the same model" if same else "another model", "", seconds)
    return Outcome(spoke[0]["kind"], spoke[0]["message"], seconds)


def _launch(how: str, apart: bool) -> tuple[str, float]:
    """What the ranks and their launcher printed, and when they had ended."""
    folders = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    mpiexec = shutil.which("mpiexec", path=folders) or "mpiexec"
    program = [*(inside("$PMI_RANK") if apart else []), sys.executable, "-m", __name__]
    done = subprocess.run(
        # Without the option the launcher kills the survivors of a death before they say a word.
        [mpiexec, "-disable-auto-cleanup", "-n", str(N_RANKS),
         "sh", "-c", f"exec {' '.join(program)} \"$0\"", how],
        env={**os.environ, **(MPI_OVER_TCP if apart else {}), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_PATIENCE, check=False,
    )  # fmt: skip
    return done.stdout, time.time()


def _end(pids: list[int]) -> None:
    """A hang of the launcher must not outlive the case."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    rank(json.loads(sys.argv[1]))
