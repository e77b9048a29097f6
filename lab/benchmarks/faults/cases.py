"""The cases: which rank does what, when, and what the others must say within how many seconds.

Owns the table of cases and what became of one. A case is a line here; how a rank comes to do its
deed is mpi.py's and dask.py's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

TIMEOUT = 5.0  # distributed_timeout, seconds
SOON = 10.0  # seconds for what needs no patience, on a busy machine
SILENT = TIMEOUT + SOON
PATIENT = 60.0  # where rows are computed again, or from the call of fit on
N_RANKS, VICTIM, N_ROWS, N_FEATURES = 3, 1, 30_000, 6
PARAMS: dict[str, Any] = {"objective": "poisson", "n_estimators": 12, "num_leaves": 15, "n_jobs": 1}


def rows() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, N_FEATURES))
    return X, rng.poisson(np.exp(X[:, 0] / 2))


@dataclass(frozen=True)
class Case:
    """says: in the others' error; empty where the training must end well."""

    where: str
    deed: str
    when: str
    says: str
    within: float = SOON
    more: dict[str, Any] = field(default_factory=dict)
    apart: bool = False  # every rank in a network of its own

    @property
    def name(self) -> str:
        return f"{self.where}: {self.deed}, {self.when}"


@dataclass(frozen=True)
class Outcome:
    """kind: of the error, or "the same model"; again: whether the next training was right."""

    kind: str
    message: str
    seconds: float | None
    again: bool | None = None

    def holds(self, case: Case) -> bool:
        told = re.search(case.says, self.message) if case.says else self.kind == "the same model"
        in_time = self.seconds is None or self.seconds <= case.within
        return bool(told) and in_time and self.again is not False


_ENDED = f"rank {VICTIM}: .*no word from it"
MPI = [
    *(Case("MPI", "killed", when, rf"{_ENDED}|RANK {VICTIM} PID|Killed \(signal 9\)", SILENT)
      for when in ("first", "binning", "trees", "last")),
    *(Case("MPI", "stopped", when, _ENDED, SILENT)
      for when in ("first", "binning", "trees", "last")),
    Case("MPI", "slow", "trees", "", SILENT, {"seconds": TIMEOUT / 2}),
    Case("MPI", "slow", "binning", _ENDED, SILENT, {"seconds": 4 * TIMEOUT}),
    *(Case("MPI", "raises", when, f"rank {VICTIM}: OSError: the disk is on fire")
      for when in ("binning", "trees")),
    Case("MPI", "out of memory", "binning", f"rank {VICTIM}: .*(Memory|memory|allocate)"),
    Case("MPI", "other columns", "start", f"features but rank {VICTIM} has"),
    Case("MPI", "other parameters", "start", f"num_leaves: rank 0 has 15 but rank {VICTIM} has 7"),
    Case("MPI", "a negative label", "start", f"rank {VICTIM}: DataError: label"),
    Case("MPI", "cut off", "trees", _ENDED, SILENT, apart=True),
]  # fmt: skip
_WORKER = rf"worker tcp://[^ ]+ \(rank {VICTIM}\): "
DASK = [
    Case("Dask", "killed", "computing", "", PATIENT),
    *(Case("Dask", "killed", when, f"{_WORKER}.*(died|connection broke)")
      for when in ("joining", "binning", "trees", "last")),
    *(Case("Dask", "stopped", when, f"{_WORKER}no word from it for {TIMEOUT:g} s", SILENT)
      for when in ("joining", "binning", "trees", "last")),
    Case("Dask", "slow", "trees", "", SILENT, {"seconds": TIMEOUT / 2}),
    Case("Dask", "slow", "binning", f"{_WORKER}no word", SILENT, {"seconds": 4 * TIMEOUT}),
    *(Case("Dask", "raises", when, f"{_WORKER}the disk is on fire")
      for when in ("joining", "trees")),
    # Dask's own threads find no memory, either: the worker may be gone before it can say so.
    Case("Dask", "out of memory", "binning", f"{_WORKER}.*(Memory|memory|allocate|died)"),
    Case("Dask", "other columns", "start", r"partition \d+ \(on worker tcp://[^ ]+\): .*features",
         PATIENT),
    Case("Dask", "a negative label", "start", f"{_WORKER}.*label.*-1", PATIENT),
    Case("Dask", "another version", "start", r"worker tcp://[^ ]+ has bitgrove 0\.0", PATIENT),
    Case("Dask", "the scheduler killed", "trees", "scheduler", SILENT),
    Case("Dask", "the client killed", "trees", "", SILENT),
    Case("Dask", "cut off", "trees", f"{_WORKER}.*(no word|connection broke|died)", SILENT,
         apart=True),
]  # fmt: skip
CASES = [*MPI, *DASK]
