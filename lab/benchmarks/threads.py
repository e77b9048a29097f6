"""How does training scale with threads? Milliseconds per tree and speed-up over one thread.

    python -m lab bench threads --rows 1000000 4000000 --threads 1 2 4 8 16

Runs of different thread counts are interleaved; the best of --repeats counts.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import bitgrove as bg
from lab import benchmarks
from lab.internals import make_higgs_like
from lab.reporting import machine, markdown_table


def measure(rows: int, threads: list[int], options: argparse.Namespace) -> dict[int, float]:
    """Best milliseconds per tree for each number of threads."""
    X, y = make_higgs_like(rows, 0)
    dataset = bg.Dataset(X, y)
    best = dict.fromkeys(threads, float("inf"))
    for _ in range(options.repeats):
        for n in threads:
            params = {
                "objective": "binary",
                "n_estimators": options.trees,
                "num_leaves": options.leaves,
                "gradient_bits": options.bits,
                "min_child_weight": 100.0,
                "n_jobs": n,
            }
            model = bg.train(params, dataset)
            assert model.info is not None
            best[n] = min(best[n], model.info.seconds["train"] / options.trees * 1e3)
    return best


def main(words: Sequence[str]) -> None:
    parser = benchmarks.parser("threads")
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--trees", type=int, default=10)
    parser.add_argument("--leaves", type=int, default=255)
    parser.add_argument("--bits", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(words)
    print(machine())
    for rows in options.rows:
        best = measure(rows, options.threads, options)
        first = best[options.threads[0]]
        lines = [[str(n), f"{ms:.1f}", f"{first / ms:.2f}"] for n, ms in best.items()]
        title = f"\n{rows:,} x 28, {options.leaves} leaves, {options.bits} bits"
        print(
            title,
            markdown_table(["threads", "ms per tree", "speed-up"], lines),
            sep="\n\n",
            flush=True,
        )
