"""Theorems 5.3 and B.3.1, checked: do measured gain errors stay under the bound, and how far?

A model of full precision is trained; at five of its trees the gradients are rounded many times, and
every split's gain error is compared with the theorem that fits the loss. Beside them: the gain that
is lost because rounding chooses other splits, and what is certified of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import bitgrove
from bitgrove.theory import (
    gain_error_bound,
    least_rows,
    measure_gain_errors,
    measure_split_regret,
    units,
)
from lab.reporting import markdown_table
from lab.running.experiment import Cell, Experiment, Report, Result, Results
from lab.running.pictures import COLORS
from lab.running.study import Bench, Study
from lab.systems import lineup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DRAWS = 100
_TREES = 5
_CHOICES = 5  # roundings that choose splits


class Bounds(Experiment):
    name = "bounds"
    summary = "the theorems' bounds beside measured gain errors"

    def plan(self, study: Study) -> list[Cell]:
        return [
            Cell(name, lineup.quantized(bits))
            for name in study.names(("higgs", "year"))
            for bits in study.bits
        ]

    def measure(self, cell: Cell, bench: Bench) -> Result:
        bits = int(cell.system.split("-")[0])
        full = lineup.ours(lineup.FULL)
        prepared = bench.prepared(full, cell.dataset)
        params = full.parameters(bench.settings(cell.dataset), cell.seed, prepared.task)
        model = bitgrove.train(params, prepared.data)
        steps = np.linspace(0, model.n_iterations - 1, min(_TREES, model.n_iterations))
        iterations = sorted({round(step) for step in steps.tolist()})
        found = measure_gain_errors(
            model, prepared.data, bits, n_draws=_DRAWS, iterations=iterations
        )
        regret = measure_split_regret(
            model, prepared.data, bits, n_draws=_CHOICES, iterations=iterations
        )
        order = np.argsort(-(found.n_left + found.n_right))[:: max(1, found.n_splits // 300)]
        finite = np.isfinite(found.bound)
        above = (found.error > found.bound).mean(axis=0)
        looseness = found.bound[finite] / np.maximum(found.typical[finite], 1e-300)
        return {
            "splits": found.n_splits,
            "bounded": float(finite.mean()),
            "below 1": float((found.bound < 1.0).mean()),
            "most above": float(above.max()),
            "all above": float((found.error > found.bound).mean()),
            "looseness": [float(q) for q in np.quantile(looseness, (0.1, 0.5, 0.9))]
            if finite.any() else [],
            "error": found.worst(),
            "regret": regret.regret(),
            "certified regret": regret.certified_regret(),
            "best chosen": float((regret.kept > 1.0 - 1e-9).mean()),
            "points": [
                [float(x) for x in (found.n_left[k] + found.n_right[k], found.typical[k],
                                    found.bound[k] if finite[k] else -1.0)] for k in order
            ],
        }  # fmt: skip

    def report(self, study: Study, bench: Bench, results: Results) -> Report:
        lines, rows = [], []
        for cell, r in results:
            loose = [f"{value:.0f}" for value in r["looseness"]] or ["", "", ""]
            lines.append([
                f"{cell.dataset}, {cell.system.split()[0]}", f"{r['splits']:,}",
                f"{100 * r['bounded']:.0f}%", f"{100 * r['below 1']:.0f}%",
                f"{100 * r['all above']:.2f}%", f"{100 * r['most above']:.0f}%", *loose,
                f"{r['error']:.4f}", f"{100 * r['best chosen']:.0f}%", f"{r['regret']:.4f}",
                f"{r['certified regret']:.4f}",
            ])  # fmt: skip
            rows.append({"dataset": cell.dataset, "bits": cell.system.split("-")[0],
                         **{k: v for k, v in r.items() if k not in ("points", "looseness")},
                         **dict(zip(("loose 10%", "loose 50%", "loose 90%"), r["looseness"],
                                    strict=False))})  # fmt: skip
        header = ["", "splits", "has a bound", "bound < 1", "roundings above it", "worst split",
                  "bound / error, 10%", "50%", "90%", "90% error", "best split chosen",
                  "split regret", "certified"]  # fmt: skip
        page = (
            f"{_worked_examples()}\n\n"
            f"Measured: {_DRAWS} roundings of the gradients of {_TREES} trees of a full-precision "
            'model, delta = 0.1, epsilon the largest each leaf allows. "bound / error": quantiles '
            "over splits of the bound divided by the error that 90% of the roundings stay under. "
            '"90% error": the relative gain error that 90% of the splits, weighted by gain, stay '
            f'under. "Split regret": the share of the gain of all nodes that is lost because '
            f'{_CHOICES} roundings choose other splits; "certified": what it is not above, '
            f"for all candidate splits at once.\n\n{markdown_table(header, lines)}"
        )
        names = list(dict.fromkeys(cell.dataset for cell, _ in results))
        return Report(
            rows, page, lambda figure: _draw(figure, names, results), (5.0 * len(names), 4.0)
        )


def _worked_examples() -> str:
    three, four = (gain_error_bound(b, 5e6, 5e6, gamma=0.2, epsilon=0.1, delta=0.1) for b in (3, 4))
    rows = least_rows(0.01, units(3, 1.0, 0.25)[1], delta=0.01)
    return (
        "The paper's worked examples: Theorem 5.3 with n = 10^7, gamma = 0.2, epsilon = max|g|/10, "
        f"delta = 0.1 gives {three:.4f} at 3 bits and {four:.4f} at 4 bits; Theorem B.3.1 needs "
        f"{rows:.0f} rows at an average hessian of 0.01, 3 bits, delta = 0.01."
    )


def _draw(figure: Figure, names: list[str], results: Results) -> None:
    """Errors (dots) and bounds (lines) against the rows of the leaf."""
    axes = figure.subplots(1, len(names), squeeze=False)[0]
    for ax, name in zip(axes, names, strict=True):
        mine = [(c, r) for c, r in results if c.dataset == name]
        for k, (cell, r) in enumerate(mine):
            n, error, bound = np.array(r["points"]).T
            label = cell.system.split()[0]
            ax.plot(n, np.maximum(error, 1e-6), ".", ms=3, color=COLORS[k], label=label)
            known = bound > 0
            ax.plot(n[known], bound[known], "x", ms=3, alpha=0.6, color=COLORS[k])
        ax.axhline(1.0, color="#555555", lw=0.8, ls="--")
        ax.set(xscale="log", yscale="log", xlabel="rows of the leaf", title=name)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("relative gain error\n(dots: measured, crosses: bound)")
    axes[0].legend(frameon=False, fontsize=8)
