"""How good and how fast are trainings on categories, each library with its defaults?

Every library gets text and categories natively, the same rows, and its own
defaults. A seed is another split into training and test rows. The table says
the mean test metric (AUC, or RMSE) with its standard error over the seeds, and
the median of the fit's time over bitgrove's on the same rows.

    python -m lab bench categories --data DIR
    python -m lab bench categories --tables ids --seeds 2 --max-rows 20000
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score, root_mean_squared_error

import bitgrove
from lab import benchmarks
from lab.datasets.entry import data_folder
from lab.reporting import machine, markdown_table, write_json

Array = NDArray[Any]
_TEST_SHARE = 0.2
# What is known only after the flight has left would give its delay away.
_AFTER_DEPARTURE = ["dep_time", "dep_delay", "arr_time", "air_time", "time_hour"]


@dataclass(frozen=True)
class Table:
    X: pd.DataFrame
    y: Array
    is_binary: bool

    @property
    def categories(self) -> list[str]:
        return [name for name in self.X if not pd.api.types.is_numeric_dtype(self.X[name])]

    def part(self, rows: Array) -> Table:
        return Table(self.X.iloc[rows].reset_index(drop=True), self.y[rows], self.is_binary)

    def score(self, prediction: Array) -> float:
        judge = roc_auc_score if self.is_binary else root_mean_squared_error
        return float(judge(self.y, prediction))


Predict = Callable[[pd.DataFrame], Array]
Fit = Callable[[Table, int], Predict]  # with this many threads


def _census(folder: Path, file: str) -> Table:
    frame = pd.read_parquet(folder / file).drop(columns="part")
    return Table(frame, frame.pop("income").astype("category").cat.codes.to_numpy(), True)


def _flights(folder: Path) -> Table:
    frame = pd.read_parquet(folder / "nycflights13.parquet").drop(columns=_AFTER_DEPARTURE)
    frame = frame[frame["arr_delay"].notna()].reset_index(drop=True)
    return Table(frame, frame.pop("arr_delay").to_numpy(np.float64), False)


def _ids(n_rows: int = 200_000) -> Table:
    """Up to 100,000 users of very different frequency, 5,000 items, and five numbers."""
    rng = np.random.default_rng(0)
    user, item = rng.zipf(1.2, n_rows) % 100_000, rng.integers(0, 5_000, n_rows)
    x = rng.normal(size=(n_rows, 5))
    score = rng.normal(size=100_000)[user] + 0.7 * rng.normal(size=5_000)[item]
    score += x[:, 0] * x[:, 1] + 0.5 * x[:, 2]
    y = (rng.random(n_rows) < 1.0 / (1.0 + np.exp(-score))).astype(np.int64)
    frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(5)])
    frame["user"] = pd.Categorical(user.astype(str))
    frame["item"] = pd.Categorical(item.astype(str))
    return Table(frame, y, True)


TABLES: dict[str, Callable[[Path | None], Table]] = {
    "adult": lambda folder: _census(_needed(folder), "adult.parquet"),
    "census_kdd": lambda folder: _census(_needed(folder), "census_kdd.parquet"),
    "nycflights13": lambda folder: _flights(_needed(folder)),
    "ids": lambda folder: _ids(),
}


def _needed(folder: Path | None) -> Path:
    if folder is None:
        raise SystemExit("this table is a file: give its folder with --data or BITGROVE_DATA")
    return folder


def _bitgrove(train: Table, n_threads: int) -> Predict:
    kind = bitgrove.BitGroveClassifier if train.is_binary else bitgrove.BitGroveRegressor
    return _second_class(kind(n_jobs=n_threads).fit(train.X, train.y))


def _lightgbm(train: Table, n_threads: int) -> Predict:
    import lightgbm

    kind = lightgbm.LGBMClassifier if train.is_binary else lightgbm.LGBMRegressor
    fitted = kind(n_jobs=n_threads, verbosity=-1).fit(_as_categories(train.X), train.y)
    return lambda X: _second_class(fitted)(_like(X, train.X))


def _xgboost(train: Table, n_threads: int) -> Predict:
    import xgboost

    kind = xgboost.XGBClassifier if train.is_binary else xgboost.XGBRegressor
    fitted = kind(n_jobs=n_threads, enable_categorical=True).fit(_as_categories(train.X), train.y)
    return lambda X: _second_class(fitted)(_like(X, train.X))


def _catboost(train: Table, n_threads: int) -> Predict:
    import catboost

    kind = catboost.CatBoostClassifier if train.is_binary else catboost.CatBoostRegressor
    how = {"cat_features": train.categories, "allow_writing_files": False, "verbose": 0}
    fitted = kind(thread_count=n_threads, **how).fit(_as_text(train.X), train.y)
    return lambda X: _second_class(fitted)(_as_text(X))


def _second_class(fitted: Any) -> Predict:
    if hasattr(fitted, "predict_proba"):
        return lambda X: np.asarray(fitted.predict_proba(X)[:, 1])
    return lambda X: np.asarray(fitted.predict(X))


def _as_categories(X: pd.DataFrame) -> pd.DataFrame:
    return X.assign(**{c: X[c].astype("category") for c in Table(X, X, True).categories})


def _like(X: pd.DataFrame, train: pd.DataFrame) -> pd.DataFrame:
    """With the categories of the training rows: other libraries code by their order."""
    wanted = _as_categories(train)
    names = Table(train, train, True).categories
    return X.assign(**{c: pd.Categorical(X[c], wanted[c].cat.categories) for c in names})


def _as_text(X: pd.DataFrame) -> pd.DataFrame:
    names = Table(X, X, True).categories
    return X.assign(**{c: X[c].astype(object).where(X[c].notna(), "missing") for c in names})


SYSTEMS: dict[str, Fit] = {
    "bitgrove": _bitgrove, "lightgbm": _lightgbm, "xgboost": _xgboost, "catboost": _catboost,
}  # fmt: skip


def main(words: Sequence[str]) -> int:
    options = parse(words)
    folder = data_folder(options.data)
    systems = {name: SYSTEMS[name] for name in options.systems if find_spec(name)}
    print(f"machine: {machine()}\nthreads: {options.threads}; seeds: {options.seeds}\n")
    results: dict[str, Any] = {}
    for name in options.tables:
        table = TABLES[name](folder)
        runs: dict[str, list[tuple[float, float]]] = {system: [] for system in systems}
        for seed in range(options.seeds):
            train, test = split(table, seed, options.max_rows)
            for system, fit in systems.items():
                runs[system].append(measured(fit, train, test, options.threads))
        print(report(name, table, runs), flush=True)
        results[name] = runs
        if options.json:
            write_json(options.json, {"machine": machine(), "tables": results})
    return 0


def parse(words: Sequence[str]) -> argparse.Namespace:
    parser = benchmarks.parser("categories")
    parser.add_argument("--data", metavar="DIR", help="of Parquet files (or BITGROVE_DATA)")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--max-rows", type=int, help="of training and test together")
    parser.add_argument("--json", type=Path, help="write all results here")
    return parser.parse_args(words)


def split(table: Table, seed: int, max_rows: int | None) -> tuple[Table, Table]:
    rows = np.random.default_rng(seed).permutation(len(table.y))[:max_rows]
    n_test = int(len(rows) * _TEST_SHARE)
    return table.part(rows[n_test:]), table.part(rows[:n_test])


def measured(fit: Fit, train: Table, test: Table, n_threads: int) -> tuple[float, float]:
    """(test metric, seconds of the fit)."""
    start = time.perf_counter()
    predict = fit(train, n_threads)
    seconds = time.perf_counter() - start
    return test.score(predict(test.X)), seconds


def report(name: str, table: Table, runs: dict[str, list[tuple[float, float]]]) -> str:
    """A Markdown table: a line for each library."""
    metric = "AUC" if table.is_binary else "RMSE"
    first = np.array(next(iter(runs.values())))[:, 1]
    lines = []
    for system, values in runs.items():
        scores, seconds = np.array(values).T
        error = scores.std(ddof=1) / np.sqrt(len(scores)) if len(scores) > 1 else float("nan")
        ratio = float(np.median(seconds / first))
        lines.append([system, f"{scores.mean():.5f}", f"{error:.5f}", f"{np.median(seconds):.2f}",
                      f"{ratio:.1f}"])  # fmt: skip
    header = ["library", metric, "standard error", "fit, s", "times the first's"]
    n_levels = {c: int(table.X[c].nunique()) for c in table.categories}
    title = f"## {name}: {len(table.X)} rows, {table.X.shape[1]} columns, levels {n_levels}"
    return f"{title}\n\n{markdown_table(header, lines)}\n"
