"""The tables that the benchmarks train on.

This room owns how each dataset is read, cleaned and split. It receives a name,
a folder of parquet files (or none: then generated tables stand in) and a row
limit, and returns a Task: float32 train and test features, float32 labels and,
for ranking, query sizes. Categorical columns are left out: these benchmarks
compare the numeric path. Every choice of rows is a hash of the row or query
number, so that it is the same everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bitgrove.paper.task import Array, Task

_TEST_SHARE = 0.2
_SPLIT_SEED = 20220
_SUBSAMPLE_SEED = 7


@dataclass(frozen=True)
class Source:
    """How one parquet file becomes a Task."""

    objective: str
    target: str
    positive: str | None = None  # the label's level that counts as 1
    query: str | None = None
    split: str | None = None  # a column that already says train or test
    in_train: tuple[object, ...] = ("train",)
    in_test: tuple[object, ...] = ("test",)


SOURCES: dict[str, Source] = {
    "covtype": Source("multiclass", "Cover_Type"),
    "census_kdd": Source("binary", "income", positive="50000+.", split="part"),
    "adult": Source("binary", "income", positive=">50K", split="part"),
    "kddcup04_bio": Source("binary", "label", query="qid"),
    "higgs_11k": Source("binary", "label"),
    "household_power": Source("regression", "Sub_metering_3"),
    "mq2008": Source(
        "lambdarank", "label", query="qid", split="fold", in_train=(1, 2, 3), in_test=(5,)
    ),
    "mslr_5k": Source("lambdarank", "label", query="qid", split="part"),
}

GENERATED: tuple[str, ...] = ("higgs_like", "regression_like", "multiclass_like", "ranking_like")


def data_dir_from(option: Path | None) -> Path | None:
    """The folder of parquet files: the option, else BITGROVE_DATA, else none."""
    if option is None and "BITGROVE_DATA" in os.environ:
        option = Path(os.environ["BITGROVE_DATA"])
    if option is not None and not option.is_dir():
        raise SystemExit(f"the data folder {option} does not exist")
    return option


def available(data_dir: Path | None) -> list[str]:
    """Names of the tasks that load() can make."""
    if data_dir is None:
        return list(GENERATED)
    return [name for name in SOURCES if (data_dir / f"{name}.parquet").exists()]


def load(name: str, data_dir: Path | None, max_rows: int | None = None) -> Task:
    """The task of that name, with at most about max_rows rows in train and test together."""
    if name in GENERATED:
        return _generate(name, max_rows or 100_000)
    if data_dir is None:
        raise SystemExit(f"{name} needs --data-dir or BITGROVE_DATA")
    return _from_parquet(name, SOURCES[name], data_dir / f"{name}.parquet", max_rows)


def higgs_like(n_rows: int, n_test: int = 100_000) -> Task:
    """The synthetic HIGGS-shaped problem: 28 features, binary."""
    from bitgrove.cli.demo_data import make_higgs_like

    return _two_seeds("higgs_like", "binary", make_higgs_like, n_rows, n_test)


def wide_binary(n_rows: int, n_features: int, n_test: int = 10_000) -> Task:
    """The synthetic regression problem cut at its median: any number of features, binary."""
    from bitgrove.cli.demo_data import make_regression_like

    X, y = make_regression_like(n_rows + n_test, n_features, 0)
    label = (y > np.median(y[:n_rows])).astype(np.float32)
    name = f"binary_{n_features}"
    return Task(name, "binary", X[:n_rows], label[:n_rows], X[n_rows:], label[n_rows:])


def hash_uniform(index: Array, seed: int) -> Array:
    """A number in [0, 1) per index: splitmix64's finaliser, so no generator state is involved."""
    mixed = index.astype(np.uint64) + np.uint64((seed * 0x9E3779B97F4A7C15) % 2**64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed = (mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11)
    return np.asarray(mixed / 2.0**53)


def _from_parquet(name: str, source: Source, path: Path, max_rows: int | None) -> Task:
    import pandas as pd

    frame = pd.read_parquet(path)
    n_stored = len(frame)
    unit = frame[source.query].to_numpy() if source.query else np.arange(n_stored)
    if max_rows is not None and n_stored > max_rows:
        keep = hash_uniform(unit, _SUBSAMPLE_SEED) < max_rows / n_stored
        frame, unit = frame[keep], unit[keep]
    note = f"{len(frame):,} of {n_stored:,} rows" if len(frame) < n_stored else "all rows"

    if source.split:
        part = frame[source.split]
        train, test = part.isin(source.in_train).to_numpy(), part.isin(source.in_test).to_numpy()
    else:
        test = hash_uniform(unit, _SPLIT_SEED) < _TEST_SHARE
        train = ~test
    label, n_classes = _label(frame[source.target], source)
    dropped = {source.target, source.query, source.split}
    features = _numeric_features(frame[[c for c in frame.columns if c not in dropped]])
    ranking = source.objective == "lambdarank"
    return Task(
        name, source.objective,
        features[train], label[train], features[test], label[test],
        _sizes(unit[train]) if ranking else None, _sizes(unit[test]) if ranking else None,
        n_classes, note,
    )  # fmt: skip


def _label(column: Any, source: Source) -> tuple[Array, int]:
    """(float32 label, number of classes)."""
    if source.positive is not None:
        return (column == source.positive).to_numpy(np.float32), 1
    if source.objective == "multiclass":
        classes, codes = np.unique(column.to_numpy(), return_inverse=True)
        return codes.astype(np.float32), len(classes)
    return column.to_numpy(np.float32), 1


def _numeric_features(frame: Any) -> Array:
    """All numeric columns as float32, plus hour, weekday and month where there is a date_time."""
    import pandas as pd

    columns = [frame[c] for c in frame.columns if pd.api.types.is_numeric_dtype(frame[c])]
    if "date_time" in frame.columns:
        moment = pd.to_datetime(frame["date_time"].astype(str), format="%Y-%m-%d %H:%M:%S")
        minute = moment.dt.hour * 60 + moment.dt.minute
        columns += [minute, moment.dt.dayofweek, moment.dt.month]
    return np.column_stack([c.to_numpy(np.float32) for c in columns])


def _sizes(query: Array) -> Array:
    """Lengths of the runs of equal query numbers."""
    starts = np.flatnonzero(np.concatenate([[True], query[1:] != query[:-1]]))
    return np.diff(np.append(starts, len(query)))


def _generate(name: str, n_rows: int) -> Task:
    from bitgrove.cli import demo_data

    n_test = max(n_rows // 5, 1)
    if name == "higgs_like":
        return higgs_like(n_rows, n_test)
    if name == "regression_like":
        make = demo_data.make_regression_like
        return _two_seeds(name, "regression", make, n_rows, n_test)
    if name == "multiclass_like":
        make = demo_data.make_multiclass_like
        return _two_seeds(name, "multiclass", make, n_rows, n_test, n_classes=5)
    n_queries = max(n_rows // 32, 2)
    X, y, group = demo_data.make_ranking_like(n_queries, seed=0)
    X_test, y_test, group_test = demo_data.make_ranking_like(max(n_queries // 5, 1), seed=1)
    return Task(name, "lambdarank", X, y, X_test, y_test, group, group_test, note="generated")


def _two_seeds(
    name: str, objective: str, make: Callable[..., tuple[Array, Array]],
    n_rows: int, n_test: int, n_classes: int = 1,
) -> Task:  # fmt: skip
    """Train rows from seed 0, test rows from seed 1: the generators' relation ignores the seed."""
    X, y = make(n_rows, seed=0)
    X_test, y_test = make(n_test, seed=1)
    return Task(name, objective, X, y, X_test, y_test, n_classes=n_classes, note="generated")
