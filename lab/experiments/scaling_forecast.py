"""What the fitted model says: how well it fits, and about the paper's clusters.

Owns the pages and the picture that Figure 4 shows besides its own counts. Receives the points of
scaling_model; returns tables and draws. Everything beyond the measured ranks is a forecast and
drawn dashed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lab.experiments.scaling_model import (
    FLOAT_BYTES,
    Coefficients,
    Link,
    Point,
    fit,
    left_out_errors,
    measured,
    relative_errors,
    spread,
)
from lab.reporting import markdown_table
from lab.running.pictures import COLORS, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MACHINES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
PAPER_LINK = Link(7.5e9 / 8, 0.2e-3)
SLOW_LINK = Link(1e9 / 8, 0.2e-3)
SPEEDUP_OF_16_CORES = 9.5  # docs/performance.md, "Threads"


@dataclass(frozen=True)
class Target:
    """One of the paper's two distributed trainings."""

    title: str
    shape: str
    rows: int
    features: int


TARGETS = (
    Target("Epsilon-8M", "epsilon", 8_000_000, 2000),
    Target("Criteo", "criteo", 41_256_555, 67),
)
Times = list[tuple[float, float]]  # (compute, communication) by number of machines


def forecast(
    points: Sequence[Point], target: Target, bits: int | None, link: Link, *, floats: bool = False
) -> Times:
    """Seconds per tree on MACHINES of 16 cores; floats: with two float64 per bin in messages."""
    coefficients = fit([p for p in points if not p.check])
    # The tree with the most leaves and rows that was measured alone is the pattern.
    pattern = max(
        (p for p in points if p.shape == target.shape and p.bits == bits and p.load.ranks == 1),
        key=lambda p: (p.load.histograms, p.load.rows),
    ).load
    times = []
    for n in MACHINES:
        load = coefficients.with_bytes(spread(pattern, n, target.rows, target.features), bits)
        if floats:
            sent = load.histograms * load.bins * (n - 1) / n
            load = replace(load, bytes=FLOAT_BYTES * sent)
        compute = coefficients.compute_seconds(load, bits) / SPEEDUP_OF_16_CORES
        times.append((compute, coefficients.comm_seconds(load, link)))
    return times


# ---------------------------------------------------------------- pages


def page() -> str:
    origin, points = measured()
    fitted = [point for point in points if not point.check]
    coefficients = fit(fitted)
    return "\n\n".join(
        [
            f"Model, fitted to {len(fitted)} measured points ({origin}):\n\n"
            f"{_coefficient_table(coefficients)}",
            f"Errors of the model, predicted over measured less 1:\n\n{_errors(points)}",
            "Forecast, not measurement: seconds per tree on machines of 16 cores, 255 leaves, of "
            f"these communication in brackets.\n\n{_forecasts(points)}",
        ]
    )


def _coefficient_table(coefficients: Coefficients) -> str:
    few, full = (coefficients.compute.get(kind) for kind in (True, False))
    names = ["per update", "per row", "per bin searched", "per bin exchanged"]
    rows = [
        [f"compute, {name}", *("" if c is None else f"{1e9 * c[i]:.3g} ns" for c in (few, full))]
        for i, name in enumerate(names)
    ]
    units = [("per step", 1e6, "us"), ("per message", 1e6, "us"), ("per byte", 1e9, "ns"),
             ("per byte through the switch", 1e9, "ns"),
             ("round trips per step", 1.0, ""), ("times bytes / bandwidth", 1.0, "")]  # fmt: skip
    for (name, scale, unit), value in zip(units, coefficients.comm, strict=True):
        text = f"{scale * value:.3g} {unit}".strip()
        rows.append([f"communication, {name}", text, text])
    return markdown_table(["", "few bits", "full precision"], rows)


def _errors(points: Sequence[Point]) -> str:
    """Median and largest absolute error: of the fit, and of points it has not seen."""
    fitted = [point for point in points if not point.check]
    lines = [("all fitted points", relative_errors(fit(fitted), fitted))]
    for name, group in (("links", _link_name), ("ranks", _rank_name), ("shape", lambda p: p.shape)):
        for key, errors in left_out_errors(fitted, group).items():
            lines.append((f"{name} left out: {key}", errors))
    checks = [point for point in points if point.check]
    lines.append(("other sizes and ranks, never fitted", relative_errors(fit(fitted), checks)))
    header = ["median, largest", "compute", "communication", "bytes"]
    return markdown_table(
        header,
        [[name, *map(_percent, (e["compute"], e["comm"], e["bytes"]))] for name, e in lines],
    )


def _percent(errors: Any) -> str:
    if len(errors) == 0:
        return ""
    return f"{100 * np.median(np.abs(errors)):.0f}%, {100 * np.abs(errors).max():.0f}%"


def _link_name(point: Point) -> str:
    gbit = point.link.bandwidth * 8e-9
    return "no limit" if np.isinf(gbit) else f"{gbit:g} Gbit/s"


def _rank_name(point: Point) -> str:
    return f"{point.load.ranks}"


def _forecasts(points: Sequence[Point]) -> str:
    rows = []
    for target in TARGETS:
        for name, bits, link, floats in (
            ("2 bits, 7.5 Gbit/s", 2, PAPER_LINK, False),
            ("2 bits as two float64 per bin", 2, PAPER_LINK, True),
            ("full precision", None, PAPER_LINK, False),
            ("2 bits, 1 Gbit/s", 2, SLOW_LINK, False),
        ):
            times = forecast(points, target, bits, link, floats=floats)
            cells = [f"{c + t:.2f} ({t:.2f})" for c, t in times]
            rows.append([f"{target.title}, {name}", *cells])
    return markdown_table(["", *(str(n) for n in MACHINES)], rows)


# ---------------------------------------------------------------- picture


def draw(figure: Figure) -> None:
    """Above: communication as measured, and the model of it; below: the paper's clusters."""
    _, points = measured()
    axes = panels(figure, 4)
    for ax, target in zip(axes[:2], TARGETS, strict=True):
        _draw_measured(ax, points, target)
    for ax, target in zip(axes[2:], TARGETS, strict=True):
        _draw_forecast(ax, points, target)
    for ax in axes:
        ax.set(xscale="log", yscale="log")
        ax.set_xticks(MACHINES, [str(n) for n in MACHINES])
        ax.minorticks_off()
        ax.legend(frameon=False, fontsize=7)


def _draw_measured(ax: Any, points: Sequence[Point], target: Target) -> None:
    coefficients = fit([point for point in points if not point.check])
    own = [p for p in points if p.shape == target.shape and p.load.ranks > 1 and not p.check]
    lines = dict.fromkeys((_link_name(p), p.bits) for p in own if p.bits in (2, None))
    for i, (link, bits) in enumerate(lines):
        line = [p for p in own if (_link_name(p), p.bits) == (link, bits)]
        color, full = COLORS[i // 2], bits is None
        ranks = [p.load.ranks for p in line]
        ax.plot(ranks, [1e3 * p.comm for p in line], "s" if full else "o", color=color, ms=5,
                mfc="none" if full else color, label=f"{link}, {bits or 'full'}" +
                ("" if full else " bits"))  # fmt: skip
        model = [1e3 * coefficients.comm_seconds(p.load, p.link) for p in line]
        ax.plot(ranks, model, "-", color=color, lw=1)
        first = line[0]
        ahead = [
            coefficients.with_bytes(
                spread(first.load, n, first.load.rows, first.load.features), bits
            )
            for n in MACHINES[1:]
        ]
        ax.plot(MACHINES[1:], [1e3 * coefficients.comm_seconds(load, first.link) for load in ahead],
                "--", color=color, lw=0.7)  # fmt: skip
    rows = own[0].load.rows
    ax.set_title(f"{target.shape}-like, {rows:,.0f} rows: points measured, 4 ranks on 2 cores",
                 fontsize=8)  # fmt: skip
    ax.set_ylabel("communication, ms per tree", fontsize=8)
    ax.set_xlabel("ranks (dashed: the model, each on cores of its own)", fontsize=8)


def _draw_forecast(ax: Any, points: Sequence[Point], target: Target) -> None:
    kinds = (("integer messages, 2 bits", 2, False), ("two float64 per bin, 2 bits", 2, True),
             ("full precision", None, False))  # fmt: skip
    for i, (name, bits, floats) in enumerate(kinds):
        times = forecast(points, target, bits, PAPER_LINK, floats=floats)
        ax.plot(MACHINES, [c + t for c, t in times], "--", color=COLORS[i], label=name)
        ax.plot(MACHINES[1:], [t for _, t in times[1:]], ":", color=COLORS[i], lw=1)
        if i == 0:
            ideal = [times[0][0] / n for n in MACHINES]
            ax.plot(MACHINES, ideal, "-", color="#bbbbbb", lw=0.7, label="ideal")
    ax.set_title(f"{target.title} forecast, 7.5 Gbit/s, 0.2 ms (dotted: communication)", fontsize=8)
    ax.set_ylabel("seconds per tree", fontsize=8)
    ax.set_xlabel("machines of 16 cores", fontsize=8)
