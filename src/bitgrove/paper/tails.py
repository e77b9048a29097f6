"""Beyond the paper: gradients with heavy tails, gradient_scale "max" against "robust".

Three tables: Pareto noise on a smooth signal (tested against the signal without noise), a
regression in which a few rows have huge weights, and any spec the user gives (nycflights13). The
metric is the test RMSE after the last tree: a model that must be stopped early is no use here.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bitgrove.cli.demo_data import make_regression_like
from bitgrove.paper import lineup
from bitgrove.paper.cells import Cell, Experiment, Report, Result, Results, failures, finished
from bitgrove.paper.machine import markdown_table
from bitgrove.paper.study import Bench, Study
from bitgrove.paper.systems import Bitgrove, Settings, System
from bitgrove.paper.task import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BITS = range(2, 9)
SCALES = ("max", "robust")
_ROWS = 50_000
_COLORS = {"max": "#D55E00", "robust": "#0072B2", "LightGBM": "#009E73"}


def pareto(n_rows: int) -> Task:
    """A smooth signal with Pareto noise (exponent 1.3, so no variance); tested without noise."""
    rng = np.random.default_rng(13)
    X = rng.normal(size=(n_rows + n_rows // 4, 10)).astype(np.float32)
    signal = 10.0 * np.sin(X[:, 0]) + 5.0 * X[:, 1] * X[:, 2] + 3.0 * np.abs(X[:, 3])
    tail = rng.pareto(1.3, len(X)) * rng.choice([-1.0, 1.0], len(X))
    y = np.where(np.arange(len(X)) < n_rows, signal + tail, signal).astype(np.float32)
    return Task("pareto", "regression", X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:],
                note="generated")  # fmt: skip


def weights(n_rows: int) -> Task:
    """The demo regression; one row in a thousand counts ten thousand times. Unweighted test."""
    X, y = make_regression_like(n_rows + n_rows // 4, 20, 13)
    weight = np.where(np.random.default_rng(14).random(n_rows) < 1e-3, 1e4, 1.0)
    return Task("weights", "regression", X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:],
                note="generated", weight_train=weight.astype(np.float32))  # fmt: skip


_GENERATED = {"pareto": pareto, "weights": weights}


class _TailBench(Bench):
    """A Bench that also knows the two generated tables."""

    def _load(self, name: str) -> Task:
        if name in _GENERATED:
            return _GENERATED[name](min(_ROWS, self.study.max_rows or _ROWS))
        return super()._load(name)

    def settings(self, name: str) -> Settings:
        if name not in _GENERATED:
            return super().settings(name)
        study = self.study
        chosen = Settings(n_trees=study.trees, n_threads=study.threads, num_leaves=31)
        return chosen if study.leaves is None else replace(chosen, num_leaves=study.leaves)


def plan(study: Study) -> list[Cell]:
    names = [*_GENERATED, *(spec.name for spec in study.specs)]
    cells = []
    for name in names:
        cells.append(Cell(name, lineup.FULL))
        for label in lineup.peers(study, tuple(BITS)):
            if label.startswith("LightGBM"):
                n_seeds = study.seeds if "-bit" in label else 1
                cells += [Cell(name, label, seed) for seed in range(n_seeds)]
        cells += [
            Cell(name, f"{bits}-bit {scale}", seed)
            for scale in SCALES for bits in BITS for seed in range(study.seeds)
        ]  # fmt: skip
    return cells


def _system(label: str) -> System:
    bits, _, scale = label.partition("-bit ")
    if scale in SCALES:
        return Bitgrove(label, int(bits), gradient_scale=scale)
    return lineup.system(label)


def measure(cell: Cell, bench: Bench) -> Result:
    system = _system(cell.system)
    prepared = bench.prepared(system, cell.dataset)
    curve = system.curve(prepared, bench.settings(cell.dataset), cell.seed)
    return {"rmse": curve[-1], "best rmse": min(curve)}


def report(study: Study, bench: Bench, results: Results) -> Report:
    values: dict[tuple[str, str], list[float]] = {}
    for cell, result in finished(results):
        values.setdefault((cell.dataset, cell.system), []).append(result["rmse"])
    names = list(dict.fromkeys(cell.dataset for cell, _ in results))
    pages = [
        f"Test RMSE after {study.trees} trees, mean ± standard deviation of {study.seeds} seeds."
    ]
    for name in names:
        full = [_text(values.get((name, label), [])) for label in (lineup.FULL, "LightGBM")]
        lines = [
            [str(bits), *(_text(values.get((name, label), [])) for label in _labels(bits))]
            for bits in BITS
        ]
        lines.append(["full", full[0], full[0], full[1]])
        header = ["bits", 'gradient_scale="max"', '"robust"', "LightGBM"]
        pages.append(f"{name}: {bench.task(name).shape}\n\n{markdown_table(header, lines)}")
    rows: list[dict[str, Any]] = [
        {"dataset": c.dataset, "system": c.system, "seed": c.seed, **r} for c, r in results
    ]
    page = "\n\n".join(pages) + failures(results)
    return Report(rows, page, lambda figure: _draw(figure, names, values), (4.0 * len(names), 3.6))


def _labels(bits: int) -> list[str]:
    return [*(f"{bits}-bit {scale}" for scale in SCALES), f"LightGBM {bits}-bit"]


def _text(values: list[float]) -> str:
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.3f}{spread}"


def _draw(figure: Figure, names: list[str], values: dict[tuple[str, str], list[float]]) -> None:
    axes = figure.subplots(1, len(names), squeeze=False)[0]
    for ax, name in zip(axes, names, strict=True):
        for kind, place in (("max", 0), ("robust", 1), ("LightGBM", 2)):
            found = [(b, values[name, _labels(b)[place]]) for b in BITS
                     if (name, _labels(b)[place]) in values]  # fmt: skip
            if found:
                bits, runs = zip(*found, strict=True)
                means = [statistics.fmean(run) for run in runs]
                spread = [statistics.stdev(run) if len(run) > 1 else 0.0 for run in runs]
                ax.errorbar(bits, means, spread, fmt="-o", ms=3, color=_COLORS[kind], label=kind)
        if (name, lineup.FULL) in values:
            ax.axhline(values[name, lineup.FULL][0], color="#555555", ls="--", lw=1,
                       label="full precision")  # fmt: skip
        ax.set(title=name, xlabel="gradient bits")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("test RMSE")
    axes[0].legend(frameon=False, fontsize=7)


TAILS = Experiment(
    "tails", "heavy tails: gradient_scale max against robust", plan, measure, report,
    bench=_TailBench,
)  # fmt: skip
