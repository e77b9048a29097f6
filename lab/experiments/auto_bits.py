"""Beyond the paper: bits chosen for each tree from the error measured on the tree before.

What `gradient_bits="auto"` could be. After each tree its gradients are rounded once with 2 to 8
bits, and the next tree gets the fewest bits whose gain error stays under a tolerance.
Compared with fixed bits: the best test metric, and the mean number of bits used.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import numpy as np

from lab.internals import TreeByTree
from lab.reporting import markdown_table, mean_text
from lab.running.experiment import Cell, Experiment, Report, Result, Results, by_system
from lab.running.pictures import COLORS, grid, panels
from lab.running.study import Bench, Study
from lab.scoring import best, metric_of, score, titled
from lab.systems import lineup
from lab.systems.bitgrove import Bitgrove

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TOLERANCES = (0.05, 0.2)
_CHOICES = range(2, 9)
_FULL_BITS = 24


class AutoBits(Experiment):
    name = "auto"
    summary = "bits chosen per tree against fixed bits"

    def plan(self, study: Study) -> list[Cell]:
        labels = [lineup.quantized(bits) for bits in study.bits] + [_label(t) for t in _TOLERANCES]
        cells = []
        for name in study.names(("higgs", "kitsune", "year", "letor")):
            cells.append(Cell(name, lineup.FULL))
            cells += [Cell(name, label, seed) for label in labels for seed in range(study.seeds)]
        return cells

    def measure(self, cell: Cell, bench: Bench) -> Result:
        metric, settings = metric_of(bench.task(cell.dataset)), bench.settings(cell.dataset)
        if not cell.system.startswith("auto"):
            system = lineup.ours(cell.system)
            curve = system.curve(bench.prepared(system, cell.dataset), settings, cell.seed)
            bits = [system.bits or _FULL_BITS] * len(curve)
        else:
            curve, bits = _train(cell, bench, float(cell.system.rsplit(" ", 1)[1]))
        value, iteration = best(curve, metric)
        return {"metric": metric, "best": value, "iteration": iteration, "bits": bits}

    def report(self, study: Study, bench: Bench, results: Results) -> Report:
        values, bits = by_system(results, "best"), by_system(results, "bits")
        metrics = {cell.dataset: r["metric"] for cell, r in results}
        names, labels = list(metrics), list(dict.fromkeys(cell.system for cell, _ in results))
        lines = [
            [label, *(f"{mean_text(values[n, label])} ({np.mean(bits[n, label]):.1f} bits)"
                      for n in names)]
            for label in labels
        ]  # fmt: skip
        header = ["", *(titled(name, metric) for name, metric in metrics.items())]
        page = (
            f"Best test metric over {study.trees} trees, mean ± standard deviation of "
            f"{study.seeds} seeds, and the mean number of bits.\n\n{markdown_table(header, lines)}"
        )

        def draw(figure: Figure) -> None:
            for ax, name in zip(panels(figure, len(names)), names, strict=False):
                for k, t in enumerate(_TOLERANCES):
                    runs = np.mean(bits[name, _label(t)], axis=0)
                    ax.plot(runs, color=COLORS[k], label=_label(t))
                ax.set_title(name, fontsize=9)
                ax.set(xlabel="iteration", ylabel="bits", ylim=(1.5, 8.5))
            figure.axes[0].legend(frameon=False, fontsize=7)

        rows = [
            {"dataset": c.dataset, "system": c.system, "seed": c.seed, "best": r["best"],
             "iteration": r["iteration"], "mean bits": statistics.fmean(r["bits"])}
            for c, r in results
        ]  # fmt: skip
        return Report(rows, page, draw, (9.0, 2.6 * grid(len(names))[0]))


def _label(tolerance: float) -> str:
    return f"auto, tolerance {tolerance}"


def _train(cell: Cell, bench: Bench, tolerance: float) -> tuple[list[float], list[int]]:
    """(test metric, bits) of each tree; the first tree has 4 bits."""
    task, settings = bench.task(cell.dataset), bench.settings(cell.dataset)
    system = Bitgrove(cell.system, 4)
    prepared = bench.prepared(system, cell.dataset)
    training = TreeByTree(system.parameters(settings, cell.seed, task), prepared.data)
    test, curve, used = np.full(len(task.X_test), training.base_score), [], []
    for _ in range(settings.n_trees):
        used.append(training.bits or _FULL_BITS)
        training.step()
        test = test + training.last_tree_scores(task.X_test)
        curve.append(score(task, test))
        training.bits = training.fewest_bits(tolerance, _CHOICES)
    return curve, used
