"""Peak memory: of a fit beside other libraries, and of rows that come from Parquet files.

Every figure is of a process of its own: what its resident memory grew by, at its highest, from the
libraries being loaded on. "bytes per row" of streams is that over the rows.
"""

from __future__ import annotations

import argparse
import glob
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bitgrove
from lab.benchmarks import again, parser
from lab.benchmarks.measures import Memory, peak_mb, resident_mb
from lab.benchmarks.memory import estimates
from lab.datasets.simple import higgs_like
from lab.internals import make_higgs_like
from lab.reporting import machine, markdown_table
from lab.systems.base import Settings
from lab.systems.lineup import system

Array = NDArray[Any]
_PART_ROWS = 1_000_000
_SETTINGS = Settings(n_trees=5, num_leaves=255, min_child_weight=100.0, n_threads=2)


def main(words: Sequence[str]) -> int:
    options = parser("memory")
    options.add_argument("--rows", type=int, default=1_000_000, help="of the fit in memory")
    options.add_argument("--stream-rows", type=int, default=4_000_000, help="0: no stream")
    options.add_argument("--systems", nargs="*", default=["bitgrove-2", "lightgbm", "xgboost"])
    options.add_argument("--streams", nargs="*", choices=sorted(STREAMS), default=["bitgrove"])
    options.add_argument("--folder", help="of the Parquet files (default: a temporary one)")
    options.add_argument("--estimates", nargs="*", metavar="SHAPE", help="those alone")
    options.add_argument("--limits", action="store_true", help="and both sides of them, as root")
    options.add_argument("--child", help=argparse.SUPPRESS)
    options.add_argument("--stream-child", nargs=2, help=argparse.SUPPRESS)
    given = options.parse_args(words)
    if given.estimates is not None:
        return estimates.report(given.estimates, given.limits)
    if given.child:
        limit, shape = given.child.split(":")
        estimates.child(shape, int(limit) or None)
        return 0
    if given.stream_child:
        print(json.dumps(_train_stream(*given.stream_child)))
        return 0
    print(f"machine: {machine()}\n")
    if given.systems:
        task = higgs_like(given.rows, 1_000)
        found = [[name, _peak_of_fit(name, task)] for name in given.systems]
        print(f"fit, {given.rows:,} x 28, 255 leaves\n")
        print(markdown_table(["system", "MB at peak"], [[name, f"{mb:.0f}"] for name, mb in found]))
    if given.stream_rows:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            _write_parts(folder, given.stream_rows)
            _report_streams(folder, given.stream_rows, given.streams)
    return 0


def _peak_of_fit(name: str, task: Any) -> float:
    measure = Memory(system(name), task, _SETTINGS)
    return measure()["MB at peak"]


def _write_parts(folder: str, n_rows: int) -> None:
    import pyarrow
    import pyarrow.parquet

    for part, first in enumerate(range(0, n_rows, _PART_ROWS)):
        X, y = make_higgs_like(min(_PART_ROWS, n_rows - first), part)
        rows = pyarrow.table({**{f"x{f}": X[:, f] for f in range(X.shape[1])}, "y": y})
        pyarrow.parquet.write_table(rows, f"{folder}/part-{part:04}.parquet")


def _report_streams(folder: str, n_rows: int, names: Sequence[str]) -> None:
    n_bytes = sum(path.stat().st_size for path in Path(folder).iterdir())
    print(f"\nfrom Parquet, {n_rows:,} x 28 ({4 * 28 * n_rows >> 20:,} MB as float32, "
          f"{n_bytes >> 20:,} MB of files), 255 leaves, 5 trees\n")  # fmt: skip
    lines = []
    for name in names:
        command = again("memory", "--stream-child", name, f"{folder}/part-*.parquet")
        answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        found = json.loads(answer.splitlines()[-1])
        per_row = found["MB at peak"] * 2**20 / n_rows
        lines.append([name, *(f"{value:,.1f}" for value in found.values()), f"{per_row:.0f}"])
    print(markdown_table(["system", *found, "bytes per row"], lines))


def _train_stream(name: str, pattern: str) -> dict[str, float]:
    """Of this process: what reading, binning and training took."""
    import pyarrow.parquet  # noqa: F401 -- loaded before the count begins

    train = STREAMS[name]()
    before, start = resident_mb(), time.perf_counter()
    prepared = train(pattern)
    peak = peak_mb()
    return {
        "MB at peak": peak - before,
        "s until the first tree": prepared - start,
        "s trees": time.perf_counter() - prepared,
    }


def _bitgrove_stream() -> Callable[[str], float]:
    def train(pattern: str) -> float:
        data = bitgrove.Dataset.from_parquet(pattern, label="y")
        params = {"objective": "binary", "n_estimators": 5, "num_leaves": 255, "n_jobs": 2}
        model = bitgrove.train(params, data)
        assert model.info is not None
        return time.perf_counter() - model.info.seconds["train"]

    return train


def _lightgbm_stream() -> Callable[[str], float]:
    """It reads no Parquet and wants the table: part by part into one array of float32."""
    import lightgbm

    def train(pattern: str) -> float:
        parts = list(_parts(pattern))
        n_rows = sum(rows for rows, _ in parts)
        X, y, first = np.empty((n_rows, 28), np.float32), np.empty(n_rows, np.float32), 0
        for rows, read in parts:
            X[first : first + rows], y[first : first + rows] = read()
            first += rows
        params = {"objective": "binary", "num_leaves": 255, "num_threads": 2, "verbose": -1}
        data = lightgbm.Dataset(X, y, params=params, free_raw_data=True).construct()
        prepared = time.perf_counter()
        lightgbm.train(params, data, 5)
        return prepared

    return train


def _xgboost_stream() -> Callable[[str], float]:
    """Its QuantileDMatrix takes an iterator of batches."""
    import xgboost

    class Batches(xgboost.DataIter):  # type: ignore[misc]
        def __init__(self, pattern: str) -> None:
            self._parts, self._next = list(_parts(pattern)), 0
            super().__init__()

        def next(self, input_data: Callable[..., None]) -> bool:
            if self._next == len(self._parts):
                return False
            X, y = self._parts[self._next][1]()
            input_data(data=X, label=y)
            self._next += 1
            return True

        def reset(self) -> None:
            self._next = 0

    def train(pattern: str) -> float:
        data = xgboost.QuantileDMatrix(Batches(pattern), max_bin=255, nthread=2)
        prepared = time.perf_counter()
        params = {"objective": "binary:logistic", "grow_policy": "lossguide", "max_leaves": 255,
                  "max_depth": 0, "max_bin": 255, "nthread": 2}  # fmt: skip
        xgboost.train(params, data, 5)
        return prepared

    return train


def _parts(pattern: str) -> Iterator[tuple[int, Callable[[], tuple[Array, Array]]]]:
    """For each file its number of rows, and what reads it."""
    import pyarrow.parquet as parquet

    def read(path: str) -> tuple[Array, Array]:
        table = parquet.read_table(path)
        y = table.column("y").to_numpy()
        columns = [table.column(name).to_numpy() for name in table.column_names if name != "y"]
        return np.column_stack(columns), y

    for path in sorted(glob.glob(pattern)):
        yield parquet.read_metadata(path).num_rows, partial(read, path)


STREAMS = {"bitgrove": _bitgrove_stream, "lightgbm": _lightgbm_stream, "xgboost": _xgboost_stream}
