"""Peak memory: of a fit beside other libraries, and of rows that come from Parquet files.

Every figure is of a process of its own: what its resident memory grew by, at its highest, from the
libraries being loaded on. "bytes per row" of streams is that over the rows.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bitgrove
from lab.benchmarks import again, parser
from lab.benchmarks.measures import Memory
from lab.benchmarks.memory import estimates
from lab.datasets.simple import higgs_like
from lab.internals import make_higgs_like
from lab.reporting import machine, markdown_table
from lab.systems.base import Settings
from lab.systems.lineup import system

_PART_ROWS = 1_000_000
_SETTINGS = Settings(n_trees=5, num_leaves=255, min_child_weight=100.0, n_threads=2)


def main(words: Sequence[str]) -> int:
    options = parser("memory")
    options.add_argument("--rows", type=int, default=1_000_000, help="of the fit in memory")
    options.add_argument("--stream-rows", type=int, default=4_000_000, help="0: no stream")
    options.add_argument("--systems", nargs="*", default=["bitgrove-2", "lightgbm", "xgboost"])
    options.add_argument("--folder", help="of the Parquet files (default: a temporary one)")
    options.add_argument("--estimates", nargs="*", metavar="SHAPE", help="those alone")
    options.add_argument("--limits", action="store_true", help="and both sides of them, as root")
    options.add_argument("--child", help=argparse.SUPPRESS)
    given = options.parse_args(words)
    if given.estimates is not None:
        return estimates.report(given.estimates, given.limits)
    if given.child and ":" in given.child:
        limit, shape = given.child.split(":")
        estimates.child(shape, int(limit) or None)
        return 0
    if given.child:
        print(json.dumps(_train_stream(given.child)))
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
            _report_stream(folder, given.stream_rows)
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


def _report_stream(folder: str, n_rows: int) -> None:
    command = again("memory", "--child", f"{folder}/part-*.parquet")
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = json.loads(answer.splitlines()[-1])
    n_bytes = sum(path.stat().st_size for path in Path(folder).iterdir())
    print(f"\nfrom Parquet, {n_rows:,} x 28 ({4 * 28 * n_rows >> 20:,} MB as float32, "
          f"{n_bytes >> 20:,} MB of files), 255 leaves\n")  # fmt: skip
    rows = [[what, f"{value:,.1f}"] for what, value in found.items()]
    rows.append(["bytes per row", f"{found['MB at peak'] * 2**20 / n_rows:.0f}"])
    print(markdown_table(["", "value"], rows))


def _train_stream(pattern: str) -> dict[str, float]:
    """Of this process: what reading, binning and training took."""
    import pyarrow.parquet  # noqa: F401 -- loaded before the count begins

    before, start = _resident_kb(), time.perf_counter()
    data = bitgrove.Dataset.from_parquet(pattern, label="y")
    read = time.perf_counter()
    params = {"objective": "binary", "n_estimators": 5, "num_leaves": 255, "n_jobs": 2}
    model = bitgrove.train(params, data)
    assert model.info is not None
    seconds = model.info.seconds
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "MB at peak": (peak - before) / 1024,
        "s first pass": read - start,
        "s second pass": seconds["bin"],
        "s trees": seconds["train"],
    }


def _resident_kb() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024
