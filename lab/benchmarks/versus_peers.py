"""How fast is bitgrove beside LightGBM, XGBoost, CatBoost and scikit-learn?

Every line of work is measured on all systems in turn, several times over, and
the best time of each counts: a busy moment of the machine then hits all alike.
All get the same leaves, bins, learning rate and threads; LightGBM is given both
of its histogram layouts and the better one counts.

    python -m lab bench versus_peers --data DIR
    python -m lab bench versus_peers --lines higgs_1m fit_1k --systems bitgrove-2 lightgbm
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from tqdm import tqdm

from lab import benchmarks
from lab.benchmarks import measures
from lab.benchmarks.measures import (
    Binning,
    Measure,
    Memory,
    Prediction,
    Training,
    WatchedFit,
    WholeFit,
)
from lab.datasets import simple, table
from lab.datasets.entry import Wanted, data_folder
from lab.datasets.task import Task
from lab.reporting import machine, markdown_table, n_cores, write_json
from lab.systems.base import Settings, System
from lab.systems.lightgbm import LightGBM
from lab.systems.lineup import installed

SYSTEMS = (
    "bitgrove-2", "bitgrove-3", "bitgrove", "lightgbm", "lightgbm-2", "lightgbm-3",
    "xgboost", "catboost", "sklearn",
)  # fmt: skip

# The paper's appendix: 255 leaves and min_child_weight 100 on the large tables.
LARGE = Settings(n_trees=20, num_leaves=255, min_child_weight=100.0)
SMALL = Settings(n_trees=50)
_SHORT = Settings(n_trees=20)
# The stored tables, with a folder and without.
REAL = {
    "covtype": _SHORT, "kddcup04_bio": _SHORT, "household_power": LARGE, "mq2008": _SHORT,
    "mslr_5k": _SHORT,
}  # fmt: skip
MADE = dict.fromkeys(("regression_like", "multiclass_like", "ranking_like"), _SHORT)


@dataclass(frozen=True)
class Line:
    """One line of work: what is measured, on which table, with which settings."""

    title: str
    measure: type[Measure]
    make: Callable[[], Task]
    settings: Settings


@dataclass
class Outcome:
    """The best values of one system on one line."""

    best: dict[str, float] = field(default_factory=dict)
    quality: dict[str, float] = field(default_factory=dict)
    layout: str | None = None
    error: str | None = None

    def add(self, measure: Measure, values: dict[str, float]) -> None:
        main = next(iter(values))
        if values[main] <= self.best.get(main, float("inf")):
            self.layout, self.quality = getattr(measure.system, "layout", None), measure.quality
        for name, value in values.items():
            self.best[name] = min(value, self.best.get(name, float("inf")))


def lines(folder: Path | None, quick: bool) -> dict[str, Line]:
    """All lines of work; without a folder of real tables, generated ones take their place."""
    part = 20 if quick else 1

    def higgs(n_rows: int, n_test: int = 100_000) -> Callable[[], Task]:
        return partial(simple.higgs_like, n_rows // part, n_test // part)

    def wide(n_rows: int, n_features: int) -> Callable[[], Task]:
        return partial(simple.wide_binary, n_rows, 10_000, n_features)

    def stored(name: str) -> Callable[[], Task]:
        return partial(table.known(name).load, Wanted(folder, None, 20_000 if quick else None))

    work = {
        "higgs_1m": Line("Higgs-like, 1M x 28", Training, higgs(1_000_000), LARGE),
        "higgs_100k": Line("Higgs-like, 100k x 28", Training, higgs(100_000), SMALL),
        "fit_10k": Line("whole fit(), 10k x 20", WholeFit, wide(10_000, 20), Settings()),
        "fit_1k": Line("whole fit(), 1k x 20", WholeFit, wide(1_000, 20), Settings()),
        "watched_100k": Line(
            "whole fit() with AUC of 20k rows after each tree, 100k x 28",
            WatchedFit,
            higgs(100_000, 20_000),
            Settings(),
        ),
        "wide": Line(
            "100k x 1000", Training, wide(100_000 // part, 1000), replace(LARGE, n_trees=10)
        ),
    }
    tables = REAL if folder else MADE
    for name in table.available(tables, folder):
        work[name] = Line(name, Training, stored(name), tables[name])
    forest = Settings(n_trees=200, num_leaves=255, min_child_weight=1.0)
    work |= {
        "binning": Line("binning, 1M x 28", Binning, higgs(1_000_000, 1_000), LARGE),
        "predict": Line(
            "predicting 500k x 28, 200 trees of 255 leaves",
            Prediction, higgs(200_000, 500_000), forest,
        ),
        "memory": Line(
            "memory of fit, 1M x 28", Memory, higgs(1_000_000, 1_000), replace(LARGE, n_trees=5)
        ),
    }  # fmt: skip
    return work


def main(words: Sequence[str]) -> int:
    options = parse(words)
    measures.clock = measures.CLOCKS[options.clock]
    work = lines(data_folder(options.data), options.quick)
    unknown = set(options.lines or ()) - set(work)
    if unknown:
        raise SystemExit(f"unknown lines {sorted(unknown)}; there are: {', '.join(work)}")
    systems = installed(options.systems)
    how = f"threads: {options.threads}; {options.clock} time; best of {options.repeats} rounds"
    print(f"machine: {machine()}\n{how}")
    print("versions: " + ", ".join(sorted({f"{s.package} {s.version}" for s in systems})) + "\n")
    records = []
    for name in options.lines or work:
        line = work[name]
        line = replace(line, settings=replace(line.settings, n_threads=options.threads))
        task = line.make()
        outcomes = measure_line(line, task, systems, options.repeats)
        print(report(line, task, outcomes), flush=True)
        records.append({
            "line": name, "title": line.title, "shape": task.shape,
            "settings": vars(line.settings),
            "outcomes": {key: vars(outcome) for key, outcome in outcomes.items()},
        })  # fmt: skip
        if options.json:  # after each line: a stopped benchmark keeps what it measured
            write_json(options.json, {"machine": machine(), "lines": records})
    return 0


def parse(words: Sequence[str]) -> argparse.Namespace:
    parser = benchmarks.parser("versus_peers")
    parser.add_argument("--data", metavar="DIR", help="of Parquet files (or BITGROVE_DATA)")
    parser.add_argument("--lines", nargs="+", help="which lines of work; all when not given")
    parser.add_argument("--systems", nargs="+", default=SYSTEMS, help="the first is the yardstick")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=n_cores())
    parser.add_argument("--clock", choices=measures.CLOCKS, default="wall", help="of fit, predict")
    parser.add_argument("--json", type=Path, help="write all results here")
    parser.add_argument("--quick", action="store_true", help="small tables, one round")
    options = parser.parse_args(words)
    if options.quick:
        options.repeats = 1
    return options


def measure_line(
    line: Line, task: Task, systems: Sequence[System], repeats: int
) -> dict[str, Outcome]:
    """Round after round over all systems; the best of each system's values.

    Every other round goes backwards: what a library leaves behind (threads that still turn) is not
    always met by the same one.
    """
    outcomes = {entry.name: Outcome() for entry in systems if entry.supports(task)}
    contestants = [c for entry in systems if entry.name in outcomes for c in layouts(line, entry)]
    measures: dict[int, Measure] = {}
    there = list(range(len(contestants)))
    runs = [index for r in range(repeats) for index in (there if r % 2 == 0 else there[::-1])]
    for index in tqdm(runs, desc=line.title, unit="run", leave=False):
        contestant = contestants[index]
        outcome = outcomes[contestant.name]
        if outcome.error:
            continue
        try:
            if index not in measures:
                measures[index] = line.measure(contestant, task, line.settings)
            outcome.add(measures[index], measures[index]())
        except Exception as error:  # a peer's crash is a result, not the end of the benchmark
            outcome.error = f"{type(error).__name__}: {error}".splitlines()[0]
    return outcomes


def layouts(line: Line, entry: System) -> list[System]:
    """LightGBM row-wise and column-wise where it matters; any other system as it is."""
    if isinstance(entry, LightGBM) and line.measure.both_layouts:
        return [LightGBM(entry.name, entry.bits, layout) for layout in ("row", "col")]
    return [entry]


def report(line: Line, task: Task, outcomes: dict[str, Outcome]) -> str:
    """A Markdown table: each value, how many times the first system's it is, the test metric."""
    done = {name: outcome for name, outcome in outcomes.items() if outcome.best}
    settings = line.settings
    title = (
        f"## {line.title}\n\n{task.shape}; {settings.n_trees} trees of "
        f"{settings.num_leaves} leaves, min_child_weight {settings.min_child_weight:g}\n"
    )
    if not done:
        return f"{title}\nno system finished\n"
    first = next(iter(done.values()))
    header = ["system"]
    for name in first.best:
        header += [name, "times first"]
    rows = [_row(name, outcome, first) for name, outcome in outcomes.items()]
    return f"{title}\n{markdown_table([*header, *first.quality], rows)}\n"


def _row(name: str, outcome: Outcome, first: Outcome) -> list[str]:
    label = f"{name} ({outcome.layout}-wise)" if outcome.layout else name
    if not outcome.best:
        blanks = 2 * len(first.best) + len(first.quality) - 1
        return [label, "failed", *[""] * blanks]
    cells: list[str] = []
    for key, value in outcome.best.items():
        cells += [
            f"{value:.3g}" if value < 100 else f"{value:.0f}",
            f"{value / first.best[key]:.2f}",
        ]
    return [label, *cells, *[f"{value:.5f}" for value in outcome.quality.values()]]
