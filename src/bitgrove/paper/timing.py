"""Table 3 and figure 6: training and histogram time, per system and with and without packing.

Binning and evaluation are not timed. Systems take turns, and of the repeats (--seeds) the fastest
counts. Histogram time is measured inside bitgrove by a stopwatch around the backend's two histogram
verbs, in a run that calls the core verb by verb; the other libraries do not report theirs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bitgrove.backends.base import TreeWork
from bitgrove.distributed.comm import SoloComm
from bitgrove.paper import lineup
from bitgrove.paper.cells import Cell, Experiment, Report, Result, Results, failures, finished
from bitgrove.paper.machine import markdown_table
from bitgrove.paper.study import Bench, Study
from bitgrove.paper.systems import Bitgrove, Prepared, Settings
from bitgrove.params import resolve
from bitgrove.training.booster import Booster

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PACKED, APART = "packed", "not packed"
_HISTOGRAM_VERBS = ("build_histograms", "subtract_histograms")
_NO_CUDA = ("LightGBM",)  # its wheels have no CUDA


class Stopwatch:
    """A backend that also counts the seconds of its histogram verbs."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self.seconds = 0.0
        for verb in _HISTOGRAM_VERBS:
            setattr(self, verb, self._timed(getattr(backend, verb)))

    def run_rounds(self, work: TreeWork, frontier: Any, alpha: float) -> bool:
        return False  # one call of the core for all rounds would hide the verbs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def _timed(self, verb: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            answer = verb(*args, **kwargs)
            _wait(self._backend.name)
            self.seconds += time.perf_counter() - start
            return answer

        return call


def _wait(backend: str) -> None:
    """A GPU works on while Python goes ahead: a clock must wait for it."""
    if backend.startswith("cuda"):
        import cupy

        cupy.cuda.get_current_stream().synchronize()


def histogram_ms(system: Bitgrove, prepared: Prepared, settings: Settings) -> float:
    """Milliseconds per tree that go into histograms, from a run of its own, verb by verb."""
    params = resolve({"objective": prepared.task.objective, **system.parameters(settings, 0)})
    booster = Booster(params, prepared.data, SoloComm())
    watch: Any = Stopwatch(booster.backend)
    booster.backend = watch
    for iteration in range(settings.n_trees):
        booster.boost(iteration)
    return float(1e3 * watch.seconds / settings.n_trees)


def measure(cell: Cell, bench: Bench) -> Result:
    system, settings = _system(cell), bench.settings(cell.dataset)
    prepared = bench.prepared(system, cell.dataset)
    trained = system.train(prepared, settings, 0)
    ms = 1e3 * trained.seconds / settings.n_trees
    if not isinstance(system, Bitgrove):
        return {"ms": ms}
    return {"ms": ms, "histogram_ms": histogram_ms(system, prepared, settings)}


def _system(cell: Cell) -> Any:
    if cell.system in (PACKED, APART):
        return Bitgrove(cell.system, 2, packed=cell.system == PACKED)
    return lineup.system(cell.system, cell.dataset)


def plan_table3(study: Study) -> list[Cell]:
    labels = [*lineup.peers(study, study.bits), lineup.FULL]
    labels += [lineup.quantized(bits) for bits in study.bits]
    if study.device == "cuda":
        labels = [label for label in labels if not label.startswith(_NO_CUDA)]
    return _in_turns(study, labels)


def plan_fig6(study: Study) -> list[Cell]:
    return _in_turns(study, [PACKED, APART])


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


def report_table3(study: Study, bench: Bench, results: Results) -> Report:
    names, fastest = study.names(), _fastest(results)
    labels = list(dict.fromkeys(cell.system for cell, _ in results))
    pages = [
        f"{study.device}, {study.threads} threads, {study.trees} trees; best of {study.seeds}."
    ]
    for title, key in (("Milliseconds per tree", "ms"), ("Of these, histograms", "histogram_ms")):
        lines = [[label, *(_number(fastest, n, label, key) for n in names)] for label in labels]
        lines = [line for line in lines if any(line[1:])]
        pages.append(f"{title}:\n\n{markdown_table(['', *names], lines)}")
    base = lineup.quantized(study.bits[0])
    ratios = [[label, *(_ratio(fastest, n, label, base) for n in names)] for label in labels]
    pages.append(f"Times {base}:\n\n{markdown_table(['', *names], ratios)}")
    page = "\n\n".join(pages) + failures(results)
    return Report(
        _rows(results), page, lambda figure: _bars(figure, names, labels, fastest), (11.0, 4.0)
    )


def report_fig6(study: Study, bench: Bench, results: Results) -> Report:
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
        f"2-bit gradients, {study.threads} threads, {study.trees} trees; best of {study.seeds}.\n\n"
        f"{markdown_table(header, lines)}"
    )
    labels = [PACKED, APART]
    return Report(_rows(results), page, lambda figure: _bars(figure, names, labels, fastest))


def _rows(results: Results) -> list[dict[str, Any]]:
    return [{"dataset": c.dataset, "system": c.system, "repeat": c.seed, **r} for c, r in results]


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


TABLE3 = Experiment(
    "table3", "training and histogram time per system", plan_table3, measure, report_table3, True,
    ("cpu", "cuda"),
)  # fmt: skip
FIG6 = Experiment(
    "fig6", "time with and without packed gradients", plan_fig6, measure, report_fig6, True
)
