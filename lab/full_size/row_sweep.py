"""How much data is enough: what few bits lose, from ten thousand rows to all of a table.

Theorem 5.3 says that the error of a gain falls with the root of the rows. Each cell trains on a
part of the rows; the parts are nested. Beside the test metric stands the split regret of the
full-precision model on the same rows, early and late in the training: the share of the gain that
the chosen splits lose.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import bitgrove
from bitgrove.theory import measure_split_regret
from lab.datasets.task import Task
from lab.full_size.judge import JUDGES
from lab.full_size.report import paired_percent
from lab.full_size.rows import Part
from lab.internals import bin_once, chosen_by_hash
from lab.reporting import markdown_table
from lab.running.experiment import Cell, Experiment, Report, Result, Results
from lab.running.pictures import COLORS, panels
from lab.running.study import Bench, Study
from lab.scoring import metric_of
from lab.systems import lineup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)
_TEST_ROWS = 100_000
_PART, _TEST_PART = 31, 32
_DRAWS = 3  # of the regret


class RowSweep(Experiment):
    name = "row_sweep"
    summary = "what few bits lose, by number of rows"
    reports_parts = True

    def __init__(self) -> None:
        self._part: tuple[tuple[str, int], bitgrove.Dataset] | None = None

    def plan(self, study: Study) -> list[Cell]:
        most = study.wanted.max_rows or ROWS[-1]
        sizes = [rows for rows in ROWS if rows < most] + [most]
        cells = []
        for name in study.names(("household_power", "household_time")):
            for rows in sizes:
                cells.append(Cell(name, f"{lineup.FULL}, {rows} rows"))
                cells += [
                    Cell(name, f"{lineup.quantized(b)}, {rows} rows", seed)
                    for b in study.bits
                    for seed in range(study.seeds)
                ]
        return cells

    def measure(self, cell: Cell, bench: Bench) -> Result:
        label, rows = _split(cell.system)
        task, data = bench.task(cell.dataset), self._data(cell.dataset, rows, bench)
        system = lineup.ours(label)
        params = system.parameters(bench.settings(cell.dataset), cell.seed, task)
        model = bitgrove.train(params, data)
        test = _test(task)
        scores = model.predict_raw(test.X)
        judge = JUDGES[task.objective](np, test)
        found = {"metric": metric_of(task), "rows": data.n_rows, "test": judge.value(scores),
                 "drawn": judge.drawn_again(scores)}  # fmt: skip
        if label == lineup.FULL:
            found["regret"] = {
                str(bits): [_regret(model, data, bits, at) for at in _moments(model)]
                for bits in bench.study.bits
            }
        return found

    def _data(self, name: str, rows: int, bench: Bench) -> bitgrove.Dataset:
        if self._part is None or self._part[0] != (name, rows):
            task = bench.task(name)
            n_all = len(task.y_train)
            kept = chosen_by_hash(min(rows / n_all, 1.0), np.arange(n_all), _PART)
            data = bitgrove.Dataset(task.X_train[kept], task.y_train[kept])
            bin_once(lineup.ours(lineup.FULL).parameters(bench.settings(name), 0, task), data)
            self._part = ((name, rows), data)
        return self._part[1]

    def report(self, study: Study, bench: Bench, results: Results) -> Report:
        runs: dict[tuple[str, int, str], list[Result]] = {}
        for cell, result in results:
            label, _ = _split(cell.system)
            runs.setdefault((cell.dataset, result["rows"], label), []).append(result)
        wanted = {lineup.FULL, *map(lineup.quantized, study.bits)}
        for name, rows, _ in list(runs):  # a size that is not finished says nothing
            if not all((name, rows, label) in runs for label in wanted):
                for label in wanted:
                    runs.pop((name, rows, label), None)
        names = list(dict.fromkeys(name for name, _, _ in runs))
        pages = [_page(runs, name, study.bits) for name in names]
        table = [
            {"dataset": c.dataset, "system": _split(c.system)[0], "rows": r["rows"],
             "seed": c.seed, "test": r["test"]} for c, r in results
        ]  # fmt: skip
        page = (
            f"{study.trees} trees, {study.seeds} seeds. Percent better (+) or worse (-) than full "
            "precision on the same rows, with the 95% interval of the paired bootstrap over "
            f"{_TEST_ROWS:,} test rows and seeds; then the split regret of 2 bits at the first "
            "tree, the middle and the last.\n\n" + "\n\n".join(pages)
        )
        draw = partial(_draw, runs=runs, names=names, bits=study.bits)
        return Report(table, page, draw, (4.5 * len(names), 3.4))


def _split(system: str) -> tuple[str, int]:
    label, _, rows = system.removesuffix(" rows").rpartition(", ")
    return label, int(rows)


def _test(task: Task) -> Part:
    n = len(task.y_test)
    kept = chosen_by_hash(min(_TEST_ROWS / n, 1.0), np.arange(n), _TEST_PART)
    return Part(np.ascontiguousarray(task.X_test[kept]), task.y_test[kept])


def _moments(model: bitgrove.Model) -> list[int]:
    return [0, model.n_iterations // 2, model.n_iterations - 1]


def _regret(model: bitgrove.Model, data: bitgrove.Dataset, bits: int, at: int) -> float:
    return measure_split_regret(model, data, bits, n_draws=_DRAWS, iterations=[at]).regret()


Runs = dict[tuple[str, int, str], list[Result]]


def _page(runs: Runs, name: str, bits: tuple[int, ...]) -> str:
    lines = []
    for rows in sorted({r for n, r, _ in runs if n == name}):
        full = runs[name, rows, lineup.FULL][0]
        cells = []
        for b in bits:
            mean, low, high = paired_percent(runs[name, rows, lineup.quantized(b)], full)
            cells.append(f"{mean:+.2f} [{low:+.2f}, {high:+.2f}]")
        regret = ", ".join(f"{100 * value:.0f}%" for value in full["regret"][str(bits[0])])
        lines.append([f"{name}, {rows:,}", f"{full['test']:.4f}", *cells, regret])
    header = ["rows", f"full, {full['metric']}", *(f"{b} bits" for b in bits), "regret"]
    return markdown_table(header, lines)


def _draw(figure: Figure, runs: Runs, names: list[str], bits: tuple[int, ...]) -> None:
    for ax, name in zip(panels(figure, len(names)), names, strict=False):
        sizes = sorted({r for n, r, _ in runs if n == name})
        for k, b in enumerate(bits):
            found: Any = np.array([
                paired_percent(runs[name, rows, lineup.quantized(b)],
                               runs[name, rows, lineup.FULL][0]) for rows in sizes
            ]).T  # fmt: skip
            errors = [np.maximum(found[0] - found[1], 0.0), np.maximum(found[2] - found[0], 0.0)]
            ax.errorbar(sizes, found[0], errors, fmt="-o", ms=3, lw=1.1, color=COLORS[k],
                        label=f"{b} bits")  # fmt: skip
        ax.axhline(0.0, color="#555555", lw=0.8)
        ax.set_xscale("log")
        ax.set_title(name, fontsize=9)
        ax.set(xlabel="training rows", ylabel="percent better than full precision")
    figure.axes[0].legend(frameon=False, fontsize=7)
