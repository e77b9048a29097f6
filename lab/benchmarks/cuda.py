"""Training on the GPU: the same bits as the CPU, then milliseconds per tree.

One call checks model digests of CPU and GPU (small cases of every objective, and a few trees of
every line), times each line with 3 bits and in full precision, splits the time of a tree by verb,
and prints a short table last. The exit status is 1 if a digest differs.

    python -m lab bench cuda --lines higgs_1m higgs_100k --trees 50
    python -m lab bench cuda --lines higgs_10m --leave-mb 800  # more rows than the GPU has room for
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import bitgrove as bg
from lab import benchmarks
from lab.benchmarks.same_bits import cases
from lab.datasets import simple
from lab.datasets.task import Task
from lab.internals import import_cupy, timed_cuda_verbs
from lab.reporting import machine, markdown_table
from lab.scoring import metric_of, score

BITS: tuple[int | None, ...] = (3, None)


@dataclass(frozen=True)
class Line:
    """A row of the table; `bars` are the milliseconds wanted for each of BITS."""

    task: Callable[[], Task]
    bars: tuple[str, str]
    params: dict[str, Any] = field(default_factory=dict)


def lines() -> dict[str, Line]:
    large = {"objective": "binary", "num_leaves": 255}
    small, wide = {**large, "num_leaves": 31}, {**large, "bin_sample_rows": 20_000}
    rank = {"objective": "lambdarank", "num_leaves": 255, "bin_sample_rows": 50_000}
    return {
        "higgs_100k": Line(lambda: simple.higgs_like(100_000, 200_000), ("1.0", "1.2"), small),
        "higgs_1m": Line(lambda: simple.higgs_like(1_000_000, 200_000), ("2.5", "5"), large),
        "higgs_10m": Line(lambda: simple.higgs_like(10_500_000, 200_000), ("5", "15"), large),
        "wide": Line(lambda: simple.wide_normal(400_000, 20_000, 2000), ("15", "45"), wide),
        "ranking": Line(lambda: simple.long_queries(20_000, 500, 136), ("8", "-"), rank),
    }


def train(line: Line, data: bg.Dataset, bits: int | None, n_trees: int, device: str) -> Any:
    """(model, milliseconds per tree without the first ones)."""
    times: list[float] = []
    params = {**line.params, "gradient_bits": bits, "n_estimators": n_trees, "device": device}
    callback = [lambda _: times.append(time.perf_counter())]
    model = bg.train(params, data, callbacks=callback)
    skip = min(3, len(times) - 2)
    return model, 1e3 * (times[-1] - times[skip]) / max(1, len(times) - 1 - skip)


def verb_table(line: Line, data: bg.Dataset, bits: int | None) -> str:
    n_trees = 10
    train(line, data, bits, 3, "cuda")
    with timed_cuda_verbs() as seconds:
        model, per_tree = train(line, data, bits, n_trees, "cuda")
    cells = [
        [verb, f"{len(s) / n_trees:.1f}", f"{1e3 * sum(s) / n_trees:.3f}", f"{1e6 * min(s):.0f}"]
        for verb, s in seconds.items()
    ]
    rounds = np.mean(model.info.rounds_per_tree)
    all_verbs = 1e3 * sum(sum(s) for s in seconds.values()) / n_trees
    cells.append(["all verbs", "", f"{all_verbs:.3f}", ""])
    cells.append([f"tree ({rounds:.1f} rounds)", "", f"{per_tree:.3f}", ""])
    return markdown_table(["verb", "calls per tree", "ms per tree", "least us"], cells)


def check_small_cases() -> list[str]:
    """Names of the cases of same_bits whose GPU model differs from the CPU's."""
    different = []
    for name, case in cases().items():
        digests = set()
        for device in ("cpu", "cuda"):
            valid = case.valid().dataset() if case.valid else None
            params = {**case.params, "device": device}
            digests.add(bg.train(params, case.rows().dataset(), valid_sets=valid).digest())
        if len(digests) > 1:
            different.append(name)
    print(f"small cases: {len(cases())}, different: {different or 'none'}\n", flush=True)
    return different


def run_line(name: str, options: argparse.Namespace) -> list[list[str]]:
    line = lines()[name]
    started = time.perf_counter()
    task = line.task()
    data = task.train.dataset()
    print(f"{name}: {task.shape}, made in {time.perf_counter() - started:.1f} s", flush=True)
    cells = []
    for bits, bar in zip(BITS, line.bars, strict=True):
        started = time.perf_counter()
        train(line, data, bits, 2, "cuda")
        print(f"  first training {time.perf_counter() - started:.1f} s", flush=True)
        runs = [train(line, data, bits, options.trees, "cuda") for _ in range(options.repeats)]
        model, per_tree = min(runs, key=lambda run: run[1])
        same = "not checked"
        if name in options.check:
            pair = [train(line, data, bits, options.check_trees, d)[0] for d in ("cpu", "cuda")]
            same = "yes" if pair[0].digest() == pair[1].digest() else "NO"
        label = f"{bits} bits" if bits else "full precision"
        metric = f"{metric_of(task)} {score(task, model.predict(task.X_test)):.4f}"
        cells.append([name, label, f"{per_tree:.2f}", bar, metric, same])
        print("  " + ", ".join(cells[-1]), flush=True)
        if options.verbs:
            print(verb_table(line, data, bits) + "\n", flush=True)
    return cells


def fill_memory(leave_mb: int | None) -> Any:
    """Memory of the GPU that nobody else shall have: what is larger than the rest must spill."""
    if leave_mb is None:
        return None
    cupy = import_cupy()
    free, total = cupy.cuda.runtime.memGetInfo()
    print(f"{leave_mb} MB of the GPU's {total / 1e9:.0f} GB are left\n", flush=True)
    return cupy.empty(max(0, free - leave_mb * 1_000_000), dtype=np.uint8)


def main(words: Sequence[str]) -> int:
    parser = benchmarks.parser("cuda")
    names = list(lines())
    parser.add_argument("--lines", nargs="*", choices=names, default=names)
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=3, help="the fastest run counts")
    parser.add_argument("--check", nargs="*", choices=names, default=names)
    parser.add_argument("--check-trees", type=int, default=3)
    parser.add_argument("--leave-mb", type=int, help="fill the GPU's memory up to this much")
    parser.add_argument("--no-small-cases", action="store_true")
    parser.add_argument("--no-verbs", dest="verbs", action="store_false")
    options = parser.parse_args(words)
    print(f"machine: {machine('cuda')}; CuPy {import_cupy().__version__}\n", flush=True)
    kept = fill_memory(options.leave_mb)
    different = [] if options.no_small_cases else check_small_cases()
    cells = [row for name in options.lines for row in run_line(name, options)]
    header = ["line", "gradients", "ms per tree", "bar", "test metric", "same as CPU"]
    print("\n" + markdown_table(header, cells))
    del kept
    return int(bool(different) or any(row[-1] == "NO" for row in cells))
