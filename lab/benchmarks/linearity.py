"""Does the cost of a tree grow in proportion to rows and features?

    python -m lab bench linearity

Sizes are interleaved, the best of --repeats counts. "per cell" is nanoseconds per row and feature
of a tree; in proportion means that it stays the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import bitgrove as bg
from lab import benchmarks
from lab.internals import make_higgs_like
from lab.reporting import machine, markdown_table

FEATURES = 28


def dataset(n_rows: int, n_features: int) -> bg.Dataset:
    """Higgs-like rows; beyond 28 features, further columns of other seeds beside them."""
    X, y = make_higgs_like(n_rows, 0)
    more = [make_higgs_like(n_rows, seed)[0] for seed in range(1, n_features // FEATURES)]
    return bg.Dataset(np.hstack([X, *more]), y)


def main(words: Sequence[str]) -> None:
    parser = benchmarks.parser("linearity")
    parser.add_argument("--rows", type=int, nargs="+", default=[250_000, 1_000_000, 4_000_000])
    parser.add_argument("--features", type=int, nargs="+", default=[28, 56, 112, 224])
    parser.add_argument("--trees", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--threads", type=int, default=None)
    options = parser.parse_args(words)
    params = {
        "objective": "binary",
        "n_estimators": options.trees,
        "num_leaves": 255,
        "min_child_weight": 100.0,
        "gradient_bits": 3,
        "n_jobs": options.threads,
    }
    by_rows = [(rows, FEATURES) for rows in options.rows]
    by_features = [(options.rows[0], n) for n in options.features]
    sizes = list(dict.fromkeys(by_rows + by_features))
    datasets = {size: dataset(*size) for size in sizes}
    best = dict.fromkeys(sizes, float("inf"))
    for _ in range(options.repeats):
        for size in sizes:
            info = bg.train(params, datasets[size]).info
            assert info is not None
            best[size] = min(best[size], info.seconds["train"] / options.trees * 1e3)
    lines = [
        [f"{rows:,}", str(n), f"{ms:.1f}", f"{ms / rows / n * 1e6:.2f}"]
        for (rows, n), ms in best.items()
    ]
    print(
        machine(),
        markdown_table(["rows", "features", "ms per tree", "per cell"], lines),
        sep="\n\n",
    )
