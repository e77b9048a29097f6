"""What do few bits cost, and does any table lose by the default?

    python -m lab bench lossless --seeds 10 [--device cuda] [--out FOLDER] [--npz FOLDER]

Tables from bounded gradients to Pareto tails of index 1.3, weights included, real ones where they
are found. Each seed is another split into training and test rows and other rounding noise, the same
for all settings, so that losses against full precision are paired. A line shows the mean loss in
per cent of the test metric with its standard error. Leaves need a hessian of 1: a study of rounding
is not one of diverging leaves. Processor time against "max 4", the median over the seeds, is in
brackets: use --threads 1. --npz keeps the tables as compressed arrays, for a machine that cannot
read Parquet.
"""

from __future__ import annotations

import csv
import math
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bitgrove as bg
from lab import benchmarks
from lab.benchmarks.lossless.tables import TABLES, Table, load
from lab.internals import evaluate
from lab.reporting import machine, markdown_table

Params = dict[str, Any]
Row = dict[str, Any]  # of results
FULL, YARDSTICK = "full", "max 4"
SETTINGS: dict[str, Params] = {
    FULL: {"gradient_bits": None},
    **{f"max {bits}": {"gradient_bits": bits, "gradient_scale": "max"} for bits in (3, 4, 5, 6, 8)},
    **{f"robust {b}": {"gradient_bits": b, "gradient_scale": "robust"} for b in (2, 3, 4, 5, 6)},
}
_LOSS = {"regression": "rmse", "binary": "logloss", "multiclass": "multi_logloss"}


def measure(table: Table, seed: int, names: Sequence[str], params: Params) -> list[Row]:
    """One row of results for each setting, on the split of this seed."""
    train, test = table.split(seed)
    data = bg.Dataset(train.X, train.y, weight=train.weight)
    rows = []
    for name in names:
        started = time.process_time()
        model = bg.train({**params, **SETTINGS[name], "random_state": seed}, data)
        cpu_ms = 1e3 * (time.process_time() - started) / params["n_estimators"]
        prediction = model.predict(test.X, device=params["device"])
        loss = evaluate(_LOSS[table.objective], prediction, test.y, None)
        assert model.info is not None, "train() measures"
        ms = 1e3 * model.info.seconds["train"] / params["n_estimators"]
        rows.append({"table": table.name, "setting": name, "seed": seed, "loss": loss, "ms": ms,
                     "cpu_ms": cpu_ms, **_work(model, len(train.y))})  # fmt: skip
    return rows


def _work(model: bg.Model, n_rows: int) -> dict[str, float]:
    """What the time of a tree depends on: rows that are zero cost less, full trees divide more."""
    assert model.info is not None, "train() measures"
    divided = statistics.fmean(int(tree.split_rows.sum()) for tree in model.trees)
    return {"zeros": statistics.fmean(model.info.zero_rows) / n_rows, "divided": divided / n_rows}


def summary(rows: Sequence[Row], names: Sequence[str]) -> str:
    """By table and setting: the paired loss against full precision and, against "max 4", time."""
    lines = []
    for table in dict.fromkeys(row["table"] for row in rows):
        mine = [row for row in rows if row["table"] == table]
        of = {name: [row for row in mine if row["setting"] == name] for name in names}
        cells = [_cell(of[name], of[FULL], of.get(YARDSTICK)) for name in names[1:]]
        full = statistics.fmean(row["loss"] for row in of[FULL])
        lines.append([table, f"{full:.5g}", *cells])
    return markdown_table(["table", "full precision", *names[1:]], lines)


def _cell(found: Sequence[Row], full: Sequence[Row], usual: Sequence[Row] | None) -> str:
    more = [100 * (ratio - 1) for ratio in _ratios("loss", found, full)]
    error = statistics.stdev(more) / math.sqrt(len(more)) if len(more) > 1 else math.nan
    loss = f"{statistics.fmean(more):+.2f} ± {error:.2f}"
    if usual is None:
        return loss
    return f"{loss} ({statistics.median(_ratios('cpu_ms', found, usual)):.2f})"


def _ratios(what: str, these: Sequence[Row], others: Sequence[Row]) -> list[float]:
    return [this[what] / other[what] for this, other in zip(these, others, strict=True)]


def main(words: Sequence[str]) -> None:
    parser = benchmarks.parser("lossless")
    parser.add_argument("--tables", nargs="+", choices=sorted(TABLES), default=list(TABLES))
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--one-against-all", action="store_true", help="classes by multiclassova")
    parser.add_argument("--rows", type=int, default=300_000, help="at most, of a table")
    parser.add_argument("--trees", type=int, default=150)
    parser.add_argument("--leaves", type=int, default=63)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after so many")
    parser.add_argument("--data", help="folder of the real tables")
    parser.add_argument("--npz", type=Path, help="folder of tables kept as arrays")
    parser.add_argument("--out", type=Path, help="folder for lossless.csv")
    options = parser.parse_args(words)
    names = list(dict.fromkeys([FULL, *options.settings]))
    shared: Params = {"n_estimators": options.trees, "num_leaves": options.leaves,
                      "min_child_weight": 1.0, "n_jobs": options.threads,
                      "device": options.device}  # fmt: skip
    started, rows = time.perf_counter(), []
    for name in options.tables:
        table = load(name, options.rows, options.data, options.npz)
        if table is None:
            print(f"{name}: left out, its file is not here", flush=True)
            continue
        shared["objective"] = table.objective
        if options.one_against_all and table.objective == "multiclass":
            shared["objective"] = "multiclassova"
        for seed in range(options.seeds):
            if time.perf_counter() - started > options.seconds:
                break
            rows += measure(table, seed, names, shared)
        print(summary([r for r in rows if r["table"] == name], names), flush=True)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        with (options.out / "lossless.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    print(machine(options.device), summary(rows, names), sep="\n\n")
