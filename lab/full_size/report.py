"""The pages and the picture of full_size: what its runs say together.

Receives finished runs, in whatever number --seconds allowed; returns a Report.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lab.reporting import markdown_table
from lab.running.experiment import Cell, Report, Result, Results, failures, finished
from lab.running.pictures import COLORS, grid, panels
from lab.scoring import HIGHER_IS_BETTER, titled
from lab.systems import lineup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Runs = dict[tuple[str, str], list[Result]]  # by set and system, one per seed
_WIDTHS = ("8", "16", "32", "64")
_HESSIANS = lineup.quantized(3)  # figure 8
_LISTS = ("drawn", "iterations", "valid curve", "test curve", "ms parts", "first ms", "zero share",
          "at", "hess", "hess 10%", "hess 90%", "widths", "seconds")  # fmt: skip


def paired_percent(runs: list[Result], full: Result, seed: int = 0) -> tuple[float, float, float]:
    """(mean, low, high): percent better (+) than full precision, with its 95% interval.

    The interval covers the test rows and the seeds: each of the bootstrap's draws of rows also
    draws seeds.
    """
    sign, mean = _sign(full), mean_percent(runs, full, "test")
    drawn, base = np.array([r["drawn"] for r in runs]), np.array(full["drawn"])
    chosen = np.random.default_rng(seed).integers(0, len(runs), drawn.shape)
    again = np.take_along_axis(drawn, chosen, axis=0).mean(axis=0)
    low, high = np.quantile(sign * (again / base - 1.0), (0.025, 0.975))
    return mean, float(low), float(high)


def _sign(full: Result) -> float:
    return 100.0 if HIGHER_IS_BETTER[full["metric"]] else -100.0


def mean_percent(runs: list[Result], full: Result, key: str) -> float:
    return _sign(full) * (float(np.mean([r[key] for r in runs])) / full[key] - 1.0)


def report(results: Results) -> Report:
    runs: Runs = {}
    for cell, result in finished(results):
        runs.setdefault((cell.dataset, cell.system), []).append(result)
    names = [name for name in dict.fromkeys(n for n, _ in runs) if (name, lineup.FULL) in runs]
    order = [lineup.FULL, *(lineup.quantized(b, v) for v in lineup.VARIANTS for b in range(2, 9))]
    found = dict.fromkeys(system for _, system in runs)
    labels = [*(x for x in order if x in found), *(x for x in found if x not in order)]
    pages = [
        _shapes(runs, names),
        "Test metric at the iteration that the validation part chose. First line: full precision "
        "(24-bit fixed point); below: percent better (+) or worse (-), and the 95% interval of the "
        "paired bootstrap over test rows (queries for ranking) and seeds.\n\n"
        + _table(runs, names, labels, _difference, _titles(runs, names)),
        "The same at the best iteration on the test rows, as the paper reports it.\n\n"
        + _table(runs, names, labels, best_of, _titles(runs, names)),
        "Milliseconds per tree: mean ± the standard deviation of ten parts of a run, and how many "
        "times faster than full precision.\n\n" + _table(runs, names, labels, _time, names),
        "Share of histograms built with sums of 8 / 16 / 32 / 64 bits.\n\n"
        + _table(runs, names, [x for x in labels if "SR refit" in x], _widths, names),
        "Rows that round to zero, mean of the trees.\n\n"
        + _table(runs, names, [x for x in labels if "SR refit" in x], _zeros, names),
        _hessian_page(runs, names),
    ]
    rows = [_row(cell, result) for cell, result in results]
    size = (10.0, 2.6 * grid(len(names))[0] + 0.4)
    page = "\n\n".join(pages) + failures(results)
    return Report(rows, page, partial(_draw, runs=runs, names=names), size)


def _row(cell: Cell, result: Result) -> dict[str, Any]:
    plain = {key: value for key, value in result.items() if key not in _LISTS}
    widths = {f"width {w}": result["widths"].get(w, 0) for w in _WIDTHS if "widths" in result}
    return {"dataset": cell.dataset, "system": cell.system, "seed": cell.seed, **plain, **widths}


def _titles(runs: Runs, names: list[str]) -> list[str]:
    return [titled(name, runs[name, lineup.FULL][0]["metric"]) for name in names]


Show = Callable[[list[Result], Result], str]


def _table(runs: Runs, names: list[str], labels: list[str], show: Show, header: list[str]) -> str:
    lines = [
        [label, *(show(runs[name, label], runs[name, lineup.FULL][0])
                  if (name, label) in runs else "" for name in names)]
        for label in labels
    ]  # fmt: skip
    return markdown_table(["", *header], lines)


def _difference(mine: list[Result], full: Result) -> str:
    if mine[0] is full:
        return f"{full['test']:.5f} at {full['chosen']}"
    mean, low, high = paired_percent(mine, full)
    return f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"


def best_of(mine: list[Result], full: Result) -> str:
    if mine[0] is full:
        return f"{full['best']:.5f} at {full['best iteration']}"
    spread = np.std([100 * r["best"] / full["best"] for r in mine], ddof=1) if mine[1:] else None
    return f"{mean_percent(mine, full, 'best'):+.3f}" + (
        "" if spread is None else f" ± {spread:.3f}"
    )


def _time(mine: list[Result], full: Result) -> str:
    ms, spread = np.mean([r["ms"] for r in mine]), np.mean([np.std(r["ms parts"]) for r in mine])
    return f"{ms:.2f} ± {spread:.2f} ({full['ms'] / ms:.2f}x)"


def _widths(mine: list[Result], full: Result) -> str:
    counts = np.sum([[r["widths"].get(w, 0) for w in _WIDTHS] for r in mine], axis=0)
    return " / ".join(f"{100 * share:.1f}" for share in counts / max(counts.sum(), 1))


def _zeros(mine: list[Result], full: Result) -> str:
    return f"{100 * np.mean([r['zero share'] for r in mine]):.1f}%"


def _shapes(runs: Runs, names: list[str]) -> str:
    lines = []
    for name in names:
        full = runs[name, lineup.FULL][0]
        seeds = max(len(found) for (n, _), found in runs.items() if n == name)
        lines.append(f"- {name}: {full['rows']} rows, {full['trees']} trees, up to {seeds} seeds")
    return "\n".join(lines)


def _hessian_page(runs: Runs, names: list[str]) -> str:
    lines = []
    for name in names:
        for r in runs.get((name, _HESSIANS), [])[:1]:
            for k in (0, len(r["at"]) // 2, len(r["at"]) - 1):
                values = (r["hess"][k], r["hess 10%"][k], r["hess 90%"][k])
                lines.append([f"{name}, tree {r['at'][k] + 1}", *(f"{v:.4f}" for v in values)])
    table = markdown_table(["", "mean", "10%", "90%"], lines)
    return f"Average hessian of the leaves of a tree, {_HESSIANS}.\n\n{table}"


def _draw(figure: Figure, runs: Runs, names: list[str]) -> None:
    """A panel per set: percent better than full precision by bits, a line per variant."""
    axes = panels(figure, len(names))
    for ax, name in zip(axes, names, strict=False):
        full = runs[name, lineup.FULL][0]
        for k, variant in enumerate(lineup.VARIANTS):
            bits = [b for b in range(2, 9) if (name, lineup.quantized(b, variant)) in runs]
            if not bits:
                continue
            found = [paired_percent(runs[name, lineup.quantized(b, variant)], full) for b in bits]
            mean, low, high = np.array(found).T
            places = np.array(bits) + 0.06 * (k - 1.5)
            errors = [np.maximum(mean - low, 0.0), np.maximum(high - mean, 0.0)]
            ax.errorbar(places, mean, errors, fmt="-o", ms=3, lw=1.1, color=COLORS[k],
                        label=variant)  # fmt: skip
        ax.axhline(0.0, color="#555555", lw=0.8)
        ax.set_title(f"{name} ({full['metric']})", fontsize=9)
        ax.set_xlabel("gradient bits", fontsize=8)
        ax.set_yscale("symlog", linthresh=0.1)
    axes[0].set_ylabel("percent better than full precision", fontsize=7)
    handles, texts = axes[0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside lower center", ncols=6, fontsize=8, frameon=False)
