"""python tests/soak/kills.py [--runs N] [--ranks R | --dask]: SIGKILL at random moments.

A training writes checkpoints and is started again after each kill, alone, on as many MPI ranks as
asked for, or on a Dask cluster, until it ends; its model must be that of a training which nobody
disturbed. Of a cluster all processes are killed, or one of them: a worker or the client. A start
that nobody kills must end well; what it said is printed if it does not.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

N_ROWS, N_TREES = 40_000, 60
_MOST_KILLS = 4  # of one training
_PATIENCE = 300.0  # seconds of a start after which it is a hang


def _write_table(path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 5)).round(3)
    y = (X[:, 0] + X[:, 1] ** 2 + rng.normal(size=N_ROWS) > 1).astype(int)
    header = ",".join([*(f"x{i}" for i in range(5)), "y"])
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", header=header, comments="", fmt="%g")


def _command(folder: Path, model: str, how: argparse.Namespace, checkpoint: str = "") -> list[str]:
    """The training, with a checkpoint after each tree if there is a file for it."""
    if how.dask or how.ranks > 1:
        program = Path(__file__).with_name(f"{'dask' if how.dask else 'rank'}_training.py")
        files = [folder / "data.csv", folder / model, *([checkpoint] if checkpoint else [])]
        words = [sys.executable, str(program), *map(str, files)]
        return words if how.dask else ["mpiexec", "-n", str(how.ranks), *words]
    more = ["--checkpoint", checkpoint, "--checkpoint_every", "1"] if checkpoint else []
    return [sys.executable, "-m", "bitgrove", "train", "--data", str(folder / "data.csv"),
            "--label", "y", "--objective", "binary", "--n_estimators", str(N_TREES),
            "--subsample", "0.7", "--n_jobs", "1", "--no-progress", "--model", str(folder / model),
            *more]  # fmt: skip


def _run_to_the_end(folder: Path, run: int, how: argparse.Namespace, usual: float) -> int:
    """How often it was killed; usual: seconds that it takes undisturbed."""
    words = _command(folder, f"{run}.model", how, str(folder / f"{run}.checkpoint"))
    for n_kills in range(_MOST_KILLS + 1):
        with (folder / "said").open("w+") as said:
            start = subprocess.Popen(
                words, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
            )
            moment, how_many = random.uniform(0.3, 0.95) * usual, random.random()
            try:
                killed = n_kills < _MOST_KILLS and not _ends(start, moment)
                if killed:
                    _strike(start.pid, one_of_them=how.dask and how_many < 0.5)
                in_time = _ends(start, _PATIENCE)
            finally:
                if start.poll() is None:
                    _strike(start.pid, one_of_them=False)
                with contextlib.suppress(ProcessLookupError):  # what has lost its parent
                    os.killpg(start.pid, signal.SIGKILL)
            if in_time and start.wait() == 0:  # perhaps nobody needed the one that was killed
                return n_kills + killed
            if not killed or not in_time:
                said.seek(0)
                print(f"run {run}: {'nobody killed it' if in_time else 'a HANG'}; it said\n"
                      f"{said.read()[-4000:]}", flush=True)  # fmt: skip
                return n_kills + killed
    raise AssertionError("the last start is not killed")


def _ends(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _strike(pid: int, one_of_them: bool) -> None:
    """Kills a process and those that it started, in random order, or one of them."""
    victims = [pid]
    for seen in victims:  # grows on the way
        victims += _children(seen)
    random.shuffle(victims)
    for victim in victims[:1] if one_of_them else victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    """Those that any of its threads started; none of a process that is gone by now."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--dask", action="store_true", help="on two workers of a cluster")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    args = parser.parse_args(given)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started ends with it
    random.seed(args.seed)
    print(f"seed {args.seed}", flush=True)
    where = "Dask" if args.dask else f"{args.ranks} ranks"
    with TemporaryDirectory() as name:
        folder = Path(name)
        _write_table(folder / "data.csv")
        words, usual = _command(folder, "whole.model", args), []
        for _ in range(2):  # the first reads what the system has not read yet
            started = time.monotonic()
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
            usual.append(time.monotonic() - started)
        whole, n_kills, n_same = (folder / "whole.model").read_bytes(), 0, 0
        for run in range(args.runs):
            n_kills += _run_to_the_end(folder, run, args, min(usual))
            model = folder / f"{run}.model"
            n_same += model.exists() and model.read_bytes() == whole
            left = len([*folder.glob(".bitgrove-*.tmp")])
            print(f"{where}: {run + 1} runs, {n_kills} kills, {n_same} the same model, "
                  f"{left} temporary files left for ten minutes", flush=True)  # fmt: skip
    return 0 if n_same == args.runs else 1


if __name__ == "__main__":
    sys.exit(main())
