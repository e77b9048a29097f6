"""Table 2: accuracy by bits, rounding and refit, beside the other libraries.

Each cell trains once and keeps the best value of the metric on the test set over all iterations, as
the paper does. Systems in which nothing is random run once, the others once per seed.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from functools import partial
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
from lab.running.pictures import grid, panels
from lab.running.study import Bench, Study
from lab.scoring import HIGHER_IS_BETTER, best, metric_of, titled
from lab.systems import lineup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLORS = {"SR refit": "#0072B2", "SR no refit": "#56B4E9", "RN refit": "#D55E00",
           "RN no refit": "#E69F00"}  # fmt: skip


def is_random(label: str, objective: str) -> bool:
    """Does the seed change the model? (No rows or features are sampled.)"""
    if label == "CatBoost":
        return objective == "lambdarank"  # YetiRank permutes
    return " SR " in label or (label.startswith("LightGBM") and "-bit" in label)


class Table2(Experiment):
    name = "table2"
    summary = "accuracy by bits, rounding and refit, beside other libraries"
    devices = ("cpu", "cuda")

    def plan(self, study: Study) -> list[Cell]:
        ours = [lineup.quantized(b, v) for v in lineup.VARIANTS for b in study.bits]
        cells = []
        for name in study.names():
            for label in (*lineup.peers(study.peers, study.bits), lineup.FULL, *ours):
                n_seeds = study.seeds if label in ours else study.peer_seeds or study.seeds
                if not is_random(label, study.entry(name).objective):
                    n_seeds = 1
                cells += [Cell(name, label, seed) for seed in range(n_seeds)]
        return cells

    def measure(self, cell: Cell, bench: Bench) -> Result:
        system, task = lineup.labelled(cell.system, cell.dataset), bench.task(cell.dataset)
        prepared, settings = bench.prepared(system, cell.dataset), bench.settings(cell.dataset)
        if system.package != "bitgrove":  # not every library has CUDA, and here accuracy counts
            settings = replace(settings, device="cpu")
        curve = system.curve(prepared, settings, cell.seed)
        value, iteration = best(curve, metric_of(task))
        return {
            "metric": metric_of(task), "best": value, "iteration": iteration, "rows": task.shape,
        }  # fmt: skip

    def report(self, study: Study, bench: Bench, results: Results) -> Report:
        good = finished(results)
        values, names = by_system(good, "best"), study.names()
        metrics = {cell.dataset: result["metric"] for cell, result in good}
        labels = list(dict.fromkeys(cell.system for cell, _ in good))
        header = ["", *(titled(name, metrics[name]) for name in names)]
        table = [
            [label, *(mean_text(values.get((name, label), [])) for name in names)]
            for label in labels
        ]
        differences = [
            [label, *(_difference(values, name, label, metrics[name]) for name in names)]
            for label in labels
            if label != lineup.FULL
        ]
        full = [f"{lineup.FULL}, full precision"]
        full += [mean_text(values.get((name, lineup.FULL), [])) for name in names]
        page = (
            f"Best value on the test set over {study.trees} iterations; mean ± standard deviation "
            f"over {_seeds(study)} where the seed matters.\n\n{_shapes(good)}\n\n"
            f"{markdown_table(header, table)}\n\n"
            "How much better (+) or worse (-) than bitgrove's full precision, in percent of the "
            f"metric:\n\n{markdown_table(header, [full, *differences])}{failures(results)}"
        )
        size = (10.0, 2.6 * grid(len(names))[0] + 0.4)
        picture = partial(draw, study=study, values=values, metrics=metrics)
        return Report(csv_rows(results), page, picture, size)


def _difference(
    values: dict[tuple[str, str], list[float]], name: str, label: str, metric: str
) -> str:
    found, full = values.get((name, label)), values.get((name, lineup.FULL))
    if not found or not full:
        return ""
    base = statistics.fmean(full)
    change = statistics.fmean(found) / base - 1.0
    spread = f" ± {100 * statistics.stdev(found) / base:.2f}" if len(set(found)) > 1 else ""
    return f"{100 * (change if HIGHER_IS_BETTER[metric] else -change):+.2f}{spread}"


def _seeds(study: Study) -> str:
    others = study.peer_seeds or study.seeds
    more = f" ({others} of the other libraries)" if others != study.seeds else ""
    return f"{study.seeds} seeds{more}"


def _shapes(results: Results) -> str:
    shapes = {cell.dataset: result["rows"] for cell, result in results}
    return "\n".join(f"- {name}: {shape}" for name, shape in shapes.items())


def draw(
    figure: Figure, study: Study, values: dict[tuple[str, str], list[float]],
    metrics: dict[str, str],
) -> None:  # fmt: skip
    """A panel per dataset: the metric against bits, one line per variant."""
    names = study.names()
    axes = panels(figure, len(names))
    for ax, name in zip(axes, names, strict=False):
        for variant, color in _COLORS.items():
            runs = [values.get((name, lineup.quantized(b, variant)), []) for b in study.bits]
            if not all(runs):
                continue
            means = [statistics.fmean(run) for run in runs]
            spread = [deviation(run) for run in runs]
            style = "-o" if variant.endswith(" refit") and "no" not in variant else "--o"
            ax.errorbar(study.bits, means, spread, fmt=style, color=color, ms=3, lw=1.2,
                        label=variant)  # fmt: skip
        for label, look in ((lineup.FULL, "-"), ("LightGBM", ":")):
            if (name, label) in values:
                ax.axhline(statistics.fmean(values[name, label]), color="#555555", ls=look, lw=1,
                           label=f"{label}, full precision")  # fmt: skip
        ax.set_title(f"{name} ({metrics[name]})", fontsize=9)
        ax.set_xticks(study.bits)
        ax.set_xlabel("gradient bits", fontsize=8)
        ax.ticklabel_format(axis="y", useOffset=False)
    handles, texts = axes[0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside lower center", ncols=6, fontsize=8, frameon=False)
