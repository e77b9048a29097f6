"""Table 3 and figure 6: training and histogram time, per system and with and without packing.

Binning and evaluation are not timed. Systems take turns; what counts is the mean of the repeats
(--seeds), with their standard deviation. "All" is a run as users have it. Histograms and the scan
of their bins for splits are timed in a run of bitgrove that calls the core verb by verb; the other
libraries do not report theirs.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from lab.internals import TreeByTree
from lab.reporting import deviation, markdown_table
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
_TITLES = {
    "ms": "Milliseconds per tree",
    "histograms_ms": "Of these, histograms",
    "scan_ms": "Of these, the scan for splits",
}


def step_ms(system: Bitgrove, prepared: Prepared, settings: Settings) -> Result:
    """Milliseconds per tree of each step, from a run of its own, verb by verb."""
    training = TreeByTree(system.parameters(settings, 0, prepared.task), prepared.data)
    seconds = training.seconds_by_step(settings.n_trees)
    steps = {"histograms": "histograms_ms", "scan": "scan_ms", "all": "steps_ms"}
    return {key: 1e3 * seconds[step] / settings.n_trees for step, key in steps.items()}


def _measure(system: System, cell: Cell, bench: Bench) -> Result:
    settings, prepared = bench.settings(cell.dataset), bench.prepared(system, cell.dataset)
    ms = 1e3 * system.train(prepared, settings, 0).seconds / settings.n_trees
    if not isinstance(system, Bitgrove):
        return {"ms": ms}
    return {"ms": ms, **step_ms(system, prepared, settings)}


def _in_turns(study: Study, labels: list[str]) -> list[Cell]:
    return [
        Cell(name, label, repeat)
        for name in study.names()
        for repeat in range(study.seeds)
        for label in labels
    ]


Times = dict[tuple[str, str], dict[str, list[float]]]  # of a set and a system, by kind of time


def _times(results: Results) -> Times:
    found: Times = {}
    for cell, result in finished(results):
        kinds = found.setdefault((cell.dataset, cell.system), {})
        for key, value in result.items():
            kinds.setdefault(key, []).append(value)
    return found


def _mean(times: Times, name: str, label: str, key: str = "ms") -> float:
    return statistics.fmean(times[name, label][key])


def _number(times: Times, name: str, label: str, key: str) -> str:
    values = times.get((name, label), {}).get(key)
    if values is None:
        return ""
    mean, spread = statistics.fmean(values), deviation(values)
    digits = 0 if mean >= 100 else 1 if mean >= 10 else 2
    return f"{mean:.{digits}f} ± {spread:.{digits}f}"


def _ratio(times: Times, name: str, label: str, base: str) -> str:
    if (name, label) not in times or (name, base) not in times:
        return ""
    return f"{_mean(times, name, base) / _mean(times, name, label):.2f}"


def _bars(figure: Figure, names: list[str], labels: list[str], times: Times) -> None:
    """A group of bars per dataset, as multiples of its fastest system; histograms hatched."""
    ax = figure.subplots()
    width = 0.85 / len(labels)
    for k, label in enumerate(labels):
        here = [(place, name) for place, name in enumerate(names) if (name, label) in times]
        least = {n: min(_mean(times, n, o) for o in labels if (n, o) in times) for _, n in here}
        places = [place + k * width for place, _ in here]
        heights = [_mean(times, n, label) / least[n] for _, n in here]
        spread = [deviation(times[n, label]["ms"]) / least[n] for _, n in here]
        bars = ax.bar(places, heights, width * 0.95, yerr=spread, label=label)
        color = bars.patches[0].get_facecolor() if places else "none"
        own = [
            _mean(times, n, label, "histograms_ms") / least[n]
            if "histograms_ms" in times[n, label] else 0.0 for _, n in here
        ]  # fmt: skip
        ax.bar(places, own, width * 0.95, color=color, hatch="////", edgecolor="white")
    middle = width * (len(labels) - 1) / 2
    ax.set_xticks([place + middle for place in range(len(names))], names)
    ax.set_ylabel("training time, fastest = 1\n(hatched: histograms)")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=7, ncols=3)


def _conditions(study: Study) -> str:
    return (
        f"{study.device}, {study.threads} threads, {study.trees} trees; mean ± standard deviation "
        f"of {study.seeds} repeats in turns."
    )


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
        names, times = study.names(), _times(results)
        labels = list(dict.fromkeys(cell.system for cell, _ in results))
        pages = [f"{_conditions(study)} {lineup.FULL} alone is full precision: 24-bit fixed point."]
        for key, title in _TITLES.items():
            lines = [[label, *(_number(times, n, label, key) for n in names)] for label in labels]
            lines = [line for line in lines if any(line[1:])]
            pages.append(f"{title}:\n\n{markdown_table(['', *names], lines)}")
        ratios = [[x, *(_ratio(times, n, x, lineup.FULL) for n in names)] for x in labels]
        pages.append(
            f"How many times faster than {lineup.FULL} in full precision:\n\n"
            f"{markdown_table(['', *names], ratios)}"
        )
        page = "\n\n".join(pages) + failures(results)
        return Report(
            csv_rows(results, "repeat"),
            page,
            lambda figure: _bars(figure, names, labels, times),
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
        names, times = study.names(), _times(results)
        lines = []
        for name in names:
            cells = [_number(times, name, x, key) for key in _TITLES for x in (PACKED, APART)]
            ratios = [
                f"{_mean(times, name, APART, key) / _mean(times, name, PACKED, key):.2f}"
                for key in _TITLES
            ]
            lines.append([name, *cells, *ratios])
        kinds = ("all", "histograms", "scan")
        header = ["", *(f"{kind}, {way}" for kind in kinds for way in (PACKED, APART)),
                  *(f"speedup, {kind}" for kind in kinds)]  # fmt: skip
        page = (
            f"2-bit gradients, milliseconds per tree; {_conditions(study)} Only accumulators "
            "differ: histograms are packed in memory either way, and the scan reads those.\n\n"
            f"{markdown_table(header, lines)}"
        )
        labels = [PACKED, APART]
        return Report(
            csv_rows(results, "repeat"), page, lambda figure: _bars(figure, names, labels, times)
        )
