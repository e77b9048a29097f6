"""Beyond the paper: bits chosen for each tree from the error measured on the tree before.

What `gradient_bits="auto"` could be. After each tree its gradients are rounded once with 2 to 8
bits, and the next tree gets the fewest bits whose gain error stays under a tolerance.
Compared with fixed bits: the best test metric, and the mean number of bits used.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bitgrove.distributed.comm import SoloComm
from bitgrove.paper import lineup
from bitgrove.paper.cells import Cell, Experiment, Report, Result, Results
from bitgrove.paper.machine import markdown_table
from bitgrove.paper.pictures import COLORS, grid, panels
from bitgrove.paper.study import Bench, Study
from bitgrove.paper.systems import Bitgrove
from bitgrove.paper.task import HIGHER_IS_BETTER, best, score
from bitgrove.params import resolve
from bitgrove.theory.gain_error import rounding_errors
from bitgrove.theory.leaves import leaf_of_rows
from bitgrove.training.booster import Booster

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TOLERANCES = (0.05, 0.2)
_CHOICES = range(2, 9)


def _label(tolerance: float) -> str:
    return f"auto, tolerance {tolerance}"


def plan(study: Study) -> list[Cell]:
    labels = [lineup.quantized(bits) for bits in study.bits] + [_label(t) for t in _TOLERANCES]
    cells = []
    for name in study.names(("higgs", "kitsune", "year", "letor")):
        cells.append(Cell(name, lineup.FULL))
        cells += [Cell(name, label, seed) for label in labels for seed in range(study.seeds)]
    return cells


def measure(cell: Cell, bench: Bench) -> Result:
    task, settings = bench.task(cell.dataset), bench.settings(cell.dataset)
    if not cell.system.startswith("auto"):
        system = lineup.system(cell.system, cell.dataset)
        curve = system.curve(bench.prepared(system, cell.dataset), settings, cell.seed)
        bits = [system.bits or 24] * len(curve)
    else:
        curve, bits = _train(cell, bench, float(cell.system.rsplit(" ", 1)[1]))
    value, iteration = best(curve, task.metric)
    return {"metric": task.metric, "best": value, "iteration": iteration, "bits": bits}


def _train(cell: Cell, bench: Bench, tolerance: float) -> tuple[list[float], list[int]]:
    """(test metric, bits) of each tree; the first tree has 4 bits."""
    task, settings = bench.task(cell.dataset), bench.settings(cell.dataset)
    system = Bitgrove(cell.system, 4)
    prepared = bench.prepared(system, cell.dataset)
    params = resolve({"objective": task.objective, **system.parameters(settings, cell.seed)})
    booster = Booster(params, prepared.data, SoloComm())
    test, curve, used = np.full(len(task.X_test), booster.base_score[0]), [], []
    for iteration in range(settings.n_trees):
        used.append(booster.params.gradient_bits or 24)
        booster.boost(iteration)
        test = test + _last_tree_of(booster, task.X_test)
        curve.append(score(task, test))
        booster.params = replace(booster.params, gradient_bits=_choose(booster, tolerance))
    return curve, used


def _last_tree_of(booster: Booster, X: np.ndarray) -> np.ndarray:
    model = booster.model(None)
    model.trees = model.trees[-1:]
    model.base_score = np.zeros(1)
    return model.predict_raw(X)


def _choose(booster: Booster, tolerance: float) -> int:
    """The fewest bits whose error on the last tree is at most the tolerance; 8 if none is."""
    tree, leaf = booster.trees[-1], leaf_of_rows(booster, booster.trees[-1])
    assert booster.gradients is not None
    part = booster.gradients.output(0)
    for bits in _CHOICES:
        params = replace(booster.params, gradient_bits=bits)
        errors = rounding_errors(tree, leaf, part.grad, part.hess, params, len(booster.trees))
        if errors.worst() <= tolerance:
            return bits
    return _CHOICES[-1]


def report(study: Study, bench: Bench, results: Results) -> Report:
    values: dict[tuple[str, str], list[float]] = {}
    bits: dict[tuple[str, str], list[float]] = {}
    for cell, r in results:
        values.setdefault((cell.dataset, cell.system), []).append(r["best"])
        bits.setdefault((cell.dataset, cell.system), []).append(statistics.fmean(r["bits"]))
    metrics = {cell.dataset: r["metric"] for cell, r in results}
    names, labels = list(metrics), list(dict.fromkeys(cell.system for cell, _ in results))
    arrows = {n: "↑" if HIGHER_IS_BETTER[metrics[n]] else "↓" for n in names}
    lines = [
        [label, *(f"{statistics.fmean(values[n, label]):.5f} ± {_spread(values[n, label]):.5f} "
                  f"({statistics.fmean(bits[n, label]):.1f} bits)" for n in names)]
        for label in labels
    ]  # fmt: skip
    header = ["", *(f"{n} {metrics[n]}{arrows[n]}" for n in names)]
    page = (
        f"Best test metric over {study.trees} trees, mean ± standard deviation of {study.seeds} "
        f"seeds, and the mean number of bits.\n\n{markdown_table(header, lines)}"
    )

    def draw(figure: Figure) -> None:
        for ax, name in zip(panels(figure, len(names)), names, strict=False):
            for k, t in enumerate(_TOLERANCES):
                runs = [r["bits"] for c, r in results if (c.dataset, c.system) == (name, _label(t))]
                ax.plot(np.mean(runs, axis=0), color=COLORS[k], label=_label(t))
            ax.set_title(name, fontsize=9)
            ax.set(xlabel="iteration", ylabel="bits", ylim=(1.5, 8.5))
        figure.axes[0].legend(frameon=False, fontsize=7)

    rows = [
        {"dataset": c.dataset, "system": c.system, "seed": c.seed, "best": r["best"],
         "iteration": r["iteration"], "mean bits": statistics.fmean(r["bits"])}
        for c, r in results
    ]  # fmt: skip
    return Report(rows, page, draw, (9.0, 2.6 * grid(len(names))[0]))


def _spread(values: list[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


AUTO = Experiment("auto", "bits chosen per tree against fixed bits", plan, measure, report)
