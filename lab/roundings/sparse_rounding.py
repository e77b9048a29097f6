"""Beyond the paper: fewer rows in the histograms by rounding more of them to zero. Does it pay?

Sparse rounding (one noise for gradient and hessian, and coarser units) beside plain bits, sampling
of rows by chance, by gradient (GOSS) and by minimal variance (MVS), all grown by the real core on
the same random splits. What counts is accuracy against the rows summed and the seconds.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.datasets.task import Task
from lab.experiments.paired.gains import paired_gain
from lab.reporting import markdown_table
from lab.roundings.internals import RoundingRule, RuledTraining
from lab.roundings.samplers import Goss, Mvs, OneNoise
from lab.running.experiment import Cell, Experiment, Report, Result, Results, by_system, csv_rows
from lab.running.pictures import COLORS, grid, panels
from lab.running.study import Bench, Study
from lab.scoring import metric_of, scores, titled
from lab.systems.bitgrove import Bitgrove

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FULL, BASE = "full precision", "4 bits"


class Way(NamedTuple):
    """bits and parameters of the library, and a rule that stands in for its rounding."""

    kind: str
    bits: int | None
    rule: RoundingRule | None = None
    subsample: float = 1.0


WAYS = {
    FULL: Way("plain", None),
    **{f"{bits} bits": Way("plain", bits) for bits in (2, 3, 4, 5)},
    "2 bits, one noise": Way("sparse", 2, OneNoise()),
    "2 bits, hess 1": Way("sparse", 2, OneNoise(1.0, 1.0)),
    "2 bits, hess 1/2": Way("sparse", 2, OneNoise(1.0, 0.5)),
    "2 bits, hess 1/4": Way("sparse", 2, OneNoise(1.0, 0.25)),
    "2 bits / 2, hess 1/4": Way("sparse", 2, OneNoise(2.0, 0.25)),
    "2 bits / 2, hess 1/4, least 8": Way("sparse", 2, OneNoise(2.0, 0.25, 8.0)),
    "3 bits, hess 1/2": Way("sparse", 3, OneNoise(1.0, 0.5)),
    "3 bits / 2, hess 1/2": Way("sparse", 3, OneNoise(2.0, 0.5)),
    "4 bits, hess 1": Way("sparse", 4, OneNoise(1.0, 1.0)),
    "4 bits, hess 1/2": Way("sparse", 4, OneNoise(1.0, 0.5)),
    "subsample 0.5": Way("subsample", 4, subsample=0.5),
    "subsample 0.25": Way("subsample", 4, subsample=0.25),
    "GOSS 0.3 + 0.2": Way("GOSS", 4, Goss(0.3, 0.2)),
    "GOSS 0.2 + 0.1": Way("GOSS", 4, Goss(0.2, 0.1)),
    "MVS 0.5": Way("MVS", 4, Mvs(0.5)),
    "MVS 0.25": Way("MVS", 4, Mvs(0.25)),
}


def _labels(study: Study) -> list[str]:
    """The ways of these bits; those of four, the library's default, are always among them."""
    return [label for label, way in WAYS.items() if way.bits in (None, 4, *study.bits)]


class SparseRounding(Experiment):
    name = "sparse_rounding"
    summary = "rounding more rows to zero, against bits and against sampling rows"
    timed = True

    def plan(self, study: Study) -> list[Cell]:
        return [
            Cell(name, label, seed)
            for name in study.names(("higgs",))
            for seed in range(study.seeds)
            for label in _labels(study)
        ]

    def measure(self, cell: Cell, bench: Bench) -> Result:
        way, settings = WAYS[cell.system], bench.settings(cell.dataset)
        more: dict[str, Any] = {"subsample": way.subsample, "subsample_freq": 1}
        system = Bitgrove(cell.system, way.bits, **more)
        rows = bench.study.wanted.max_rows
        prepared = bench.resplit(system, cell.dataset, cell.seed, rows)
        params = system.parameters(settings, cell.seed, prepared.task)
        training = RuledTraining(params, prepared.data, way.rule)
        for _ in range(settings.n_trees):
            training.step()
        return {
            **scores(prepared.task, training.scores(prepared.task.X_test)),
            **training.work()._asdict(),
        }

    def report(self, study: Study, bench: Bench, results: Results) -> Report:
        names = list(dict.fromkeys(cell.dataset for cell, _ in results))
        labels = _labels(study)
        found = {name: _Found(results, bench.task(name), labels) for name in names}
        pages = [
            f"{study.trees} trees, {study.seeds} random splits. Zero: rows that no histogram sees. "
            f"Rows: summed into histograms, seconds: of this process without rounding, both over "
            f"those of {BASE} on the same split. Small leaves: of fewer rows than "
            "min_child_samples. Better (+) or worse (-), percent of the metric, paired, mean ± "
            "standard error; *: beyond two."
        ]
        header = ["", "zero", "rows", "seconds", "small leaves", "metric", f"against {BASE}"]
        for name, one in found.items():
            lines = [one.line(label) for label in labels]
            title = titled(name, one.metric)
            table = markdown_table([title, *header[1:]], lines)
            pages.append(f"{name}: {one.shape} before the splits\n\n{table}")
        size = (10.0, 3.2 * grid(len(names))[0])
        return Report(
            csv_rows(results, "split"), "\n\n".join(pages), lambda f: _draw(f, found), size
        )


class _Found:
    """The runs of one dataset."""

    def __init__(self, results: Results, task: Task, labels: list[str]) -> None:
        self.metric, self.shape, name = metric_of(task), task.shape, task.name
        mine = [(cell, result) for cell, result in results if cell.dataset == name]
        keys = (self.metric, "zero_share", "rows_summed", "seconds", "small_leaves")
        columns = {key: by_system(mine, key) for key in keys}
        self.values = {
            label: {key: columns[key][name, label] for key in keys}
            for label in labels
        }  # fmt: skip

    def ratio(self, label: str, key: str) -> float:
        """Mean over the splits of a run's cost over that of the base."""
        pairs = zip(self.values[label][key], self.values[BASE][key], strict=True)
        return statistics.fmean(a / b for a, b in pairs)

    def better(self, label: str) -> Any:
        runs = self.values
        return paired_gain(self.metric, runs[BASE][self.metric], runs[label][self.metric])

    def line(self, label: str) -> list[str]:
        of = {key: statistics.fmean(values) for key, values in self.values[label].items()}
        return [
            label, f"{100 * of['zero_share']:.0f}%", f"{self.ratio(label, 'rows_summed'):.2f}",
            f"{self.ratio(label, 'seconds'):.2f}", f"{100 * of['small_leaves']:.1f}%",
            f"{of[self.metric]:.5f}", "" if label == BASE else self.better(label).text(3),
        ]  # fmt: skip


def _draw(figure: Figure, found: dict[str, _Found]) -> None:
    kinds = list(dict.fromkeys(way.kind for way in WAYS.values()))
    axes = panels(figure, len(found))
    for ax, (name, one) in zip(axes, found.items(), strict=False):
        for kind, color in zip(kinds, COLORS, strict=False):
            mine = [label for label in one.values if WAYS[label].kind == kind and label != FULL]
            rows = [one.ratio(label, "rows_summed") for label in mine]
            gains = [one.better(label) for label in mine]
            ax.errorbar(rows, [g.mean for g in gains], [g.error for g in gains], fmt="o", ms=4,
                        color=color, label=kind)  # fmt: skip
        ax.axhline(0.0, color="#555555", lw=0.8)
        ax.set_title(titled(name, one.metric), fontsize=9)
        ax.set(xlabel=f"rows summed, of {BASE}", ylabel=f"better than {BASE}, %")
    axes[0].legend(frameon=False, fontsize=7)
