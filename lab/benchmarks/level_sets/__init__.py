"""What categories of 65 to 255 levels gain by sets beside their statistics, and what that costs.

    python -m lab bench level_sets

Tables of one or two such categories beside two numbers, drawn anew for each seed; a level is a
slope, half of a pair, a step, or says nothing. RMSE (log loss) and processor time of a fit against
statistics alone: with both, as is the default, and by sets alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import log_loss, root_mean_squared_error
from tqdm import tqdm

import bitgrove as bg
from lab import benchmarks
from lab.internals import statistics_alone
from lab.reporting import machine, markdown_table

F64 = NDArray[np.float64]
N_TEST = 20_000
# What the label is made of: of a number, and of the levels' own numbers.
SIGNALS: dict[str, Callable[[F64, F64, F64], F64]] = {
    "slope": lambda x, one, other: one * x,
    "pair": lambda x, one, other: one * other,
    "step": lambda x, one, other: one + x,
    "small step": lambda x, one, other: 0.2 * one + x,
    "nothing": lambda x, one, other: x,
}


class Kind(NamedTuple):
    signal: str
    n_levels: int
    skewed: bool  # levels are as frequent as 1 / rank, or all alike
    binary: bool


def table(kind: Kind, n_rows: int, seed: int) -> tuple[pd.DataFrame, F64]:
    """n_rows to train on, and N_TEST behind them."""
    rng = np.random.default_rng([kind.n_levels, n_rows, kind.skewed, seed])
    n, share = n_rows + N_TEST, 1.0 / np.arange(1, kind.n_levels + 1) ** float(kind.skewed)
    codes = rng.choice(kind.n_levels, (2, n), p=share / share.sum())
    x, own = rng.normal(size=(2, n)), rng.normal(size=(2, kind.n_levels))
    names = [f"v{i}" for i in range(kind.n_levels)]
    columns: dict[str, Any] = {
        "a": pd.Categorical.from_codes(codes[0], names),
        "x": x[0],
        "y": x[1],
    }
    if kind.signal == "pair":
        columns["b"] = pd.Categorical.from_codes(codes[1], names)
    signal = SIGNALS[kind.signal](x[0], own[0][codes[0]], own[1][codes[1]])
    if kind.binary:
        return pd.DataFrame(columns), (1.5 * signal + rng.logistic(size=n) > 0.0).astype(float)
    return pd.DataFrame(columns), signal + rng.normal(size=n)


def outcome(kind: Kind, n_rows: int, seed: int, max_cat_levels: int) -> tuple[float, float]:
    """The loss of the test rows, and the processor time of the fit."""
    X, y = table(kind, n_rows, seed)
    estimator = bg.BitGroveClassifier if kind.binary else bg.BitGroveRegressor
    model: Any = estimator(n_jobs=1, max_cat_levels=max_cat_levels)
    started = time.process_time()
    model.fit(X[:n_rows], y[:n_rows])
    seconds = time.process_time() - started
    if kind.binary:
        return float(log_loss(y[n_rows:], model.predict_proba(X[n_rows:])[:, 1])), seconds
    return float(root_mean_squared_error(y[n_rows:], model.predict(X[n_rows:]))), seconds


def measured(kind: Kind, n_rows: int, n_seeds: int) -> list[str]:
    found: dict[str, list[tuple[float, float]]] = {"statistics": [], "both": [], "sets": []}
    for seed in range(n_seeds):
        with statistics_alone():
            found["statistics"].append(outcome(kind, n_rows, seed, 64))
        found["both"].append(outcome(kind, n_rows, seed, 64))
        found["sets"].append(outcome(kind, n_rows, seed, 254))
    first = np.array(found["statistics"])
    shape = f"{kind.n_levels}{', 1 / rank' if kind.skewed else ''}"
    cells = [kind.signal, "log loss" if kind.binary else "RMSE", shape, f"{n_rows:,}"]
    for name in ("both", "sets"):
        ratio = np.array(found[name]) / first
        change = 100.0 * (ratio[:, 0] - 1.0)
        error = change.std(ddof=1) / n_seeds**0.5 if n_seeds > 1 else 0.0
        cells += [f"{change.mean():+.2f} ± {error:.2f}", f"{np.median(ratio[:, 1]):.2f}"]
    return cells


def main(words: Sequence[str]) -> None:
    parser = benchmarks.parser("level_sets")
    parser.add_argument("--rows", type=int, nargs="+", default=[5_000, 20_000, 60_000])
    parser.add_argument("--levels", type=int, nargs="+", default=[70, 100, 200, 250])
    parser.add_argument("--seeds", type=int, default=8)
    options = parser.parse_args(words)
    cells = [
        (Kind(signal, n_levels, skewed, binary), n_rows)
        for n_rows in options.rows
        for signal in SIGNALS
        for binary in (False, True)
        for n_levels in options.levels
        for skewed in (False, True)
    ]
    each = tqdm(cells, unit="kind", leave=False)
    lines = [measured(kind, n_rows, options.seeds) for kind, n_rows in each]
    header = ["a level is", "loss", "levels", "rows", "both, %", "time", "sets alone, %", "time"]
    print(machine(), markdown_table(header, lines), sep="\n\n")
