"""Faults of ranks: one of three fails; what do the others say, and how soon?

    python -m lab bench faults                   # needs root for network namespaces
    python -m lab bench faults --only 'MPI: killed' 'Dask: stopped'

Each case is a cluster of its own on this machine: MPI processes (MPICH), or a Dask scheduler with
workers and a client, each a process. Seconds are counted from the deed until the last of the
others had ended. The exit status is 1 if a case does not hold: another error than the one that
names the cause, or later than its limit, or a next training that fails.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence

from lab import benchmarks
from lab.benchmarks.faults.cases import CASES, TIMEOUT, Case, Outcome
from lab.reporting import machine, markdown_table

HEADER = ["where", "one rank", "when", "the others end with", "seconds", "limit", "next", "holds"]


def _line(case: Case, outcome: Outcome) -> list[str]:
    said = outcome.kind + (f": {outcome.message}" if outcome.message else "")
    seconds = "" if outcome.seconds is None else f"{outcome.seconds:.1f}"
    again = {None: "", True: "works", False: "FAILS"}[outcome.again]
    slow = f" ({case.more['seconds']:g} s)" if "seconds" in case.more else ""
    holds = "yes" if outcome.holds(case) else "NO"
    said = re.sub(r"tcp://[\d.]+:\d+", "tcp://...", " ".join(said.replace("|", "/").split()))[:130]
    return [
        case.where,
        case.deed + slow,
        case.when,
        said,
        seconds,
        f"{case.within:g}",
        again,
        holds,
    ]


def _try(case: Case) -> Outcome:
    room = importlib.import_module(f"lab.benchmarks.faults.{case.where.lower()}")
    try:
        found: Outcome = room.run(case)
        return found
    except subprocess.TimeoutExpired:
        return Outcome("HANG", "no end", None, False)


def main(words: Sequence[str]) -> int:
    options = benchmarks.parser("faults")
    options.add_argument("--only", nargs="*", metavar="WORDS", help="in the names of cases")
    given = options.parse_args(words)
    cases = [c for c in CASES if not given.only or any(word in c.name for word in given.only)]
    if os.geteuid() != 0 or shutil.which("ip") is None:
        print("not root, or no ip command: no case with a network of its own")
        cases = [case for case in cases if not case.apart]
    lines = []
    for case in cases:
        lines.append(_line(case, _try(case)))
        print("  " + ", ".join(lines[-1]), flush=True)
    print(f"\n{machine()}; distributed_timeout={TIMEOUT:g}\n\n{markdown_table(HEADER, lines)}")
    return int(any(line[-1] == "NO" for line in lines))
