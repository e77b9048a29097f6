"""python -m tests.fuzz TARGET [--seconds S] [--seed N]: random cases until the time is over.

Each case has a number, from which all of it follows. Cases run in a child process; where one breaks
a promise, or the child dies, the number is printed with the command that repeats it.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fuzz.targets import READERS, TARGETS, run_case

_BATCH = dict.fromkeys(READERS, 10_000) | {"train": 20, "tables": 40}
# Of a batch: of its own time, and of the clock's, which other processes take their share of.
_MOST_SECONDS, _MOST_WAITING = 600, 7200


def _child(target: str, first: int, n_cases: int, at: Path) -> int:
    """Runs cases one after another; `at` says which one it is at."""
    n_accepted = 0
    resource.setrlimit(resource.RLIMIT_CPU, (_MOST_SECONDS, _MOST_SECONDS))
    with at.open("wb", buffering=0) as place:
        for case in range(first, first + n_cases):
            os.pwrite(place.fileno(), b"%20d" % case, 0)
            try:
                n_accepted += run_case(target, case)
            except Exception:
                traceback.print_exc()
                return 1
    print(n_accepted)
    return 0


def _batch(target: str, first: int, n_cases: int, at: Path) -> tuple[int, int | None]:
    """(accepted cases, the number of one that failed)."""
    words = [target, "--first", str(first), "--cases", str(n_cases), "--at", str(at)]
    at.write_text(str(first))
    try:
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz", *words],
            stdout=subprocess.PIPE, text=True, timeout=_MOST_WAITING, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        print("no end within", _MOST_WAITING, "s", file=sys.stderr)
        return 0, int(at.read_text())
    if done.returncode != 0:
        print("the child ended with", done.returncode, file=sys.stderr)
        return 0, int(at.read_text())
    return int(done.stdout.split()[-1]), None


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", choices=[*TARGETS], nargs="+")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--first", type=int, help="run this case, and --cases of them, right here")
    parser.add_argument("--cases", type=int, default=1)
    parser.add_argument("--at", type=Path, default=Path("/dev/null"))
    args = parser.parse_args(words)
    if args.first is not None:
        return _child(args.target[0], args.first, args.cases, args.at)
    failed: list[str] = []
    print(f"seed {args.seed}")
    for target in args.target:
        until = time.monotonic() + args.seconds / len(args.target)
        n_cases, n_accepted, next_case = 0, 0, args.seed * 10**9
        with TemporaryDirectory() as folder:
            while time.monotonic() < until:
                size = _BATCH[target]
                accepted, wrong = _batch(target, next_case, size, Path(folder) / "at")
                n_cases, n_accepted = n_cases + size, n_accepted + accepted
                next_case += size
                if wrong is not None:
                    failed.append(f"python -m tests.fuzz {target} --first {wrong}")
                    print(f"FAILED: {failed[-1]}")
                    next_case = wrong + 1
        print(f"{target}: {n_cases} cases, {n_accepted} accepted", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
