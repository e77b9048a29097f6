"""Each kernel of a tree on a GPU, alone: launches and microseconds per tree, timed by NVIDIA's ncu.

ncu runs one kernel at a time, so what overlaps in a training does not here. The trees are the last
ones of the training.

    python -m lab bench calls kernels --line higgs_1m --skip 40 --trees 10
"""

from __future__ import annotations

import argparse
import csv
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence

import bitgrove as bg
from lab.benchmarks.calls import parser
from lab.benchmarks.gpu_eval import lines
from lab.internals import import_cupy
from lab.reporting import machine, markdown_table

_METRIC = "gpu__time_duration.sum"
_NCU = ["ncu", "--csv", "--metrics", _METRIC, "--print-units", "base", "--clock-control", "none",
        "--profile-from-start", "off"]  # fmt: skip


def train_watched(options: argparse.Namespace) -> None:
    """Inside of ncu: the trees after --skip are watched."""
    profiler, line = import_cupy().cuda.profiler, lines()[options.line]

    def watch(state: bg.callbacks.TrainingState) -> None:
        if state.iteration == options.skip:
            profiler.start()

    params = {**line.params, "gradient_bits": 3, "device": "cuda"}
    n_trees = options.skip + options.trees
    bg.train(params, line.task().train.dataset(), n_trees, callbacks=[watch])
    profiler.stop()


def times_of(output: Iterable[str]) -> dict[str, list[float]]:
    """Microseconds of each launch, by kernel, of what ncu printed."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in csv.DictReader(line for line in output if line.startswith('"')):
        if row["Metric Name"] == _METRIC:
            name = re.sub(r"\(.*|<.*", "", row["Kernel Name"])
            found[name].append(float(row["Metric Value"].replace(",", "")) / 1e3)
    return found


def main(words: Sequence[str]) -> int:
    given = parser("kernels")
    given.add_argument("--line", choices=list(lines()), default="higgs_1m")
    given.add_argument("--skip", type=int, default=40, help="trees that nobody watches")
    given.add_argument("--trees", type=int, default=10, help="trees that are watched")
    given.add_argument("--watched", action="store_true", help=argparse.SUPPRESS)
    options = given.parse_args(words)
    if options.watched:
        train_watched(options)
        return 0
    command = [*_NCU, sys.executable, "-m", "lab", "bench", "calls", "kernels", *words, "--watched"]
    done = subprocess.run(command, capture_output=True, text=True)
    times = times_of(done.stdout.splitlines())
    if done.returncode or not times:
        print(done.stdout[-2000:] + done.stderr[-2000:])
        return done.returncode or 1
    cells = [
        [name, f"{len(us) / options.trees:.1f}", f"{sum(us) / options.trees:.0f}",
         f"{min(us):.1f}", f"{max(us):.1f}"]
        for name, us in sorted(times.items(), key=lambda item: -sum(item[1]))
    ]  # fmt: skip
    total = sum(sum(us) for us in times.values()) / options.trees
    cells.append(["all", "", f"{total:.0f}", "", ""])
    print(f"machine: {machine('cuda')}; {options.line}, trees {options.skip + 1} on\n")
    header = ["kernel", "launches per tree", "us per tree", "least", "most"]
    print(markdown_table(header, cells))
    return 0
