"""Is this version as fast as another one, and does it train the same models?

    pip install --no-deps --target PATH CLONE                   # of the other version
    python -m lab bench two_versions --other PATH               # CPU lines
    python -m lab bench two_versions --other PATH --device cuda

--other is the folder that holds the other version's package `bitgrove` with its compiled core; this
version is the one that is installed. Each runs in a process of its own; they take turns, so that
whatever else the machine does meets both. A line shows the best time of each, best over best, and
the median of the ratios of neighbouring runs.

This file is the workers' program, too. A worker knows only its own version of the library: the lab
is imported where it is needed.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = tuple[NDArray[Any], NDArray[Any]]
Params = dict[str, Any]
# All said: versions may have other defaults.
_BINARY = {"objective": "binary", "gradient_bits": 3, "gradient_scale": "max", "reg_lambda": 0.0,
           "min_child_weight": 1e-3}  # fmt: skip


@dataclass(frozen=True)
class Line:
    name: str
    rows: Callable[[], Rows]
    params: dict[str, Any]
    turns: int = 1  # trainings in each of --repeats: short ones need many
    whole: bool = False  # time the whole call, not the trees alone


def _higgs(n_rows: int) -> Callable[[], Rows]:
    def made() -> Rows:
        from lab.internals import make_higgs_like

        return make_higgs_like(n_rows, 0)

    return made


def _covtype() -> Rows:
    from lab.datasets.entry import Wanted, data_folder
    from lab.datasets.table import known

    task = known("covtype").load(Wanted(data_folder(None)))
    return task.X_train, task.y_train


LINES = {
    "cpu": [
        Line("fit_1k", _higgs(1_000), {**_BINARY, "n_estimators": 100}, turns=8, whole=True),
        Line("higgs_100k", _higgs(100_000), {**_BINARY, "n_estimators": 60}),
        Line("higgs_1m", _higgs(1_000_000), {**_BINARY, "num_leaves": 255, "n_estimators": 15}),
        Line("covtype", _covtype, {**_BINARY, "objective": "multiclass", "n_estimators": 6}),
    ],
    "cuda": [
        Line("higgs_100k", _higgs(100_000), {**_BINARY, "n_estimators": 300}, turns=2),
        Line("higgs_1m", _higgs(1_000_000), {**_BINARY, "num_leaves": 255, "n_estimators": 150}),
        Line("higgs_10m", _higgs(10_500_000), {**_BINARY, "num_leaves": 255, "n_estimators": 60}),
    ],
}


# Not as a script: its folder would come first on the path, and hide NVIDIA's package `cuda`.
_PROGRAM = f"import runpy; runpy.run_path({__file__!r}, run_name='__main__')"


class Version:
    """One version of the library, in a process that waits for work; source: where it must be."""

    def __init__(self, source: str | None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        core = Path(self.ask(source=source))
        if source and not core.is_relative_to(Path(source).resolve()):
            raise SystemExit(f"the other version's core is not in {source}: found {core}")

    def ask(self, **work: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(work) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit("a version ended; its error is above")
        return json.loads(answer)


def work() -> None:
    """The worker: told where its version is, it answers where the core of it was found, and then
    lines of JSON until there are none."""
    source = json.loads(sys.stdin.readline())["source"]
    if source:  # finders of an editable install would come before it
        finders = (x for x in sys.meta_path if not type(x).__module__.startswith("_editable"))
        sys.meta_path[:] = finders
        sys.path.insert(0, source)
    import bitgrove

    print(json.dumps(sys.modules["bitgrove._core"].__file__), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if "rows" in asked:
            with np.load(asked["rows"]) as file:
                X, y = file["X"], file["y"].astype(np.float64)
            data = bitgrove.Dataset(X, y)
            bitgrove.train({**asked["params"], "n_estimators": 2}, data)  # bins, and compiles
            print(json.dumps(None), flush=True)
            continue
        started = time.perf_counter()
        model = bitgrove.train(asked["params"], bitgrove.Dataset(X, y) if asked["whole"] else data)
        seconds = time.perf_counter() - started
        if not asked["whole"]:
            assert model.info is not None, "train() measures"
            seconds = model.info.seconds["train"]
        ms = 1e3 * seconds / asked["params"]["n_estimators"]
        print(json.dumps([ms, model.digest()]), flush=True)


def compare(line: Line, versions: dict[str, Version], params: Params, turns: int) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.npz")
        X, y = line.rows()
        np.savez(path, X=X, y=y)
        for version in versions.values():
            version.ask(rows=str(path), params=params)
    ms: dict[str, list[float]] = {name: [] for name in versions}
    digests = set()
    for turn in range(turns * line.turns):
        for name in list(versions)[:: -1 if turn % 2 else 1]:
            took, digest = versions[name].ask(params=params, whole=line.whole)
            ms[name].append(took)
            digests.add(digest)
    other, this = min(ms["other"]), min(ms["this"])
    ratio = statistics.median(a / b for a, b in zip(ms["this"], ms["other"], strict=True))
    same = "yes" if len(digests) == 1 else "NO"
    return [line.name, f"{other:.4f}", f"{this:.4f}", f"{this / other:.3f}", f"{ratio:.3f}", same]


def main(words: Sequence[str]) -> int:
    from lab import benchmarks
    from lab.reporting import machine, markdown_table

    parser = benchmarks.parser("two_versions")
    parser.add_argument("--other", required=True, help="the folder with the other package")
    parser.add_argument("--device", choices=sorted(LINES), default="cpu")
    parser.add_argument("--lines", nargs="+", help="only these")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args(words)
    versions = {"other": Version(options.other), "this": Version(None)}
    extra = {"n_jobs": options.threads} if options.device == "cpu" else {"device": "cuda"}
    chosen = [x for x in LINES[options.device] if options.lines is None or x.name in options.lines]
    rows = [compare(x, versions, {**x.params, **extra}, options.repeats) for x in chosen]
    header = ["line", "other, ms per tree", "this", "best / best", "median ratio", "same bytes"]
    print(machine(options.device), markdown_table(header, rows), sep="\n\n")
    return int(any(row[-1] != "yes" for row in rows))


if __name__ == "__main__":
    work()
