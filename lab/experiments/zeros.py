"""Beyond the paper: rows whose integers are zero stay out of the histograms. What is that worth?

Each cell trains once and keeps, per iteration, the share of zero rows and the milliseconds, with
them set apart (as the library does) or with all rows treated alike. Both give the same model.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from lab.internals import TreeByTree
from lab.reporting import markdown_table
from lab.running.experiment import Cell, Experiment, Report, Result, Results
from lab.running.pictures import COLORS, grid, panels
from lab.running.study import Bench, Study
from lab.systems.bitgrove import Bitgrove

if TYPE_CHECKING:
    from matplotlib.figure import Figure

APART, ALIKE = "zeros apart", "all rows alike"


class Zeros(Experiment):
    name = "zeros"
    summary = "rows that round to zero, by iteration, and what leaving them out saves"
    timed = True

    def plan(self, study: Study) -> list[Cell]:
        return [
            Cell(name, f"{bits}-bit, {way}", repeat)
            for name in study.names()
            for bits in study.bits
            for repeat in range(study.seeds)
            for way in (APART, ALIKE)
        ]

    def measure(self, cell: Cell, bench: Bench) -> Result:
        bits, _, way = cell.system.partition("-bit, ")
        system, settings = Bitgrove(cell.system, int(bits)), bench.settings(cell.dataset)
        prepared = bench.prepared(system, cell.dataset)
        training = TreeByTree(system.parameters(settings, 0, prepared.task), prepared.data)
        if way == ALIKE:
            training.treat_zero_rows_alike()
        ms = []
        for _ in range(settings.n_trees):
            start = time.perf_counter()
            training.step()
            ms.append(1e3 * (time.perf_counter() - start))
        return {"ms": ms, "zero share": training.zero_shares()}

    def report(self, study: Study, bench: Bench, results: Results) -> Report:
        fastest: dict[tuple[str, str], Any] = {}
        shares: dict[tuple[str, int], Any] = {}
        for cell, result in results:
            key = (cell.dataset, cell.system)
            ms = np.array(result["ms"])
            fastest[key] = np.minimum(fastest.get(key, ms), ms)
            shares[cell.dataset, int(cell.system[0])] = np.array(result["zero share"])
        lines, rows = [], []
        for (name, bits), share in shares.items():
            apart, alike = (fastest[name, f"{bits}-bit, {way}"] for way in (APART, ALIKE))
            quarter = max(1, len(share) // 4)
            last = slice(-quarter, None)
            lines.append([
                f"{name}, {bits}-bit", f"{100 * share[0]:.1f}%", f"{100 * share.mean():.1f}%",
                f"{100 * share[last].mean():.1f}%", f"{alike.sum() / apart.sum():.2f}",
                f"{alike[last].sum() / apart[last].sum():.2f}",
            ])  # fmt: skip
            rows += [
                {"dataset": name, "bits": bits, "tree": k + 1, "zero share": share[k],
                 "ms, zeros apart": apart[k], "ms, all alike": alike[k]}
                for k in range(len(share))
            ]  # fmt: skip
        header = ["", "zero rows, tree 1", "mean", "last quarter", "speedup", "last quarter"]
        page = (
            f"{study.threads} threads, {study.trees} trees; of {study.seeds} repeats the fastest "
            "of each iteration. Speedup: time with all rows alike over time with zero rows "
            f"apart.\n\n{markdown_table(header, lines)}"
        )
        names = list(dict.fromkeys(name for name, _ in shares))

        def draw(figure: Figure) -> None:
            for ax, name in zip(panels(figure, len(names)), names, strict=False):
                for k, bits in enumerate(bits for n, bits in shares if n == name):
                    share = shares[name, bits]
                    ax.plot(
                        np.arange(1, len(share) + 1), share, color=COLORS[k], label=f"{bits}-bit"
                    )
                ax.set_title(name, fontsize=9)
                ax.set(xlabel="iteration", ylabel="share of zero rows", ylim=(0, 1))
            figure.axes[0].legend(frameon=False, fontsize=7)

        return Report(rows, page, draw, (10.0, 2.6 * grid(len(names))[0]))
