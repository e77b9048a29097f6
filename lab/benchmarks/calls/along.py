"""Milliseconds and rounds of a tree from the first to the last of a training on a GPU.

Each line of gpu_eval, in turn with the record of the training and without it; of each tree the best
of the repeats counts, of whole calls and of what follows the last tree the median.

    python -m lab bench calls along --lines higgs_100k
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np

import bitgrove as bg
from lab.benchmarks.calls import parser
from lab.benchmarks.gpu_eval import Line, lines
from lab.datasets.task import Task
from lab.internals import without_record
from lab.reporting import machine, markdown_table


def clock_of_trees(line: Line, task: Task) -> tuple[list[float], float, bg.Model]:
    """(ms of each tree but the first, seconds of the whole call, the model)."""
    times: list[float] = []
    params = {**line.params, "gradient_bits": 3, "n_estimators": line.n_trees, "device": "cuda"}
    data, started = task.train.dataset(), time.perf_counter()
    clock = [lambda _: times.append(time.perf_counter())]
    model = bg.train(params, data, callbacks=clock)
    return list(1e3 * np.diff(times)), time.perf_counter() - started, model


def report(name: str, repeats: int, step: int) -> None:
    line = lines()[name]
    task = line.task()
    clock_of_trees(line, task)  # compiled, and memory is warm
    runs: dict[bool, list[tuple[list[float], float, bg.Model]]] = {True: [], False: []}
    for _ in range(repeats):
        for recorded, found in runs.items():
            with nullcontext() if recorded else without_record():
                found.append(clock_of_trees(line, task))
    info = runs[True][0][2].info
    assert info is not None, "train() measures"
    rounds = np.array(info.rounds_per_tree[1:])
    ms = {recorded: np.min([run[0] for run in found], axis=0) for recorded, found in runs.items()}
    cells = []
    for first in range(0, len(rounds), step):
        part = slice(first, first + step)
        each = [f"{ms[recorded][part].mean():.3f}" for recorded in (True, False)]
        per_round = 1e3 * (ms[False][part] / rounds[part]).mean()
        cells.append([f"{first + 2} on", f"{rounds[part].mean():.1f}", *each, f"{per_round:.1f}"])
    header = ["trees", "rounds", "ms per tree", "without the record", "us per round"]
    print(f"{name}: {task.shape}\n\n" + markdown_table(header, cells))
    for recorded, found in runs.items():
        whole = statistics.median(run[1] for run in found)
        per_tree = statistics.median(float(np.mean(run[0])) for run in found)
        label = "with" if recorded else "without"
        print(f"{label} the record: whole call {whole:.3f} s, {per_tree:.3f} ms per tree")
    print(flush=True)


def main(words: Sequence[str]) -> int:
    options = parser("along")
    names = list(lines())
    options.add_argument("--lines", nargs="*", choices=names, default=names)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--step", type=int, default=20, help="trees per row of the table")
    given = options.parse_args(words)
    print(f"machine: {machine('cuda')}\n", flush=True)
    for name in given.lines:
        report(name, given.repeats, given.step)
    return 0
