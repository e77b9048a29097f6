"""Table 3 and figure 6: training and histogram time, per system and with and without packing.

Binning and evaluation are not timed. Systems take turns, and of the repeats (--seeds) the fastest
counts. Histogram time is measured inside bitgrove by a stopwatch around the backend's two histogram
verbs, in a run that calls the core verb by verb; the other libraries do not report theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.internals import TreeByTree
from lab.reporting import markdown_table
from lab.running.experiment import (
    Cell,
    Experiment,
    Report,
    Result,
    Results,
    csv_rows,
    failures,
    finished,
)
from lab.running.study import Bench, Study
from lab.systems import lineup
from lab.systems.base import Prepared, Settings, System
from lab.systems.bitgrove import Bitgrove

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PACKED, APART = "packed", "not packed"
_NO_CUDA = ("LightGBM",)  # its wheels have no CUDA


def histogram_ms(system: Bitgrove, prepared: Prepared, settings: Settings) -> float:
    """Milliseconds per tree that go into histograms, from a run of its own, verb by verb."""
    training = TreeByTree(system.parameters(settings, 0, prepared.task), prepared.data)
    return 1e3 * training.histogram_seconds(settings.n_trees) / settings.n_trees


def _measure(system: System, cell: Cell, bench: Bench) -> Result:
    settings, prepared = bench.settings(cell.dataset), bench.prepared(system, cell.dataset)
    ms = 1e3 * system.train(prepared, settings, 0).seconds / settings.n_trees
    if not isinstance(system, Bitgrove):
        return {"ms": ms}
    return {"ms": ms, "histogram_ms": histogram_ms(system, prepared, settings)}


def _in_turns(study: Study, labels: list[str]) -> list[Cell]:
    return [
        Cell(name, label, repeat)
        for name in study.names()
        for repeat in range(study.seeds)
        for label in labels
    ]


Fastest = dict[tuple[str, str], Result]


def _fastest(results: Results) -> Fastest:
    """The least time of each kind over the repeats."""
    found: Fastest = {}
    for cell, result in finished(results):
        kept = found.setdefault((cell.dataset, cell.system), dict(result))
        kept.update({key: min(value, kept[key]) for key, value in result.items()})
    return found


def _number(fastest: Fastest, name: str, label: str, key: str) -> str:
    value = fastest.get((name, label), {}).get(key)
    return "" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _ratio(fastest: Fastest, name: str, label: str, base: str) -> str:
    if (name, label) not in fastest or (name, base) not in fastest:
        return ""
    return f"{fastest[name, label]['ms'] / fastest[name, base]['ms']:.2f}"


def _bars(figure: Figure, names: list[str], labels: list[str], fastest: Fastest) -> None:
    """A group of bars per dataset, as multiples of its fastest system; histograms hatched."""
    ax = figure.subplots()
    width = 0.85 / len(labels)
    for k, label in enumerate(labels):
        places, heights, histograms = [], [], []
        for place, name in enumerate(names):
            if (name, label) in fastest:
                least = min(fastest[name, other]["ms"] for other in labels
                            if (name, other) in fastest)  # fmt: skip
                places.append(place + k * width)
                heights.append(fastest[name, label]["ms"] / least)
                histograms.append(fastest[name, label].get("histogram_ms", 0.0) / least)
        bars = ax.bar(places, heights, width * 0.95, label=label)
        color = bars.patches[0].get_facecolor() if places else "none"
        ax.bar(places, histograms, width * 0.95, color=color, hatch="////", edgecolor="white")
    middle = width * (len(labels) - 1) / 2
    ax.set_xticks([place + middle for place in range(len(names))], names)
    ax.set_ylabel("training time, fastest = 1\n(hatched: histograms)")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=7, ncols=3)


class Table3(Experiment):
    name = "table3"
    summary = "training and histogram time per system"
    timed = True
    devices = ("cpu", "cuda")

    def plan(self, study: Study) -> list[Cell]:
        labels = [*lineup.peers(study.peers, study.bits), lineup.FULL]
        labels += [lineup.quantized(bits) for bits in study.bits]
        if study.device == "cuda":
            labels = [label for label in labels if not label.startswith(_NO_CUDA)]
        return _in_turns(study, labels)

    def measure(self, cell: Cell, bench: Bench) -> Result:
        return _measure(lineup.labelled(cell.system, cell.dataset), cell, bench)

    def report(self, study: Study, bench: Bench, results: Results) -> Report:
        names, fastest = study.names(), _fastest(results)
        labels = list(dict.fromkeys(cell.system for cell, _ in results))
        pages = [
            f"{study.device}, {study.threads} threads, {study.trees} trees; best of {study.seeds}."
        ]
        for title, key in (
            ("Milliseconds per tree", "ms"),
            ("Of these, histograms", "histogram_ms"),
        ):
            lines = [[label, *(_number(fastest, n, label, key) for n in names)] for label in labels]
            lines = [line for line in lines if any(line[1:])]
            pages.append(f"{title}:\n\n{markdown_table(['', *names], lines)}")
        base = lineup.quantized(study.bits[0])
        ratios = [[label, *(_ratio(fastest, n, label, base) for n in names)] for label in labels]
        pages.append(f"Times {base}:\n\n{markdown_table(['', *names], ratios)}")
        page = "\n\n".join(pages) + failures(results)
        return Report(
            csv_rows(results, "repeat"),
            page,
            lambda figure: _bars(figure, names, labels, fastest),
            (11.0, 4.0),
        )


class Fig6(Experiment):
    name = "fig6"
    summary = "time with and without packed gradients"
    timed = True

    def plan(self, study: Study) -> list[Cell]:
        return _in_turns(study, [PACKED, APART])

    def measure(self, cell: Cell, bench: Bench) -> Result:
        return _measure(Bitgrove(cell.system, 2, packed=cell.system == PACKED), cell, bench)

    def report(self, study: Study, bench: Bench, results: Results) -> Report:
        names, fastest = study.names(), _fastest(results)
        lines = []
        for name in names:
            packed, apart = fastest[name, PACKED], fastest[name, APART]
            cells = [f"{r[key]:.2f}" for key in ("ms", "histogram_ms") for r in (packed, apart)]
            lines.append([name, *cells, f"{apart['ms'] / packed['ms']:.2f}",
                          f"{apart['histogram_ms'] / packed['histogram_ms']:.2f}"])  # fmt: skip
        header = ["", "ms per tree, packed", "not packed", "histogram ms, packed", "not packed",
                  "speedup, all", "speedup, histograms"]  # fmt: skip
        page = (
            f"2-bit gradients, {study.threads} threads, {study.trees} trees; best of "
            f"{study.seeds}.\n\n"
            f"{markdown_table(header, lines)}"
        )
        labels = [PACKED, APART]
        return Report(
            csv_rows(results, "repeat"), page, lambda figure: _bars(figure, names, labels, fastest)
        )
