"""Figure 4, measured: time per tree over namespaces with shaped links, in parts a model can be
fitted to.

    python -m lab bench scaling                                     # needs root; prints the points
    python -m lab bench scaling --out lab/results/scaling_points.json

Rows of the character of Epsilon and Criteo are dealt to 1, 2 and 4 ranks, one thread each. All
ranks share this machine's cores, so the parts are taken apart: `compute` is the processor time of a
rank outside of collectives (the mean of the ranks), `comm` the wall time of each collective from
when the last rank came to when the last one left, added up. Medians over the trees but the first.

Links: none (the kernel's bridge, as fast as it goes), and two rates behind a switch in user space
that holds each frame, so that a message of one byte goes there and back in about 0.2 ms; what it
took is measured and kept with the points.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import bitgrove as bg
from bitgrove.distributed import CountingComm, mpi
from lab import benchmarks
from lab.benchmarks.network.shaped_network import address, inside, mpi_ranks, network
from lab.datasets import paper_like
from lab.internals import bins_of, gather_facts
from lab.reporting import machine, markdown_table, write_json

T = TypeVar("T")
HELD = 15e-6  # seconds in the switch; the timers of the kernel add the rest of 0.1 ms
SHAPES = {"epsilon": {"rows": 16_000, "leaves": 31}, "criteo": {"rows": 160_000, "leaves": 255}}
# Rank 0 alone on other sizes: to separate the cost of rows from that of bins. Those with
# check=True are not fitted: the fit is checked with them.
ALONE = {
    "epsilon": [{"rows": 4_000}, {"rows": 48_000}, {"rows": 32_000, "leaves": 255, "check": True}],
    "criteo": [{"rows": 20_000}, {"rows": 640_000}, {"rows": 320_000, "check": True}],
}
MAKERS = {"epsilon": paper_like.epsilon, "criteo": paper_like.criteo}
BITS = (2, 4, None)
PORT = 12_500


# ---------------------------------------------------------------- one rank


class TimedComm(CountingComm):
    """Keeps when each collective began and ended, and marks between trees."""

    def __init__(self, comm: Any) -> None:
        super().__init__(comm)
        self.spans: list[tuple[float, float]] = []  # one clock for all ranks
        self.busy = 0.0  # processor time in collectives
        self.marks: list[tuple[float, float, int]] = []
        self.ends: list[int] = []
        self.bins = 0

    def _count(self, name: str, n_bytes: float, call: Callable[[], T]) -> T:
        began, busy = time.perf_counter(), time.process_time()
        result = super()._count(name, n_bytes, call)
        self.spans.append((began, time.perf_counter()))
        self.busy += time.process_time() - busy
        return result

    def mark(self, state: Any) -> None:
        """A callback: where the clocks and counters are after a tree."""
        computed = time.process_time() - self.busy
        self.marks.append((time.perf_counter(), computed, sum(self.sent_bytes.values())))
        self.ends.append(len(self.spans))
        self.bins = bins_of(state)


def run_rank(spec: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Trains with each number of bits on this rank's rows; rank 0 returns the fastest of each."""
    comm = mpi()
    X, y = np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy", mmap_mode="r")
    rows = slice(*(spec["rows"] * rank // comm.size for rank in (comm.rank, comm.rank + 1)))
    dataset = bg.Dataset(np.array(X[rows]), np.array(y[rows]))
    found: dict[int | None, dict[str, Any]] = {}
    for bits in spec["bits"] * spec["repeats"]:
        point = train(TimedComm(comm), dataset, {**spec, "bits": bits})
        if bits not in found or point["seconds"] < found[bits]["seconds"]:
            found[bits] = point
    return list(found.values()) if comm.rank == 0 else []


def train(comm: TimedComm, dataset: Any, spec: dict[str, Any]) -> dict[str, Any]:
    """One training, the medians over its trees; the same on all ranks."""
    model = bg.train(
        {"objective": "binary", "n_estimators": spec["trees"], "num_leaves": spec["leaves"],
         "gradient_bits": spec["bits"], "min_child_weight": 1.0, "n_jobs": 1,
         "distributed_timeout": 300, "histogram_pool_mb": 1024},
        dataset, callbacks=[comm.mark], comm=comm,
    )  # fmt: skip
    assert model.info is not None
    ends, spans = comm.ends, comm.spans[: comm.ends[-1]]
    mine = [*np.median(np.diff(comm.marks, axis=0), axis=0).tolist(), spans]
    seconds, compute, sent, everyone = zip(*gather_facts(comm, mine), strict=True)
    last_began, last_ended = np.max(everyone, axis=0).T
    waited = np.cumsum(np.concatenate([[0.0], last_ended - last_began]))[ends]
    n_calls = (ends[-1] - ends[0]) / (len(ends) - 1)
    return {
        **{key: value for key, value in spec.items() if key != "repeats"},
        "seconds": max(seconds),
        "compute": statistics.mean(compute),
        "comm": float(np.median(np.diff(waited))),
        "bytes": statistics.mean(sent),
        "collectives": n_calls - (comm.size > 1),  # one is the callback's
        "rounds": statistics.mean(model.info.rounds_per_tree[1:]),
        "bins": comm.bins,
        **built(model.trees[1:], spec["features"] / comm.bins / comm.size),
        "digest": model.digest(),
    }


def built(trees: list[Any], rows_per_bin: float) -> dict[str, float]:
    """Per tree: histograms built (the root and each smaller child), their rows, and the mean bits
    of the rows in a bin of one rank's histogram; rows_per_bin: of a rank, for each row of all."""
    n_rows: list[float] = []
    for tree in trees:
        children = [
            np.where(side >= 0, tree.split_rows[np.maximum(side, 0)],
                     tree.leaf_rows[np.maximum(~side, 0)])
            for side in (tree.left, tree.right)
        ]  # fmt: skip
        n_rows += [*tree.split_rows[:1], *np.minimum(*children)]
    in_a_bin = np.array(n_rows) * rows_per_bin
    return {
        "histograms": len(n_rows) / len(trees),
        "built_rows": float(np.sum(n_rows)) / len(trees),
        "bin_bits": float(np.mean(np.log2(1.0 + in_a_bin))),
    }


# ---------------------------------------------------------------- all ranks


def round_trip() -> float:
    """Median seconds of a byte from namespace 0 to 1 and back over TCP."""
    server = subprocess.Popen([*inside(1), *benchmarks.again("scaling", "--echo")],
                              stdout=subprocess.PIPE, text=True)  # fmt: skip
    assert server.stdout is not None
    server.stdout.readline()
    client = subprocess.run([*inside(0), *benchmarks.again("scaling", "--ping")], check=True,
                            capture_output=True, text=True, timeout=60)  # fmt: skip
    server.wait()
    return float(client.stdout)


def echo() -> None:
    with socket.create_server(("", PORT)) as server:
        print("ready", flush=True)
        connection, _ = server.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while byte := connection.recv(1):
        connection.sendall(byte)


def ping() -> None:
    took = []
    with socket.create_connection((address(1), PORT)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(1000):
            started = time.perf_counter()
            connection.sendall(b".")
            connection.recv(1)
            took.append(time.perf_counter() - started)
    print(statistics.median(took))


def make_data(folder: str, shape: str) -> int:
    """Rows of a shape, as many as the largest run takes; returns the number of features."""
    n_rows = max(size["rows"] for size in [SHAPES[shape], *ALONE[shape]])
    task = MAKERS[shape](n_rows, 64)
    np.save(Path(folder) / "X.npy", task.X_train)
    np.save(Path(folder) / "y.npy", task.y_train)
    return int(task.X_train.shape[1])


def measure(shape: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Points of one shape; those with `check` are not for fitting."""
    with tempfile.TemporaryDirectory() as folder:
        setting = {"shape": shape, **SHAPES[shape], "features": make_data(folder, shape),
                   "trees": args.trees, "repeats": args.repeats, "bits": BITS}  # fmt: skip
        alone = [{"ranks": 1, **size} for size in [{}, *ALONE[shape]]]
        together: list[dict[str, Any]] = [{"ranks": 2}, {"ranks": 4}]
        more_ranks = [{"ranks": 8, "bits": [2], "check": True}]
        runs = {
            (None, 0.0): alone + together,
            (7.5, HELD): together + more_ranks,
            (1.0, HELD): together,
        }
        points = []
        for (gbit, held), specs in runs.items():
            points += measure_link(folder, [{**setting, **spec} for spec in specs], gbit, held)
    print(file=sys.stderr)
    return points


def measure_link(
    folder: str, specs: list[dict[str, Any]], gbit: float | None, held: float
) -> list[dict[str, Any]]:
    """Runs over one kind of links."""
    points: list[dict[str, Any]] = []
    with network(max(spec["ranks"] for spec in specs), gbit, held):
        trip = round_trip()
        for spec in specs:
            worker = benchmarks.again("scaling", "--worker", folder)
            points += json.loads(mpi_ranks(spec["ranks"], worker, {"SPEC": json.dumps(spec)}))
            print(".", end="", file=sys.stderr, flush=True)
        trip = min(trip, round_trip())  # before and after: one may be disturbed
    return [{**point, "gbit": gbit, "round_trip": trip} for point in points]


def table(points: list[dict[str, Any]]) -> str:
    header = ["", "rows", "bits", "ranks", "Gbit/s", "round trip us", "ms per tree", "compute ms",
              "comm ms", "MB per rank", "collectives"]  # fmt: skip
    rows = [
        [p["shape"], f"{p['rows']:,}", str(p["bits"] or "full"), str(p["ranks"]),
         str(p["gbit"] or "no limit"),
         f"{1e6 * p['round_trip']:.0f}", f"{1e3 * p['seconds']:.0f}", f"{1e3 * p['compute']:.0f}",
         f"{1e3 * p['comm']:.1f}", f"{p['bytes'] / 1e6:.2f}", f"{p['collectives']:.0f}"]
        for p in points
    ]  # fmt: skip
    return markdown_table(header, rows)


def main(words: Sequence[str]) -> None:
    parser = benchmarks.parser("scaling")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    for hidden in ("--echo", "--ping"):
        parser.add_argument(hidden, action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--shapes", nargs="+", choices=tuple(SHAPES), default=list(SHAPES))
    parser.add_argument("--trees", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--out", type=Path, help="also write the points here; those of other "
                        "shapes that the file has stay")  # fmt: skip
    args = parser.parse_args(words)
    if args.worker:
        points = run_rank(json.loads(os.environ["SPEC"]), args.worker)
        if points:
            print(json.dumps(points), flush=True)
    elif args.echo:
        echo()
    elif args.ping:
        ping()
    else:
        points = [point for shape in args.shapes for point in measure(shape, args)]
        print(machine(), table(points), sep="\n\n")
        if args.out:
            write(args.out, args.shapes, points)


def write(path: Path, shapes: list[str], points: list[dict[str, Any]]) -> None:
    kept = json.loads(path.read_text())["points"] if path.exists() else []
    kept = [point for point in kept if point["shape"] not in shapes]
    day = datetime.now(timezone.utc).date().isoformat()
    origin = f"lab bench scaling, {day}, {machine()}"
    write_json(path, {"origin": origin, "cores": os.cpu_count(), "points": kept + points})
