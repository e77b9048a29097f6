"""python tests/fuzz/kills.py [--runs N] [--ranks R]: SIGKILL at random moments of a training.

The training writes checkpoints and is started again after each kill, on as many MPI ranks as asked
for, until it ends; its model must be that of a training which nobody disturbed.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

N_ROWS, N_TREES = 40_000, 60


def _write_table(path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 5)).round(3)
    y = (X[:, 0] + X[:, 1] ** 2 + rng.normal(size=N_ROWS) > 1).astype(int)
    header = ",".join([*(f"x{i}" for i in range(5)), "y"])
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", header=header, comments="", fmt="%g")


def _command(folder: Path, model: str, n_ranks: int, *more: str) -> list[str]:
    words = [sys.executable, "-m", "bitgrove", "train", "--data", str(folder / "data.csv"),
             "--label", "y", "--objective", "binary", "--n_estimators", str(N_TREES),
             "--subsample", "0.7", "--n_jobs", "1", "--no-progress", "--model", str(folder / model),
             *more]  # fmt: skip
    return words if n_ranks == 1 else ["mpiexec", "-n", str(n_ranks), *words]


def _run_to_the_end(folder: Path, run: int, n_ranks: int, usual: float) -> int:
    """How often it was killed; usual: seconds that it takes undisturbed."""
    checkpoint, n_kills = folder / f"{run}.checkpoint", 0
    words = _command(folder, f"{run}.model", n_ranks, "--checkpoint", str(checkpoint),
                     "--checkpoint_every", "1")  # fmt: skip
    while True:
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        patience = random.uniform(0.3, 0.95) * usual if n_kills < 4 else None
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            _strike(process.pid)
            process.wait()
            n_kills += 1
            continue
        if process.returncode == 0:
            return n_kills
        n_kills += 1  # the others ended with the one that was killed


def _strike(pid: int) -> None:
    """Kills a process and those that it started, in random order."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    victims = [pid, *map(int, children)]
    for child in children:
        below = Path(f"/proc/{child}/task/{child}/children")
        victims += map(int, below.read_text().split()) if below.exists() else []
    random.shuffle(victims)
    subprocess.run(["kill", "-9", *map(str, victims)], check=False, stderr=subprocess.DEVNULL)


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    args = parser.parse_args(given)
    random.seed(args.seed)
    print(f"seed {args.seed}")
    with TemporaryDirectory() as name:
        folder = Path(name)
        _write_table(folder / "data.csv")
        words, usual = _command(folder, "whole.model", args.ranks), []
        for _ in range(2):  # the first reads what the system has not read yet
            started = time.monotonic()
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
            usual.append(time.monotonic() - started)
        whole, n_kills, n_wrong = (folder / "whole.model").read_bytes(), 0, 0
        for run in range(args.runs):
            n_kills += _run_to_the_end(folder, run, args.ranks, min(usual))
            n_wrong += (folder / f"{run}.model").read_bytes() != whole
        left = [*folder.glob(".bitgrove-*.tmp")]
    print(f"{args.ranks} ranks: {args.runs} runs, {n_kills} kills, {n_wrong} other models, "
          f"{len(left)} temporary files left for ten minutes")  # fmt: skip
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
