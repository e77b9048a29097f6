"""How does training scale with threads? Milliseconds per tree and speed-up over one thread.

    python -m lab bench threads --rows 1000000 4000000 --threads 1 2 4 8 16

Runs of different thread counts are interleaved; the best of --repeats counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import bitgrove as bg
from lab import benchmarks
from lab.benchmarks.measures import best_ms_per_tree
from lab.internals import make_higgs_like
from lab.reporting import machine, markdown_table


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
    params = {"objective": "binary", "n_estimators": options.trees, "num_leaves": options.leaves,
              "gradient_bits": options.bits, "min_child_weight": 100.0}  # fmt: skip
    for rows in options.rows:
        data = bg.Dataset(*make_higgs_like(rows, 0))
        trainings = {n: ({**params, "n_jobs": n}, data) for n in options.threads}
        best = best_ms_per_tree(trainings, options.repeats)
        first = best[options.threads[0]]
        lines = [[str(n), f"{ms:.1f}", f"{first / ms:.2f}"] for n, ms in best.items()]
        print(f"\n{rows:,} x 28, {options.leaves} leaves, {options.bits} bits\n")
        print(markdown_table(["threads", "ms per tree", "speed-up"], lines), flush=True)
