"""Beyond the paper: gradients with heavy tails, gradient_scale "max" against "robust".

Usually on two tables: Pareto noise on a smooth signal (tested against the signal without noise) and
a regression in which a few rows have huge weights; nycflights13 is a real one. The metric is the
test RMSE after the last tree: a model that must be stopped early is no use here.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from lab.reporting import deviation, markdown_table, mean_text
from lab.running.experiment import (
    Cell,
    Experiment,
    Report,
    Result,
    Results,
    by_system,
    csv_rows,
    failures,
    finished,
)
from lab.running.study import Bench, Study
from lab.systems import lineup
from lab.systems.base import System
from lab.systems.bitgrove import Bitgrove

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BITS = range(2, 9)
SCALES = ("max", "robust")
_COLORS = {"max": "#D55E00", "robust": "#0072B2", "LightGBM": "#009E73"}


class Tails(Experiment):
    name = "tails"
    summary = "heavy tails: gradient_scale max against robust"

    def plan(self, study: Study) -> list[Cell]:
        cells = []
        for name in study.names(("pareto", "weights")):
            cells.append(Cell(name, lineup.FULL))
            for label in lineup.peers(study.peers, BITS):
                if label.startswith("LightGBM"):
                    n_seeds = study.seeds if "-bit" in label else 1
                    cells += [Cell(name, label, seed) for seed in range(n_seeds)]
            cells += [
                Cell(name, f"{bits}-bit {scale}", seed)
                for scale in SCALES for bits in BITS for seed in range(study.seeds)
            ]  # fmt: skip
        return cells

    def measure(self, cell: Cell, bench: Bench) -> Result:
        system = _system(cell.system)
        prepared = bench.prepared(system, cell.dataset)
        curve = system.curve(prepared, bench.settings(cell.dataset), cell.seed)
        return {"rmse": curve[-1], "best rmse": min(curve)}

    def report(self, study: Study, bench: Bench, results: Results) -> Report:
        values = by_system(finished(results), "rmse")
        names = list(dict.fromkeys(cell.dataset for cell, _ in results))
        pages = [
            f"Test RMSE after {study.trees} trees, mean ± standard deviation of {study.seeds} "
            "seeds."
        ]
        for name in names:
            full = [
                mean_text(values.get((name, label), []), 3) for label in (lineup.FULL, "LightGBM")
            ]
            lines = [
                [
                    str(bits),
                    *(mean_text(values.get((name, label), []), 3) for label in _labels(bits)),
                ]
                for bits in BITS
            ]
            lines.append(["full", full[0], full[0], full[1]])
            header = ["bits", 'gradient_scale="max"', '"robust"', "LightGBM"]
            pages.append(f"{name}: {bench.task(name).shape}\n\n{markdown_table(header, lines)}")
        page = "\n\n".join(pages) + failures(results)
        size = (4.0 * len(names), 3.6)
        return Report(csv_rows(results), page, lambda figure: _draw(figure, names, values), size)


def _system(label: str) -> System:
    bits, _, scale = label.partition("-bit ")
    if scale in SCALES:
        return Bitgrove(label, int(bits), gradient_scale=scale)
    return lineup.labelled(label)


def _labels(bits: int) -> list[str]:
    return [*(f"{bits}-bit {scale}" for scale in SCALES), f"LightGBM {bits}-bit"]


def _draw(figure: Figure, names: list[str], values: dict[tuple[str, str], list[float]]) -> None:
    axes = figure.subplots(1, len(names), squeeze=False)[0]
    for ax, name in zip(axes, names, strict=True):
        for kind, place in (("max", 0), ("robust", 1), ("LightGBM", 2)):
            found = [(b, values[name, _labels(b)[place]]) for b in BITS
                     if (name, _labels(b)[place]) in values]  # fmt: skip
            if found:
                bits, runs = zip(*found, strict=True)
                means = [statistics.fmean(run) for run in runs]
                spread = [deviation(run) for run in runs]
                ax.errorbar(bits, means, spread, fmt="-o", ms=3, color=_COLORS[kind], label=kind)
        if (name, lineup.FULL) in values:
            ax.axhline(values[name, lineup.FULL][0], color="#555555", ls="--", lw=1,
                       label="full precision")  # fmt: skip
        ax.set(title=name, xlabel="gradient bits")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("test RMSE")
    axes[0].legend(frameon=False, fontsize=7)
