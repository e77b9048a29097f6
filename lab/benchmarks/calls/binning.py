"""From a table of the host to bins: sending it, finding edges, binning, and a whole training.

One line per shape, layout and type, on the CPU and on the GPU; the exit status is 1 if their edges
or models differ. Seconds are the least of the repeats: the first one also pays for compiling.

    python -m lab bench calls binning --shapes 400000x2000 10500000x28 --devices cpu cuda --trees 60
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bitgrove as bg
from lab.benchmarks.calls import parser
from lab.internals import timed_binning
from lab.reporting import machine, markdown_table

SHAPES = ("100000x28", "1000000x28", "10500000x28", "400000x2000")
STEPS = ("send", "edges", "bin")  # of timed_binning


def make_table(shape: str, order: Any, dtype: Any) -> NDArray[Any]:
    """Normal values, made in blocks of rows."""
    n_rows, n_features = map(int, shape.split("x"))
    table = np.empty((n_rows, n_features), dtype=dtype, order=order)
    rng, step = np.random.default_rng(1), max(1, (1 << 22) // n_features)
    for first in range(0, n_rows, step):
        part = table[first : first + step]
        part[:] = rng.standard_normal(part.shape, dtype=np.float32)
    return table


def time_training(X: NDArray[Any], y: NDArray[Any], device: str, n_trees: int) -> Any:
    """(seconds of a call from the table to the model, the model)."""
    params = {"objective": "binary", "num_leaves": 255, "gradient_bits": 3, "device": device}
    started = time.perf_counter()
    model = bg.train({**params, "n_estimators": n_trees}, bg.Dataset(X, y))
    return time.perf_counter() - started, model


def run_table(shape: str, order: str, dtype: str, options: argparse.Namespace) -> list[list[str]]:
    X = make_table(shape, order, np.dtype(dtype))
    y = (X[:, 0] + X[:, -1] > 0).astype(float)
    lines, edges, digests = [], set(), set()
    for device in options.devices:
        repeats = [timed_binning(X, device) for _ in range(options.repeats)]
        steps = [min(times) for times in zip(*(seconds for seconds, _ in repeats), strict=True)]
        edges |= {found for _, found in repeats}
        cells = [f"{seconds:.3f}" for seconds in steps]
        for n_trees in (1, options.trees):
            if n_trees:
                runs = [time_training(X, y, device, n_trees) for _ in range(options.repeats)]
                cells.append(f"{min(seconds for seconds, _ in runs):.3f}")
                digests |= {(n_trees, model.digest()) for _, model in runs}
        lines.append([shape, order, dtype, device, *cells])
        print("  " + ", ".join(lines[-1]), flush=True)
    same = len(edges) == 1 and len(digests) == len({n for n, _ in digests})
    for line in lines:
        line.append("yes" if same else "NO")
    return lines


def main(words: Sequence[str]) -> int:
    words_of = parser("binning")
    words_of.add_argument("--shapes", nargs="*", default=SHAPES, metavar="ROWSxFEATURES")
    words_of.add_argument("--orders", nargs="*", choices=("C", "F"), default=["C", "F"])
    words_of.add_argument("--types", nargs="*", default=["float32", "float64"])
    words_of.add_argument("--devices", nargs="*", default=["cpu", "cuda"])
    words_of.add_argument("--repeats", type=int, default=3, help="the fastest counts")
    words_of.add_argument("--trees", type=int, default=0, help="of a whole training; 0: one alone")
    options = words_of.parse_args(words)
    print(f"machine: {machine(options.devices[-1])}\n", flush=True)
    lines = [
        line
        for shape in options.shapes
        for order in options.orders
        for dtype in options.types
        for line in run_table(shape, order, dtype, options)
    ]
    fits = ["fit, 1 tree"] + [f"fit, {options.trees} trees"] * (options.trees > 0)
    header = ["table", "order", "type", "device", *STEPS, *fits, "same"]
    print("\n" + markdown_table(header, lines))
    return int(any(line[-1] == "NO" for line in lines))
