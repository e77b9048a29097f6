"""Beyond the paper: exact sums for a few features of a node before its split is taken.

The features that few bits rank highest are summed again from the original gradients, and the best
split among them is taken. Trained on the same random splits as plain bits and full precision: what
it buys on test rows, how much of the gain that rounding loses it brings back, and what it costs.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.datasets.task import Task
from lab.experiments.paired.gains import Paired, paired_gain
from lab.reporting import markdown_table
from lab.roundings.internals import RefittedTraining, SplitWork
from lab.running.experiment import Cell, Experiment, Report, Result, Results, by_system, csv_rows
from lab.running.pictures import COLORS, grid, panels
from lab.running.study import Bench, Study
from lab.scoring import metric_of, scores, titled
from lab.systems.bitgrove import Bitgrove

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FULL = "full precision"
TOPS = (0, 1, 2, 4, 8)
_LATE = 0.75  # the trees after this share of the training are looked at by themselves


class SplitRefit(Experiment):
    name = "split_refit"
    summary = "exact sums of the top features before a split is taken"

    def plan(self, study: Study) -> list[Cell]:
        return [
            Cell(name, label, seed)
            for name in study.names(("higgs", "year"))
            for seed in range(study.seeds)
            for label in (FULL, *(_label(bits, k) for bits in study.bits for k in TOPS))
        ]

    def measure(self, cell: Cell, bench: Bench) -> Result:
        bits, n_top = _parts(cell.system)
        system, settings = Bitgrove(cell.system, bits), bench.settings(cell.dataset)
        rows = bench.study.wanted.max_rows
        prepared = bench.resplit(system, cell.dataset, cell.seed, rows)
        task = prepared.task
        params = system.parameters(settings, cell.seed, task)
        training = RefittedTraining(params, prepared.data, n_top)
        late = SplitWork()
        for tree in range(settings.n_trees):
            if tree == int(_LATE * settings.n_trees):
                late = training.work
            training.step()
        work = training.work
        n_features = task.X_train.shape[1]
        return {
            **scores(task, training.scores(task.X_test)),
            "regret": _regret(work, work.taken_gain),
            "late regret": _regret(work - late, (work - late).taken_gain),
            "late regret of few bits": _regret(work - late, (work - late).few_bits_gain),
            "extra sums": n_top * work.rows_searched / (n_features * work.rows_summed),
            "least extra sums": n_top * work.rows_split / (n_features * work.rows_summed),
        }

    def report(self, study: Study, bench: Bench, results: Results) -> Report:
        names = list(dict.fromkeys(cell.dataset for cell, _ in results))
        pages = [
            f"{study.trees} trees, {study.seeds} random splits. k: features summed exactly for a "
            "node. Better (+) or worse (-) than full precision and than the same bits without "
            "exact sums, percent of the test metric, paired, mean ± standard error; *: beyond two. "
            "Regret: share of the gain of all nodes that is lost by the splits taken; late: in the "
            "last quarter of the trees. Extra sums: rows times features summed exactly, over those "
            "summed in few bits; least: of the nodes alone that the finished tree splits."
        ]
        header = ["of full precision", "of plain", "regret", "late regret", "extra sums", "least"]
        found = [_Found(results, bench.task(name)) for name in names]
        for one in found:
            lines = [one.line(bits, k) for bits in study.bits for k in TOPS]
            title = titled(one.name, one.metric)
            table = markdown_table([title, "metric", *header], [one.full_line(), *lines])
            pages.append(f"{one.name}: {one.shape} before the splits\n\n{table}")
        size = (10.0, 3.2 * grid(len(names))[0])
        rows, page = csv_rows(results, "split"), "\n\n".join(pages)
        return Report(rows, page, lambda figure: _draw(figure, study.bits, found), size)


class _Found:
    """The runs of one dataset."""

    def __init__(self, results: Results, task: Task) -> None:
        self.name, self.metric, self.shape = task.name, metric_of(task), task.shape
        self._mine = [(cell, result) for cell, result in results if cell.dataset == task.name]

    def runs(self, label: str, key: str) -> list[float]:
        return by_system(self._mine, key)[self.name, label]

    def better(self, base: str, label: str) -> Paired:
        return paired_gain(self.metric, self.runs(base, self.metric), self.runs(label, self.metric))

    def full_line(self) -> list[str]:
        return [FULL, f"{statistics.fmean(self.runs(FULL, self.metric)):.5f}", *[""] * 6]

    def line(self, bits: int, k: int) -> list[str]:
        label = _label(bits, k)
        mean = {
            key: statistics.fmean(self.runs(label, key))
            for key in (self.metric, "regret", "late regret", "extra sums", "least extra sums")
        }
        return [
            label, f"{mean[self.metric]:.5f}", self.better(FULL, label).text(3),
            self.better(_label(bits, 0), label).text(3) if k else "",
            f"{100 * mean['regret']:.1f}%", f"{100 * mean['late regret']:.1f}%",
            *(f"{100 * mean[key]:.0f}%" if k else "" for key in ("extra sums", "least extra sums")),
        ]  # fmt: skip


def _label(bits: int, k: int) -> str:
    return f"{bits} bits, k = {k}" if k else f"{bits} bits"


def _parts(label: str) -> tuple[int | None, int]:
    """(bits, k) of a label."""
    if label == FULL:
        return None, 0
    bits, _, k = label.partition(", k = ")
    return int(bits.split()[0]), int(k or 0)


def _regret(work: SplitWork, gain: float) -> float:
    return 1.0 - gain / work.best_gain if work.best_gain > 0.0 else 0.0


def _draw(figure: Figure, all_bits: Sequence[int], found: Sequence[_Found]) -> None:
    axes = panels(figure, len(found))
    for ax, one in zip(axes, found, strict=False):
        for bits, color in zip(all_bits, COLORS, strict=False):
            gains = [one.better(FULL, _label(bits, k)) for k in TOPS]
            ax.errorbar(range(len(TOPS)), [g.mean for g in gains], [g.error for g in gains],
                        fmt="-o", ms=4, color=color, label=f"{bits} bits")  # fmt: skip
        ax.axhline(0.0, color="#555555", lw=0.8)
        ax.set_xticks(range(len(TOPS)), [str(k) for k in TOPS])
        ax.set_title(titled(one.name, one.metric), fontsize=9)
        ax.set(xlabel="features summed exactly", ylabel="better than full precision, %")
    axes[0].legend(frameon=False, fontsize=7)
