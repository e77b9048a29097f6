"""Losses on labels that they find hard, with default parameters, beside other libraries.

The loss on 20,000 test rows divided by that of the best constant, the mean over the seeds, and by
how much less bitgrove's is on the same rows, with the standard error of that difference. "bits
None" is full precision, "reg_lambda 0" is without the penalty of the objective's own; a library
that lacks the loss, or is not installed, is left out.

    python -m lab bench losses --rows 1000 10000 --seeds 5 --tables "counts of 0.2" "claims of 0.2"
"""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

import bitgrove as bg
from lab import benchmarks
from lab.benchmarks.losses.tables import TABLES, Table
from lab.reporting import machine, markdown_table

N_TEST = 20_000


def _ours(**params: Any) -> Callable[[str], Any]:
    return lambda objective: bg.BitGroveRegressor(objective=objective, verbosity=-1, **params)


def _lightgbm(objective: str) -> Any:
    import lightgbm

    return lightgbm.LGBMRegressor(objective=objective, verbosity=-1)


def _xgboost(objective: str) -> Any:
    import xgboost

    known = {"poisson": "count:poisson", "tweedie": "reg:tweedie", "huber": "reg:pseudohubererror"}
    return xgboost.XGBRegressor(objective=known[objective])


SYSTEMS: dict[str, Callable[[str], Any]] = {
    "bitgrove": _ours(), "bits None": _ours(gradient_bits=None),
    "reg_lambda 0": _ours(reg_lambda=0.0), "lightgbm": _lightgbm, "xgboost": _xgboost,
}  # fmt: skip
_PEERS = {"lightgbm": ("poisson", "tweedie", "huber", "fair"),
          "xgboost": ("poisson", "tweedie", "huber")}  # fmt: skip


def systems_for(table: Table) -> list[str]:
    return [
        name
        for name in SYSTEMS
        if name not in _PEERS or (table.objective in _PEERS[name] and find_spec(name))
    ]


def compare(table: Table, n_rows: int, n_seeds: int) -> list[str]:
    """A line of the report."""
    losses: dict[str, list[float]] = {name: [] for name in systems_for(table)}
    for seed in range(n_seeds):
        X, y = table.make(np.random.default_rng(seed), n_rows + N_TEST)
        known, wanted = slice(0, n_rows), slice(n_rows, None)
        middle = np.median if table.objective not in ("poisson", "tweedie") else np.mean
        constant = table.loss(y[wanted], np.full(N_TEST, middle(y[known])))
        for name, found in losses.items():
            model = SYSTEMS[name](table.objective).fit(X[known], y[known])
            found.append(table.loss(y[wanted], model.predict(X[wanted])) / constant)
    cells = [f"{statistics.fmean(losses['bitgrove']):.4f}"]
    for name in list(SYSTEMS)[1:]:
        if name not in losses:
            cells.append("-")
            continue
        less = np.subtract(losses[name], losses["bitgrove"])
        error = np.std(less, ddof=1) / math.sqrt(n_seeds) if n_seeds > 1 else math.nan
        cells.append(f"{statistics.fmean(losses[name]):.4g} ({np.mean(less):+.2g} ± {error:.2g})")
    return [f"{table.name}, {n_rows:,} rows", *cells]


def main(words: Sequence[str]) -> None:
    parser = benchmarks.parser("losses")
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 10_000, 60_000])
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args(words)
    lines = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in options.tables:
            for n_rows in options.rows:
                lines.append(compare(TABLES[name], n_rows, options.seeds))
                print("  " + ", ".join(lines[-1]), flush=True)
    header = ["table", *SYSTEMS]
    print(f"\nmachine: {machine()}\n\n" + markdown_table(header, lines))
