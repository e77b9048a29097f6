"""python tests/soak/kills.py [--runs N] [--ranks R | --dask]: SIGKILL at random moments.

A training writes checkpoints and is started again after each kill, alone, on as many MPI ranks as
asked for, or on a Dask cluster, until it ends; its model must be that of a training which nobody
disturbed. Of a cluster all processes are killed, or one of them: a worker, its nanny, the client.
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


def _command(folder: Path, model: str, how: argparse.Namespace, checkpoint: str = "") -> list[str]:
    """The training, with a checkpoint after each tree if there is a file for it."""
    if how.dask:
        program = Path(__file__).with_name("dask_training.py")
        files = [folder / "data.csv", folder / model, *([checkpoint] if checkpoint else [])]
        return [sys.executable, str(program), *map(str, files)]
    more = ["--checkpoint", checkpoint, "--checkpoint_every", "1"] if checkpoint else []
    words = [sys.executable, "-m", "bitgrove", "train", "--data", str(folder / "data.csv"),
             "--label", "y", "--objective", "binary", "--n_estimators", str(N_TREES),
             "--subsample", "0.7", "--n_jobs", "1", "--no-progress", "--model", str(folder / model),
             *more]  # fmt: skip
    return words if how.ranks == 1 else ["mpiexec", "-n", str(how.ranks), *words]


def _run_to_the_end(folder: Path, run: int, how: argparse.Namespace, usual: float) -> int:
    """How often it was killed; usual: seconds that it takes undisturbed."""
    words, n_kills = _command(folder, f"{run}.model", how, str(folder / f"{run}.checkpoint")), 0
    while True:
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        patience = random.uniform(0.3, 0.95) * usual if n_kills < 4 else None
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            _strike(process.pid, one_of_them=how.dask and random.random() < 0.5)
            process.wait()
            n_kills += 1
            if process.returncode == 0:  # a worker that was not needed any more
                return n_kills
            continue
        if process.returncode == 0:
            return n_kills
        n_kills += 1  # the others ended with the one that was killed


def _strike(pid: int, one_of_them: bool) -> None:
    """Kills a process and those that it started, in random order, or one of them."""
    victims, n_seen = [pid], 0
    while n_seen < len(victims):
        below = Path(f"/proc/{victims[n_seen]}/task/{victims[n_seen]}/children")
        victims += map(int, below.read_text().split()) if below.exists() else []
        n_seen += 1
    random.shuffle(victims)
    victims = victims[:1] if one_of_them else victims
    subprocess.run(["kill", "-9", *map(str, victims)], check=False, stderr=subprocess.DEVNULL)


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--dask", action="store_true", help="on two workers of a cluster")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    args = parser.parse_args(given)
    random.seed(args.seed)
    print(f"seed {args.seed}")
    with TemporaryDirectory() as name:
        folder = Path(name)
        _write_table(folder / "data.csv")
        words, usual = _command(folder, "whole.model", args), []
        for _ in range(2):  # the first reads what the system has not read yet
            started = time.monotonic()
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
            usual.append(time.monotonic() - started)
        whole, n_kills, n_wrong = (folder / "whole.model").read_bytes(), 0, 0
        for run in range(args.runs):
            n_kills += _run_to_the_end(folder, run, args, min(usual))
            n_wrong += (folder / f"{run}.model").read_bytes() != whole
        left = [*folder.glob(".bitgrove-*.tmp")]
    where = "Dask" if args.dask else f"{args.ranks} ranks"
    print(f"{where}: {args.runs} runs, {n_kills} kills, {n_wrong} other models, "
          f"{len(left)} temporary files left for ten minutes")  # fmt: skip
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
