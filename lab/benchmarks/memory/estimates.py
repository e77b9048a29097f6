"""What trainings of several shapes are said to take at least, what they take, and both sides of it.

Each is a process of its own. "peak" is what resident memory grew by during the training,
with room for two histograms. With root
and control groups it is also tried with less than the estimate, where it must be refused, and with
one and a half times as much, where it must end: the system's OOM killer is the judge.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import bitgrove as bg
from bitgrove.distributed import run_threads
from lab.internals import HostMemoryError, estimates_noted
from lab.reporting import markdown_table

_GROUPS = Path("/sys/fs/cgroup")
HEADER = ["shape", "estimate, MB", "peak, MB", "peak / estimate", "5% less", "half as much more"]


class Job(NamedTuple):
    """As many ranks as shards."""

    params: dict[str, Any]
    shards: Sequence[bg.Dataset]
    valid: Sequence[bg.Dataset] = ()

    def run(self) -> None:
        more = {"n_estimators": 3, "n_jobs": 2, "histogram_pool_mb": 1}  # two histograms
        params = {"objective": "binary", **more, **self.params}
        if len(self.shards) == 1:
            bg.train(params, self.shards[0], valid_sets=self.valid)
            return
        run_threads(len(self.shards), lambda c: bg.train(params, self.shards[c.rank], comm=c))


def _numbers(n_rows: int, n_features: int) -> bg.Dataset:
    X = np.random.default_rng(0).random((n_rows, n_features), dtype=np.float32)
    return bg.Dataset(X, X[:, 0] > 0.5)


def _classes() -> Job:
    rows = _numbers(300_000, 10)
    rows.label = np.arange(300_000.0) % 12
    return Job({"objective": "multiclass", "num_class": 12}, [rows])


def _categories() -> Job:
    import pandas as pd

    rng, n_rows = np.random.default_rng(0), 1_000_000
    table = {
        f"c{n}": pd.Categorical.from_codes(rng.integers(0, n, n_rows), [f"v{i}" for i in range(n)])
        for n in (5, 20, 50, 200, 5000)
    }
    X = pd.DataFrame(table | {"x": rng.random(n_rows)})
    return Job({}, [bg.Dataset(X, rng.random(n_rows) > 0.5)])


def _sparse() -> Job:
    rng, n_rows, n_values = np.random.default_rng(0), 200_000, 40
    places = np.sort(rng.integers(0, 20_000, (n_rows, n_values)), axis=1)
    values = rng.random(n_rows * n_values, dtype=np.float32)
    offsets = np.arange(0, n_rows * n_values + 1, n_values)
    X = sparse.csr_matrix((values, places.ravel(), offsets), shape=(n_rows, 20_000))
    return Job({}, [bg.Dataset(X, np.arange(n_rows) % 2)])


SHAPES: dict[str, Callable[[], Job]] = {
    "3,000,000 x 4": lambda: Job({}, [_numbers(3_000_000, 4)]),
    "700,000 x 28": lambda: Job({}, [_numbers(700_000, 28)]),
    "the same, full precision": lambda: Job({"gradient_bits": None}, [_numbers(700_000, 28)]),
    "6,000 x 4,000": lambda: Job({}, [_numbers(6_000, 4_000)]),
    "300,000 x 10, 12 classes": _classes,
    "1,000,000 x 6, categories": _categories,
    "200,000 x 20,000, sparse": _sparse,
    "400,000 x 20, as many to validate": lambda: Job(
        {}, [_numbers(400_000, 20)], [_numbers(400_000, 20)]
    ),
    "400,000 x 20, two ranks": lambda: Job({}, [_numbers(200_000, 20) for _ in range(2)]),
}


def _resident(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))


def child(shape: str, limit: int | None) -> None:
    """One training; prints what was estimated and what it took, or that it was refused."""
    Job({"n_estimators": 1}, [_numbers(60_000, 4)]).run()  # what every first training loads
    job = SHAPES[shape]()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    before, refused = _resident("VmRSS"), False
    with estimates_noted() as found, suppress(HostMemoryError), _limited(limit):
        refused = True
        job.run()
        refused = False
    took = _resident("VmHWM") - before
    print(json.dumps({"estimate": sum(found), "peak": took, "refused": refused}))


@contextmanager
def _limited(limit: int | None) -> Iterator[None]:
    """This process in a control group with so many bytes, what it has already not counted."""
    if limit is None:
        yield
        return
    old = _GROUPS / "memory"
    root, name = (old, "memory.limit_in_bytes") if old.exists() else (_GROUPS, "memory.max")
    group = root / f"bitgrove-{os.getpid()}"
    group.mkdir()
    (group / name).write_text(str(limit))
    (group / "cgroup.procs").write_text(str(os.getpid()))
    yield


def _tried(shape: str, limit: int | None = None) -> dict[str, Any] | None:
    """None where the process was killed."""
    words = [sys.executable, "-m", "lab", "bench", "memory", "--child", f"{limit or 0}:{shape}"]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    for group in _GROUPS.glob("**/bitgrove-*"):
        with suppress(OSError):
            group.rmdir()
    if done.returncode != 0:
        return None
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _word(answer: dict[str, Any] | None) -> str:
    return "KILLED" if answer is None else "refused" if answer["refused"] else "trained"


def report(shapes: Sequence[str], with_limits: bool) -> int:
    """1 if an estimate does not hold."""
    lines, n_wrong = [], 0
    for shape in shapes or SHAPES:
        free = _tried(shape)
        assert free is not None
        ratio, sides = free["peak"] / free["estimate"], ["", ""]
        if with_limits:
            limits = (0.95 * free["estimate"], 1.5 * free["estimate"])
            sides = [_word(_tried(shape, int(limit))) for limit in limits]
            n_wrong += sides != ["refused", "trained"]
        n_wrong += not ratio >= 1.0
        figures = [f"{free[what] / 1e6:.0f}" for what in ("estimate", "peak")]
        lines.append([shape, *figures, f"{ratio:.2f}", *sides])
        print("  " + ", ".join(lines[-1]), flush=True)
    print(markdown_table(HEADER, lines))
    return int(n_wrong > 0)
