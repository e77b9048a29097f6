"""Where the host's time goes while trees grow on a GPU: medians of laps, microseconds per tree.

python -m lab bench calls laps
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np

import bitgrove as bg
from lab.benchmarks.calls import parser
from lab.internals import host_laps, make_higgs_like
from lab.reporting import machine, markdown_table


def main(words: Sequence[str]) -> int:
    options = parser("laps")
    options.add_argument("--rows", type=int, default=100_000)
    options.add_argument("--leaves", type=int, default=31)
    options.add_argument("--trees", type=int, default=300)
    given = options.parse_args(words)
    params = {"objective": "binary", "num_leaves": given.leaves, "gradient_bits": 3,
              "gradient_scale": "max", "device": "cuda"}  # fmt: skip
    X, y = make_higgs_like(given.rows, 0)
    data = bg.Dataset(X, y.astype(np.float64))
    bg.train(params, data, 10)  # bins, and compiles
    plain = bg.train(params, data, given.trees)
    with host_laps() as laps:
        watched = bg.train(params, data, given.trees)
    cells = [
        [label, f"{1e6 * statistics.median(seconds):.1f}"]
        for label, seconds in sorted(laps.items(), key=lambda lap: -statistics.median(lap[1]))
    ]
    for name, model in (("tree, with clocks", watched), ("tree, without", plain)):
        assert model.info is not None, "train() measures"
        cells.append([name, f"{1e6 * model.info.seconds['train'] / given.trees:.1f}"])
    print(f"machine: {machine('cuda')}\n\n" + markdown_table(["lap", "us per tree"], cells))
    return 0
