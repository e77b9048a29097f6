"""Predictions of host rows on the CPU and on the GPU: from how many rows on does the GPU pay?

python -m lab bench calls predict --rows 1000 10000 100000 1000000 --trees 200
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import bitgrove as bg
from lab.benchmarks.calls import parser
from lab.reporting import machine, markdown_table


def seconds_of(model: bg.Model, rows: Any, repeats: int, **how: Any) -> tuple[list[float], Any]:
    """(seconds of the first call and of the fastest after it, what it returns)."""
    times, found = [], None
    for _ in range(repeats + 1):
        started = time.perf_counter()
        found = model.predict(rows, **how)
        times.append(time.perf_counter() - started)
    return [times[0], min(times[1:])], found


def main(words: Sequence[str]) -> int:
    options = parser("predict")
    options.add_argument("--rows", type=int, nargs="*", default=[1000, 10_000, 100_000, 500_000])
    options.add_argument("--features", type=int, default=28)
    options.add_argument("--trees", type=int, nargs="*", default=[20, 200])
    options.add_argument("--leaves", type=int, default=255)
    options.add_argument("--devices", nargs="*", default=["cpu", "cuda"])
    options.add_argument("--repeats", type=int, default=5)
    given = options.parse_args(words)
    print(f"machine: {machine(given.devices[-1])}\n", flush=True)
    rng, lines, same = np.random.default_rng(3), [], True
    X = rng.standard_normal((100_000, given.features), dtype=np.float32)
    y = (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(float)
    rows = rng.standard_normal((max(given.rows), given.features), dtype=np.float32)
    params = {"objective": "binary", "num_leaves": given.leaves, "n_estimators": max(given.trees)}
    model = bg.train(params, bg.Dataset(X, y))
    for n_rows in given.rows:
        part = rows[:n_rows]
        for n_trees in given.trees:
            for kind, how in (("predict", {}), ("leaves", {"pred_leaf": True})):
                cells, found = [], []
                for device in given.devices:
                    asked = {"num_iteration": n_trees, "device": device, **how}
                    times, answer = seconds_of(model, part, given.repeats, **asked)
                    cells += [f"{1e3 * seconds:.2f}" for seconds in times]
                    found.append(answer)
                same &= all(np.array_equal(found[0], other) for other in found)
                lines.append([f"{n_rows}", f"{n_trees}", kind, *cells])
                print("  " + ", ".join(lines[-1]), flush=True)
    names = [f"{device}, {when} ms" for device in given.devices for when in ("first", "best")]
    print("\n" + markdown_table(["rows", "trees", "call", *names], lines))
    print(f"all equal: {'yes' if same else 'NO'}")
    return int(not same)
