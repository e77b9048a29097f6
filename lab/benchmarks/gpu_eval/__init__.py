"""What a user waits for on a GPU: binning, trees, and judging a validation set in every round.

The whole call from host arrays, medians of the repeats: without a validation set, with logloss and
with AUC each round (ranking: NDCG). A few rounds are first compared with the CPU: the values of all
metrics must be equal bits. The exit status is 1 if one differs.

    python -m lab bench gpu_eval --lines higgs_1m
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import bitgrove as bg
from lab import benchmarks
from lab.datasets import simple
from lab.datasets.task import Task
from lab.reporting import machine, markdown_table

Found = tuple[bg.Model, float]  # and the seconds of the whole call


@dataclass(frozen=True)
class Line:
    """A row of the table; bars: ms per tree, seconds without, with the first and second metric."""

    task: Callable[[], Task]
    params: dict[str, Any]
    n_trees: int
    bars: tuple[str, str, str, str]
    metrics: tuple[str, ...] = ("logloss", "auc")


def lines() -> dict[str, Line]:
    small, large = ({"objective": "binary", "num_leaves": n} for n in (31, 255))
    ranking = {"objective": "lambdarank", "num_leaves": 255}
    return {
        "higgs_100k": Line(
            lambda: simple.higgs_like(100_000, 20_000), small, 200, ("0.5", "0.15", "0.20", "0.22")
        ),
        "higgs_1m": Line(
            lambda: simple.higgs_like(1_000_000, 200_000),
            large, 200, ("1.3", "0.40", "0.48", "0.55"),
        ),
        "higgs_10m": Line(
            lambda: simple.higgs_like(10_500_000, 500_000), large, 200, ("3.3", "1.1", "1.2", "1.3")
        ),
        "wide": Line(
            lambda: simple.wide_normal(400_000, 80_000, 2000),
            large, 60, ("6.0", "1.5", "1.6", "1.6"),
        ),
        "ranking": Line(
            lambda: simple.long_queries(20_000, 2_000, 136),
            ranking, 100, ("3.0", "-", "1.3x", "-"), ("ndcg@10",),
        ),
    }  # fmt: skip


def fit(line: Line, task: Task, device: str, n_trees: int, metrics: Sequence[str]) -> Found:
    """The whole call, from host arrays to the model."""
    started = time.perf_counter()
    params = {**line.params, "gradient_bits": 3, "n_estimators": n_trees, "device": device}
    params |= {"eval_metric": list(metrics)} if metrics else {}
    valid = task.test.dataset() if metrics else None
    model = bg.train(params, task.train.dataset(), valid_sets=valid)
    return model, time.perf_counter() - started


def same_values(line: Line, task: Task, n_trees: int) -> bool:
    cpu, cuda = (fit(line, task, device, n_trees, line.metrics)[0] for device in ("cpu", "cuda"))
    assert cpu.info is not None and cuda.info is not None
    return cpu.digest() == cuda.digest() and cpu.info.evals_result == cuda.info.evals_result


def run_line(name: str, options: argparse.Namespace) -> list[str]:
    line = lines()[name]
    task = line.task()
    print(f"{name}: {task.shape}", flush=True)
    same = "not checked"
    if options.check_trees:
        same = "yes" if same_values(line, task, options.check_trees) else "NO"
    for asked in ((), line.metrics):
        fit(line, task, "cuda", 2, asked)  # compiled, and memory is warm
    n_trees = min(line.n_trees, options.trees)
    runs = [fit(line, task, "cuda", n_trees, ()) for _ in range(options.repeats)]
    seconds = [model.info.seconds for model, _ in runs if model.info is not None]
    binning = statistics.median(s["bin"] for s in seconds)
    per_tree = 1e3 * statistics.median(s["train"] for s in seconds) / n_trees
    cells = [name, f"{binning:.3f}", f"{per_tree:.2f}"]
    cells.append(f"{statistics.median(whole for _, whole in runs):.3f}")
    for metric in line.metrics:
        judged = [fit(line, task, "cuda", n_trees, (metric,))[1] for _ in range(options.repeats)]
        cells.append(f"{statistics.median(judged):.3f}")
    cells += ["-"] * (2 - len(line.metrics)) + [" / ".join(line.bars), same]
    print("  " + ", ".join(cells), flush=True)
    return cells


def main(words: Sequence[str]) -> int:
    parser = benchmarks.parser("gpu_eval")
    names = list(lines())
    parser.add_argument("--lines", nargs="*", choices=names, default=names)
    parser.add_argument("--trees", type=int, default=200, help="at most; a line may have fewer")
    parser.add_argument("--repeats", type=int, default=3, help="the median counts")
    parser.add_argument("--check-trees", type=int, default=3, help="0: no comparison with the CPU")
    options = parser.parse_args(words)
    print(f"machine: {machine('cuda')}\n", flush=True)
    cells = [run_line(name, options) for name in options.lines]
    header = ["line", "bin s", "ms per tree", "whole s", "with logloss (ndcg)", "with auc"]
    print("\n" + markdown_table([*header, "bars: ms / whole / with / with", "as CPU"], cells))
    return int(any(row[-1] == "NO" for row in cells))
