"""Does the cost of a tree grow in proportion to rows and features, or to the values of sparse rows?

    python -m lab bench linearity

Sizes are interleaved, the best of --repeats counts. "per cell" is nanoseconds per row and feature
of a tree, "per value" those per stored value of a sparse table of as many columns throughout; in
proportion means that it stays the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import bitgrove as bg
from lab import benchmarks
from lab.benchmarks.measures import best_ms_per_tree
from lab.benchmarks.sparse import click_log
from lab.internals import make_higgs_like
from lab.reporting import machine, markdown_table

FEATURES = 28
SPARSE_COLUMNS = 20_000


def dataset(n_rows: int, n_features: int) -> bg.Dataset:
    """Higgs-like rows; beyond 28 features, further columns of other seeds beside them."""
    X, y = make_higgs_like(n_rows, 0)
    more = [make_higgs_like(n_rows, seed)[0] for seed in range(1, n_features // FEATURES)]
    return bg.Dataset(np.hstack([X, *more]), y)


def main(words: Sequence[str]) -> None:
    parser = benchmarks.parser("linearity")
    parser.add_argument("--rows", type=int, nargs="+", default=[250_000, 1_000_000, 4_000_000])
    parser.add_argument("--features", type=int, nargs="+", default=[28, 56, 112, 224])
    parser.add_argument("--per-row", type=int, nargs="+", default=[10, 20, 40, 80],
                        help="values of sparse rows")  # fmt: skip
    parser.add_argument("--trees", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--threads", type=int, default=None)
    options = parser.parse_args(words)
    params = {"objective": "binary", "n_estimators": options.trees, "num_leaves": 255,
              "min_child_weight": 100.0, "gradient_bits": 3, "n_jobs": options.threads}  # fmt: skip
    by_rows = [(rows, FEATURES) for rows in options.rows]
    by_features = [(options.rows[0], n) for n in options.features]
    trainings = {size: (params, dataset(*size)) for size in dict.fromkeys(by_rows + by_features)}
    best = best_ms_per_tree(trainings, options.repeats)
    lines = [
        [f"{rows:,}", str(n), f"{ms:.1f}", f"{ms / rows / n * 1e6:.2f}"]
        for (rows, n), ms in best.items()
    ]
    header = ["rows", "features", "ms per tree", "per cell"]
    print(machine(), markdown_table(header, lines), sep="\n\n")
    sparse = {
        n: (params, bg.Dataset(*click_log(options.rows[0], SPARSE_COLUMNS, n)))
        for n in options.per_row
    }
    lines = [
        [f"{options.rows[0]:,}", str(n), f"{ms:.1f}", f"{ms / options.rows[0] / n * 1e6:.2f}"]
        for n, ms in best_ms_per_tree(sparse, options.repeats).items()
    ]
    header = ["rows", "values per row", "ms per tree", "per value"]
    print("", markdown_table(header, lines), sep="\n")
