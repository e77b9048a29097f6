"""Training over ranks: bytes, messages and time per tree, against LightGBM over sockets.

    python -m lab bench distributed                       # needs root for network namespaces
    python -m lab bench distributed --ranks 2 4 --rows 400000 --json out.json

Every rank lives in its own network namespace, joined by a bridge, so that what crosses is what its
interface counts: for bitgrove (MPI over TCP) and for LightGBM (`tree_learner=data`, its own
sockets) alike, on the same rows, with one thread per rank. Bytes and seconds are taken between the
first and the last tree, so that start-up and binning are left out. With --gbit the links are
shaped by tc's token bucket. With --one-machine there are no namespaces: MPI takes the way it likes
best, LightGBM its sockets on the loopback, and the interfaces are not read.

Runs of LightGBM's quantized training over ranks that do not end are counted; beside those that do
stand their leaves and their AUC on the training rows, to say whether they learned.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from lab import benchmarks
from lab.benchmarks.network.shaped_network import COUNTER, address, inside, mpi_ranks, network
from lab.internals import gather_facts
from lab.reporting import markdown_table, write_json

FLOAT64_BIN, FLOAT32_BIN = 16, 8  # gradient and hessian of one bin


# ---------------------------------------------------------------- one rank


class Meter:
    """Seconds and sent bytes from the end of the first tree to the end of the last."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.reads_interface = not spec["one_machine"]
        self.marks: list[tuple[float, int]] = []

    def mark(self) -> None:
        sent = int(COUNTER.read_text()) if self.reads_interface else 0
        self.marks.append((time.perf_counter(), sent))

    def per_tree(self) -> dict[str, float]:
        seconds = np.diff([m[0] for m in self.marks])
        sent = self.marks[-1][1] - self.marks[0][1]
        return {"seconds": float(np.median(seconds)), "wire_bytes": sent / len(seconds)}


def shard(folder: Path, rank: int, size: int) -> tuple[Any, Any]:
    X, y = np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy", mmap_mode="r")
    rows = slice(len(y) * rank // size, len(y) * (rank + 1) // size)
    return np.array(X[rows]), np.array(y[rows])


def training_auc(folder: Path, model: Any) -> float:
    from sklearn.metrics import roc_auc_score

    X, y = shard(folder, 0, 1)
    return float(roc_auc_score(y, np.nan_to_num(model.predict(X))))


def run_bitgrove(spec: dict[str, Any]) -> dict[str, Any]:
    import bitgrove as bg
    from bitgrove.distributed import CountingComm, mpi

    comm = CountingComm(mpi())
    meter, counts = Meter(spec), []

    def mark(state: Any) -> None:
        meter.mark()
        counts.append((comm.seconds, sum(comm.sent_bytes.values()), sum(comm.calls.values())))

    X, y = shard(Path(spec["folder"]), comm.rank, comm.size)
    model = bg.train(
        {"objective": "binary", "n_estimators": spec["trees"], "num_leaves": spec["leaves"],
         "gradient_bits": spec["bits"], "n_jobs": 1, "distributed_timeout": 300,
         **spec.get("params", {})},
        bg.Dataset(X, y), callbacks=[mark], comm=comm,
    )  # fmt: skip
    assert model.info is not None
    n_trees = len(counts) - 1
    waited, sent, calls = ((b - a) / n_trees for a, b in zip(counts[0], counts[-1], strict=True))
    mine = {**meter.per_tree(), "comm_seconds": waited, "payload_bytes": sent}
    everyone = gather_facts(comm, mine)
    if comm.rank > 0:
        return {}
    return {
        "seconds": max(f["seconds"] for f in everyone),
        "comm_seconds": statistics.median(f["comm_seconds"] for f in everyone),
        "payload_bytes": sum(f["payload_bytes"] for f in everyone),
        "wire_bytes": sum(f["wire_bytes"] for f in everyone),
        "collectives": calls - (comm.size > 1),  # the one that asks all callbacks is the meter's
        "rounds": statistics.mean(model.info.rounds_per_tree[1:]),
        "n_bins": int(sum(min(255, len(np.unique(X[:, f]))) for f in range(X.shape[1]))),
        "n_leaves": statistics.mean(tree.n_leaves for tree in model.trees[1:]),
        "auc": training_auc(Path(spec["folder"]), model),
        "digest": model.digest(),
    }


def run_lightgbm(spec: dict[str, Any], rank: int) -> dict[str, Any]:
    import lightgbm as lgb

    size, meter = spec["ranks"], Meter(spec)
    X, y = shard(Path(spec["folder"]), rank, size)
    params = {
        "objective": "binary", "num_leaves": spec["leaves"], "num_threads": 1, "verbosity": -1,
        "min_data_in_leaf": 20, "use_quantized_grad": spec["bits"] is not None,
        "quant_train_renew_leaf": True, "pre_partition": True,
    }  # fmt: skip
    if spec["bits"] is not None:
        params["num_grad_quant_bins"] = 2 ** spec["bits"] - 2
    if size > 1:
        places = [
            f"127.0.0.1:{12400 + i}" if spec["one_machine"] else f"{address(i)}:12400"
            for i in range(size)
        ]
        port = int(places[rank].split(":")[1])
        params |= {"tree_learner": "data", "num_machines": size, "machines": ",".join(places),
                   "local_listen_port": port, "time_out": 2}  # fmt: skip
    model = lgb.train(
        params, lgb.Dataset(X, y), spec["trees"], callbacks=[lambda env: meter.mark()]
    )
    # Not dump_model(): quantized training over ranks leaves values there that are no JSON.
    n_leaves = [int(n) for n in re.findall(r"^num_leaves=(\d+)", model.model_to_string(), re.M)]
    auc = training_auc(Path(spec["folder"]), model) if rank == 0 else 0.0
    return {**meter.per_tree(), "n_leaves": statistics.mean(n_leaves[1:] or [1]), "auc": auc}


# ---------------------------------------------------------------- all ranks


def launch_bitgrove(spec: dict[str, Any]) -> dict[str, Any]:
    program = benchmarks.again("distributed", "--worker", "bitgrove")
    env, apart = {"SPEC": json.dumps(spec)}, not spec["one_machine"]
    return json.loads(mpi_ranks(spec["ranks"], program, env, apart=apart))


def launch_lightgbm(spec: dict[str, Any]) -> dict[str, Any]:
    places = [[] if spec["one_machine"] else inside(i) for i in range(spec["ranks"])]
    ranks = [
        subprocess.Popen(
            [*place, *benchmarks.again("distributed", "--worker", "lightgbm", "--rank", str(i))],
            env={**os.environ, "SPEC": json.dumps(spec), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i, place in enumerate(places)
    ]
    try:
        outputs = [rank.communicate(timeout=spec["patience"]) for rank in ranks]
    except subprocess.TimeoutExpired:
        for rank in ranks:
            rank.kill()
        return {"failed": f"no end after {spec['patience']} s"}
    if any(rank.returncode for rank in ranks):
        lines = "".join(err for _, err in outputs).strip().splitlines()
        return {"failed": next((li for li in lines if "Error" in li), lines[-1])}
    facts = [json.loads(out.strip().splitlines()[-1]) for out, _ in outputs]
    return {
        "seconds": max(f["seconds"] for f in facts),
        "wire_bytes": sum(f["wire_bytes"] for f in facts),
        "n_leaves": facts[0]["n_leaves"],
        "auc": facts[0]["auc"],
    }


def make_data(folder: Path, n_rows: int, n_features: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    weights = rng.normal(size=n_features)
    score = X @ weights + X[:, 0] * X[:, 1] + np.square(X[:, 2])
    y = (score + 2 * rng.normal(size=n_rows) > np.median(score)).astype(np.float64)
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)


def measure(args: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Rows of results; the systems take turns, and the best of the repeats counts."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    failures: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for _ in range(args.repeats):
        for ranks in args.ranks:
            spec = {"folder": str(folder), "ranks": ranks, "trees": args.trees,
                    "leaves": args.leaves, "one_machine": args.one_machine,
                    "patience": args.patience}  # fmt: skip
            for bits in args.bits:
                runs = [("bitgrove", launch_bitgrove)]
                if bits in (None, 2, 4) and not args.alone:
                    runs.append(("lightgbm", launch_lightgbm))
                for system, launch in runs:
                    result = launch({**spec, "bits": bits})
                    key = (system, ranks, bits)
                    if "failed" in result:
                        failures[key].append(result["failed"])
                        print(f"{key}: {result['failed']}", file=sys.stderr, flush=True)
                        continue
                    if key not in found or result["seconds"] < found[key]["seconds"]:
                        found[key] = {"system": system, "ranks": ranks, "bits": bits, **result}
                    print(f"{key}: {result['seconds']:.4f} s", file=sys.stderr, flush=True)
    for (system, ranks, bits), reasons in failures.items():
        print(f"{system}, {bits or 'full'} bits, {ranks} ranks: {len(reasons)} of {args.repeats} "
              f"runs failed: {'; '.join(sorted(set(reasons)))}")  # fmt: skip
    return list(found.values())


def report(rows: list[dict[str, Any]], args: argparse.Namespace) -> None:
    link = "no limit" if args.gbit is None else f"{args.gbit} Gbit/s"
    link = "one machine" if args.one_machine else link
    print(f"{args.rows:,} x {args.features}, {args.leaves} leaves, links: {link}; per tree")
    header = ["system", "bits", "ranks", "leaves", "AUC", "s", "s in collectives",
              "MB on the wire", "MB payload", "MB float32", "MB float64", "collectives",
              "frontier rounds"]  # fmt: skip
    lines = []
    order = sorted(rows, key=lambda r: (r["ranks"], r["bits"] is None, r["bits"] or 0, r["system"]))
    n_bins = next(r["n_bins"] for r in rows if r["system"] == "bitgrove")
    for r in order:
        histograms = args.leaves * n_bins * (r["ranks"] - 1)  # the root and each smaller child
        cells = [
            r["system"], r["bits"] or "full", r["ranks"], round(r["n_leaves"]),
            f"{r['auc']:.4f}", f"{r['seconds']:.4f}",
            f"{r['comm_seconds']:.4f}" if "comm_seconds" in r else "",
            "" if args.one_machine else f"{r['wire_bytes'] / 1e6:.2f}",
            f"{r['payload_bytes'] / 1e6:.2f}" if "payload_bytes" in r else "",
            f"{histograms * FLOAT32_BIN / 1e6:.2f}", f"{histograms * FLOAT64_BIN / 1e6:.2f}",
            f"{r['collectives']:.1f}" if "collectives" in r else "",
            f"{r['rounds']:.1f}" if "rounds" in r else "",
        ]  # fmt: skip
        lines.append([str(cell) for cell in cells])
    print(markdown_table(header, lines))


def main(words: Sequence[str]) -> None:
    parser = benchmarks.parser("distributed")
    parser.add_argument("--worker", choices=("bitgrove", "lightgbm"), help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--leaves", type=int, default=255)
    parser.add_argument("--trees", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--bits", type=lambda b: None if b == "full" else int(b), nargs="+",
                        default=[2, 3, 4, 8, None])  # fmt: skip
    parser.add_argument("--gbit", type=float, help="shape every link to this rate")
    parser.add_argument("--alone", action="store_true", help="without LightGBM")
    parser.add_argument("--one-machine", action="store_true", help="no network namespaces")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds for LightGBM")
    parser.add_argument("--json", help="also write the rows to this file")
    args = parser.parse_args(words)
    if args.worker:
        spec = json.loads(os.environ["SPEC"])
        run = run_bitgrove(spec) if args.worker == "bitgrove" else run_lightgbm(spec, args.rank)
        if run:
            print(json.dumps(run), flush=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        make_data(Path(folder), args.rows, args.features)
        links = nullcontext() if args.one_machine else network(max(args.ranks), args.gbit)
        with links:
            rows = measure(args, Path(folder))
    report(rows, args)
    if args.json:
        write_json(Path(args.json), {"setup": vars(args), "rows": rows})
