"""Training on the GPU: the same bits as the CPU, then milliseconds per tree.

One call checks model digests of CPU and GPU (small cases of every objective, and a few trees of
every line), times each line with 3 bits and in full precision, splits the time of a tree by verb,
and prints a short table last. The exit status is 1 if a digest differs.

    python benchmarks/cuda.py --lines higgs_1m higgs_100k --trees 50
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import bitgrove as bg
from bitgrove.backends.cuda.backend import CudaBackend
from bitgrove.cli.demo_data import make_higgs_like
from bitgrove.paper.task import Array, Task, score
from reporting import machine, markdown_table
from same_bits import cases

BITS: tuple[int | None, ...] = (3, None)
VERBS = (
    "gradients", "quantize", "row_sums", "select_rows", "run_rounds",
    "leaf_sums", "add_leaf_values",
)  # fmt: skip


def import_cupy() -> Any:
    """CuPy, imported without this folder: this file would hide NVIDIA's package `cuda` from it."""
    path, here = sys.path[:], Path(__file__).resolve().parent
    sys.path[:] = [folder for folder in path if Path(folder).resolve() != here]
    try:
        import cupy
    finally:
        sys.path[:] = path
    return cupy


@dataclass(frozen=True)
class Line:
    """A row of the table; `bars` are the milliseconds wanted for each of BITS."""

    task: Callable[[], Task]
    bars: tuple[str, str]
    params: dict[str, Any] = field(default_factory=dict)


@cache
def higgs_table(n_rows: int) -> tuple[Array, Array]:
    return make_higgs_like(n_rows, 0)


def higgs(n_rows: int) -> Task:
    X, y = higgs_table(n_rows)
    return Task("higgs", "binary", X, y, *make_higgs_like(200_000, 1))


def wide(n_rows: int = 400_000, n_features: int = 2000) -> Task:
    """Independent normal columns, of which 40 carry the label."""
    rng = np.random.Generator(np.random.SFC64(0))
    X = rng.standard_normal((n_features, n_rows + 20_000), dtype=np.float32).T
    logit = X[:, :40] @ np.linspace(-0.5, 0.5, 40, dtype=np.float32) + X[:, 0] * X[:, 1]
    y = (logit + rng.standard_normal(len(X), dtype=np.float32) > 0).astype(np.float32)
    return Task("wide", "binary", X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:])


def ranking(n_queries: int = 20_000, n_features: int = 136) -> Task:
    """Queries of 50 to 150 rows with grades 0 to 4; the last 500 queries are the test rows."""
    rng = np.random.Generator(np.random.SFC64(1))
    group = rng.integers(50, 151, n_queries + 500)
    X = rng.standard_normal((int(group.sum()), n_features), dtype=np.float32)
    relevance = X[:, 0] + np.tanh(2 * X[:, 1]) + X[:, 2] * X[:, 3]
    relevance += rng.standard_normal(len(X), dtype=np.float32)
    y = np.searchsorted([0.5, 1.5, 2.5, 3.5], relevance).astype(np.float32)
    n = int(group[:n_queries].sum())
    parts = (X[:n], y[:n], X[n:], y[n:], group[:n_queries], group[n_queries:])
    return Task("ranking", "lambdarank", *parts)


def lines() -> dict[str, Line]:
    large = {"objective": "binary", "num_leaves": 255}
    few_samples = {"bin_sample_rows": 20_000}
    rank = {"objective": "lambdarank", "num_leaves": 255, "bin_sample_rows": 50_000}
    return {
        "higgs_100k": Line(lambda: higgs(100_000), ("1.0", "1.2"), {**large, "num_leaves": 31}),
        "higgs_1m": Line(lambda: higgs(1_000_000), ("2.5", "5"), large),
        "higgs_10m": Line(lambda: higgs(10_500_000), ("5", "15"), large),
        "wide": Line(wide, ("15", "45"), {**large, **few_samples}),
        "ranking": Line(ranking, ("8", "-"), rank),
    }


def train(line: Line, data: bg.Dataset, bits: int | None, n_trees: int, device: str) -> Any:
    """(model, milliseconds per tree without the first ones)."""
    times: list[float] = []
    params = {**line.params, "gradient_bits": bits, "n_estimators": n_trees, "device": device}
    callback = [lambda _: times.append(time.perf_counter())]
    model = bg.train(params, data, callbacks=callback)
    skip = min(3, len(times) - 2)
    return model, 1e3 * (times[-1] - times[skip]) / max(1, len(times) - 1 - skip)


@contextmanager
def timed_verbs() -> Iterator[dict[str, list[float]]]:
    """Seconds of each call of each verb, the GPU waited for: their sum is above a tree's time."""
    cupy = import_cupy()
    seconds: dict[str, list[float]] = defaultdict(list)
    before = {verb: getattr(CudaBackend, verb) for verb in VERBS}

    def timed(verb: str) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            result = before[verb](*args, **kwargs)
            cupy.cuda.get_current_stream().synchronize()
            seconds[verb].append(time.perf_counter() - started)
            return result

        return run

    for verb in VERBS:
        setattr(CudaBackend, verb, timed(verb))
    try:
        yield seconds
    finally:
        for verb, function in before.items():
            setattr(CudaBackend, verb, function)


def verb_table(line: Line, data: bg.Dataset, bits: int | None) -> str:
    n_trees = 10
    train(line, data, bits, 3, "cuda")
    with timed_verbs() as seconds:
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
    """Names of the cases of same_bits.py whose GPU model differs from the CPU's."""
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
    data = bg.Dataset(task.X_train, task.y_train, group=task.group_train)
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
        metric = f"{task.metric} {score(task, model.predict(task.X_test)):.4f}"
        cells.append([name, label, f"{per_tree:.2f}", bar, metric, same])
        print("  " + ", ".join(cells[-1]), flush=True)
        if options.verbs:
            print(verb_table(line, data, bits) + "\n", flush=True)
    return cells


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    names = list(lines())
    parser.add_argument("--lines", nargs="*", choices=names, default=names)
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=3, help="the fastest run counts")
    parser.add_argument("--check", nargs="*", choices=names, default=names)
    parser.add_argument("--check-trees", type=int, default=3)
    parser.add_argument("--no-small-cases", action="store_true")
    parser.add_argument("--no-verbs", dest="verbs", action="store_false")
    options = parser.parse_args()
    cupy = import_cupy()
    gpu = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(f"machine: {machine()}; {gpu}, CuPy {cupy.__version__}\n", flush=True)
    different = [] if options.no_small_cases else check_small_cases()
    cells = [row for name in options.lines for row in run_line(name, options)]
    header = ["line", "gradients", "ms per tree", "bar", "test metric", "same as CPU"]
    print("\n" + markdown_table(header, cells))
    return int(bool(different) or any(row[-1] == "NO" for row in cells))


if __name__ == "__main__":
    raise SystemExit(main())
