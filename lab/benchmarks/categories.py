"""How good and how fast are trainings on categories, each library with its defaults?

Every library gets text and categories natively, the same rows, and its own
defaults (what fit() does without arguments: CatBoost grows 1,000 trees, the
others 100); --trees gives all the same number. A seed is another split into
training and test rows, and the libraries take turns on it. The table says the
mean test metric (AUC, or RMSE) with its standard error over the seeds; by how
much bitgrove is better on the same splits, with the standard error of that
difference; and the median of the fit's time over bitgrove's on the same split.
With one thread time is the processor's, which other work does not lengthen.

A file given by --csv holds a line for each fit; what it holds is not measured
again, so that a long run may be stopped.

    python -m lab bench categories --data DIR --threads 1 --csv categories.csv
    python -m lab bench categories --tables ids --seeds 2 --max-rows 20000 --trees 100
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score, root_mean_squared_error

import bitgrove
from lab import benchmarks
from lab.datasets.entry import data_folder
from lab.reporting import machine, markdown_table

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


class Settings(NamedTuple):
    n_threads: int
    n_trees: int | None = None  # None: as many as the library grows by itself

    @property
    def words(self) -> dict[str, Any]:
        return {} if self.n_trees is None else {"n_estimators": self.n_trees}


Fit = Callable[[Table, Settings], Predict]


class Run(NamedTuple):
    """A line of the results."""

    table: str
    rows: int
    seed: int
    trees: str
    library: str
    metric: float
    seconds: float | None

    @property
    def key(self) -> tuple[Any, ...]:
        return self[:5]


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


def _bitgrove(train: Table, settings: Settings) -> Predict:
    kind = bitgrove.BitGroveClassifier if train.is_binary else bitgrove.BitGroveRegressor
    return _second_class(kind(n_jobs=settings.n_threads, **settings.words).fit(train.X, train.y))


def _lightgbm(train: Table, settings: Settings) -> Predict:
    import lightgbm

    kind = lightgbm.LGBMClassifier if train.is_binary else lightgbm.LGBMRegressor
    how = {"n_jobs": settings.n_threads, "verbosity": -1, **settings.words}
    fitted = kind(**how).fit(_as_categories(train.X), train.y)
    return lambda X: _second_class(fitted)(_like(X, train.X))


def _xgboost(train: Table, settings: Settings) -> Predict:
    import xgboost

    kind = xgboost.XGBClassifier if train.is_binary else xgboost.XGBRegressor
    how = {"n_jobs": settings.n_threads, "enable_categorical": True, **settings.words}
    fitted = kind(**how).fit(_as_categories(train.X), train.y)
    return lambda X: _second_class(fitted)(_like(X, train.X))


def _catboost(train: Table, settings: Settings) -> Predict:
    import catboost

    kind = catboost.CatBoostClassifier if train.is_binary else catboost.CatBoostRegressor
    how = {"cat_features": train.categories, "allow_writing_files": False, "verbose": 0}
    fitted = kind(thread_count=settings.n_threads, **how, **settings.words).fit(
        _as_text(train.X), train.y
    )
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
    systems = [name for name in options.systems if find_spec(name)]
    print(f"machine: {machine()}\nthreads: {options.threads}; seeds: {options.seeds}\n")
    known = {run.key: run for run in read_runs(options.csv)}
    for name in options.tables:
        table, runs = TABLES[name](folder), []
        for run in _table_runs(name, table, systems, options, known):
            runs.append(run)
            if options.csv and run.key not in known:
                append_run(options.csv, run)
        print(report(name, table, runs), flush=True)
    return 0


def _table_runs(
    name: str,
    table: Table,
    systems: Sequence[str],
    options: argparse.Namespace,
    known: dict[tuple[Any, ...], Run],
) -> Iterator[Run]:
    """Each library on each split, in turns; what is known is taken over."""
    trees = "default" if options.trees is None else str(options.trees)
    settings = Settings(options.threads, options.trees)
    for seed in range(options.seeds):
        train, test = split(table, seed, options.max_rows)
        n_rows = len(train.y) + len(test.y)
        for system in systems:
            key = (name, n_rows, seed, trees, system)
            if key in known:
                yield known[key]
            else:
                yield Run(*key, *measured(SYSTEMS[system], train, test, settings))


def read_runs(path: Path | None) -> list[Run]:
    if path is None or not path.exists():
        return []
    with path.open(newline="") as file:
        return [
            Run(r["table"], int(r["rows"]), int(r["seed"]), r["trees"], r["library"],
                float(r["metric"]), float(r["seconds"]) if r["seconds"] else None)
            for r in csv.DictReader(file)
        ]  # fmt: skip


def append_run(path: Path, run: Run) -> None:
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([Run._fields, run] if is_new else [run])


def parse(words: Sequence[str]) -> argparse.Namespace:
    parser = benchmarks.parser("categories")
    parser.add_argument("--data", metavar="DIR", help="of Parquet files (or BITGROVE_DATA)")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--max-rows", type=int, help="of training and test together")
    parser.add_argument("--trees", type=int, help="of every library, instead of its default")
    parser.add_argument("--csv", type=Path, help="all results; what it holds is taken over")
    return parser.parse_args(words)


def split(table: Table, seed: int, max_rows: int | None) -> tuple[Table, Table]:
    rows = np.random.default_rng(seed).permutation(len(table.y))[:max_rows]
    n_test = int(len(rows) * _TEST_SHARE)
    return table.part(rows[n_test:]), table.part(rows[:n_test])


def measured(fit: Fit, train: Table, test: Table, settings: Settings) -> tuple[float, float]:
    """(test metric, seconds of the fit)."""
    clock = time.process_time if settings.n_threads == 1 else time.perf_counter
    start = clock()
    predict = fit(train, settings)
    seconds = clock() - start
    return test.score(predict(test.X)), seconds


def report(name: str, table: Table, runs: Sequence[Run]) -> str:
    """A Markdown table: a line for each library, compared with the first."""
    by_library: dict[str, dict[int, Run]] = {}
    for run in runs:
        by_library.setdefault(run.library, {})[run.seed] = run
    first = next(iter(by_library.values()))
    sign = 1.0 if table.is_binary else -1.0
    lines = []
    for library, of_seed in by_library.items():
        scores = [run.metric for run in of_seed.values()]
        ahead = [sign * (first[seed].metric - run.metric) for seed, run in of_seed.items()]
        times = [(run.seconds, first[seed].seconds) for seed, run in of_seed.items()]
        timed = [(own, ours) for own, ours in times if own is not None and ours is not None]
        seconds = f"{np.median([own for own, _ in timed]):.2f}" if timed else ""
        ratio = f"{np.median([own / ours for own, ours in timed]):.1f}" if timed else ""
        lines.append([library, _with_error(scores), _with_error(ahead), seconds, ratio])
    metric = "AUC" if table.is_binary else "RMSE"
    lead = f"{next(iter(by_library))} is better by"
    n_levels = {c: int(table.X[c].nunique()) for c in table.categories}
    title = f"## {name}: {len(table.X)} rows, {table.X.shape[1]} columns, levels {n_levels}"
    header = ["library", metric, lead, "fit, s", "times the first's"]
    return f"{title}\n\n{markdown_table(header, lines)}\n"


def _with_error(values: Sequence[float]) -> str:
    """Mean and standard error."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return f"{np.mean(values):.5f} ± {error:.5f}"
