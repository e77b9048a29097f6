"""Figures 5, 7 and 8: what happens inside quantized training.

Each cell trains one model with a callback that records; nothing is timed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import bitgrove
from bitgrove.theory import LeafRecorder
from lab.reporting import markdown_table
from lab.running.experiment import Cell, Experiment, Report, Result, Results
from lab.running.pictures import COLORS, grid, panels
from lab.running.study import Bench, Study
from lab.systems import lineup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTHS = ("8", "16", "32", "64")
_PERCENTS = (1, 5, 10, 25, 50, 75, 90, 95, 99)
_RECORDED_BITS = 3  # figures 7 and 8 of the paper
_FIGURE5_BITS = 2


def _train(cell: Cell, bench: Bench, recorder: LeafRecorder | None = None) -> bitgrove.Model:
    system = lineup.ours(cell.system)
    prepared = bench.prepared(system, cell.dataset)
    params = system.parameters(bench.settings(cell.dataset), cell.seed, prepared.task)
    return bitgrove.train(params, prepared.data, callbacks=[recorder] if recorder else None)


class Fig5(Experiment):
    name = "fig5"
    summary = "frequency of accumulator widths"

    def plan(self, study: Study) -> list[Cell]:
        bits = dict.fromkeys((_FIGURE5_BITS, *study.bits))
        return [Cell(name, lineup.quantized(b)) for name in study.names() for b in bits]

    def measure(self, cell: Cell, bench: Bench) -> Result:
        model = _train(cell, bench)
        assert model.info is not None
        totals = _whole_widths(model, int(cell.system.split("-")[0]))
        return {
            **{width: model.info.accumulator_widths.get(width, 0) for width in _WIDTHS},
            **{f"whole {width}": n for width, n in totals.items()},
        }

    def report(self, study: Study, bench: Bench, results: Results) -> Report:
        lines, shares = [], {}
        for cell, result in results:
            counts = np.array([result[width] for width in _WIDTHS], dtype=np.float64)
            share = counts / max(counts.sum(), 1.0)
            whole = np.array([result[f"whole {width}"] for width in _WIDTHS], dtype=np.float64)
            of_whole = shares[cell.dataset, cell.system] = whole / max(whole.sum(), 1.0)
            lines.append([f"{cell.dataset}, {cell.system}", *(f"{100 * s:.1f}%" for s in of_whole),
                          *(f"{100 * s:.1f}%" for s in share[:2]),
                          f"{counts.sum():.0f}"])  # fmt: skip
        header = ["", *(f"{width}-bit" for width in _WIDTHS), "blocks: 8-bit", "16-bit",
                  "histograms"]  # fmt: skip
        page = (
            "Of the histograms that were built (the larger child of each split is a difference and "
            "is not built): the narrowest width that holds the sums of all its rows, as in the "
            "paper's figure, and the width of the accumulators that blocks of at most 8,192 rows "
            f"are added up in, before they go into the whole.\n\n{markdown_table(header, lines)}"
        )
        label = lineup.quantized(_FIGURE5_BITS)

        def draw(figure: Figure) -> None:
            ax, bottom = figure.subplots(), np.zeros(len(study.names()))
            for k, width in enumerate(_WIDTHS):
                part = np.array([shares[name, label][k] for name in study.names()])
                ax.bar(study.names(), part, bottom=bottom, label=f"{width}-bit", color=COLORS[k])
                bottom += part
            ax.set_ylabel(f"share of histograms, {_FIGURE5_BITS}-bit gradients")
            ax.spines[["top", "right"]].set_visible(False)
            figure.legend(loc="outside right upper", frameon=False)

        rows = [{"dataset": c.dataset, "system": c.system, **r} for c, r in results]
        return Report(rows, page, draw, (9.0, 3.6))


def _whole_widths(model: bitgrove.Model, bits: int) -> dict[str, int]:
    """How many histograms need each width for the sums of all their rows, zero ones included."""
    constant = model.objective == "regression"
    grad, hess = 2 ** (bits - 1) - 1, 1 if constant else 2**bits - 2
    most = {w: min((2 ** (int(w) - 1) - 1) // grad, (2 ** min(int(w), 63) - 1) // hess)
            for w in _WIDTHS}  # fmt: skip
    found = dict.fromkeys(_WIDTHS, 0)
    for tree in model.trees:
        of_nodes = np.concatenate([tree.leaf_rows, tree.split_rows])
        sides = [of_nodes[np.where(side < 0, ~side, side + tree.n_leaves)]
                 for side in (tree.left, tree.right)]  # fmt: skip
        # The root, then the smaller child of each split.
        rows = (tree.split_rows[:1], np.minimum(*sides))
        for n in np.concatenate(rows).tolist():
            found[next(w for w in _WIDTHS if n <= most[w])] += 1
    return found


class Fig7(Experiment):
    name = "fig7"
    summary = "cumulative distribution of gamma per leaf"

    def plan(self, study: Study) -> list[Cell]:
        return [Cell(n, lineup.quantized(_RECORDED_BITS)) for n in study.names(("year",))]

    def measure(self, cell: Cell, bench: Bench) -> Result:
        recorder = LeafRecorder()
        _train(cell, bench, recorder)
        gammas = np.concatenate(recorder.gammas)
        return {
            "leaves": len(gammas),
            "above 0.05": float((gammas > 0.05).mean()),
            "quantiles": np.quantile(gammas, np.linspace(0, 1, 201)).tolist(),
        }

    def report(self, study: Study, bench: Bench, results: Results) -> Report:
        lines = [
            [c.dataset, f"{r['leaves']:,}", f"{100 * r['above 0.05']:.1f}%",
             *(f"{np.interp(p, np.linspace(0, 100, 201), r['quantiles']):.3f}" for p in _PERCENTS)]
            for c, r in results
        ]  # fmt: skip
        header = ["", "leaves split", "gamma > 0.05", *(f"{p}%" for p in _PERCENTS)]
        page = (
            f"Quantiles of gamma over all leaves that were split, {_RECORDED_BITS}-bit gradients, "
            f"{study.trees} trees. The paper has more than 75% above 0.05 on Year.\n\n"
            f"{markdown_table(header, lines)}"
        )

        def draw(figure: Figure) -> None:
            ax = figure.subplots()
            for k, (cell, result) in enumerate(results):
                ax.plot(result["quantiles"], np.linspace(0, 1, 201), label=cell.dataset,
                        color=COLORS[k % len(COLORS)])  # fmt: skip
            ax.axvline(0.05, color="#555555", ls="--", lw=1)
            ax.set(xlabel="gamma of the leaf", ylabel="share of leaves", xlim=(0, 0.5), ylim=(0, 1))
            ax.spines[["top", "right"]].set_visible(False)
            ax.legend(frameon=False)

        rows = [
            {"dataset": c.dataset, "share": round(k / 200, 3), "gamma": value}
            for c, r in results
            for k, value in enumerate(r["quantiles"])
        ]
        return Report(rows, page, draw, (6.0, 3.8))


class Fig8(Experiment):
    name = "fig8"
    summary = "average hessian of the leaves by iteration"

    def plan(self, study: Study) -> list[Cell]:
        names = study.names(("higgs", "criteo", "yahoo", "letor"))
        return [Cell(n, lineup.quantized(_RECORDED_BITS)) for n in names]

    def measure(self, cell: Cell, bench: Bench) -> Result:
        recorder = LeafRecorder()
        _train(cell, bench, recorder)
        low, high = (
            [float(np.quantile(leaves, share)) for leaves in recorder.mean_hess]
            for share in (0.1, 0.9)
        )
        return {"mean": [float(h.mean()) for h in recorder.mean_hess], "low": low, "high": high}

    def report(self, study: Study, bench: Bench, results: Results) -> Report:
        lines = []
        for cell, r in results:
            for at in (0, len(r["mean"]) // 2, len(r["mean"]) - 1):
                lines.append([f"{cell.dataset}, tree {at + 1}", f"{r['mean'][at]:.4f}",
                              f"{r['low'][at]:.4f}", f"{r['high'][at]:.4f}"])  # fmt: skip
        page = (
            f"Average hessian of the leaves of a tree, {_RECORDED_BITS}-bit gradients: mean over "
            "the leaves, and their 10% and 90% quantiles.\n\n"
            f"{markdown_table(['', 'mean', '10%', '90%'], lines)}"
        )

        def draw(figure: Figure) -> None:
            for ax, (cell, r) in zip(panels(figure, len(results)), results, strict=False):
                trees = np.arange(1, len(r["mean"]) + 1)
                ax.fill_between(trees, r["low"], r["high"], alpha=0.25, color=COLORS[0], lw=0)
                ax.plot(trees, r["mean"], color=COLORS[0])
                ax.set_title(cell.dataset, fontsize=9)
                ax.set(xlabel="iteration", ylabel="average hessian", ylim=(0, None))

        rows = [
            {"dataset": c.dataset, "tree": k + 1, **{name: r[name][k] for name in r}}
            for c, r in results
            for k in range(len(r["mean"]))
        ]
        return Report(rows, page, draw, (9.0, 2.6 * grid(len(results))[0]))
