"""Beyond the paper: does integer training cost accuracy? Every system on real tables.

Usually on the Parquet files that are in --data; without a folder, on one generated table of each
objective. Each seed draws its own rows (80% per tree) and features (90% per tree), so that full
precision has a spread of its own to be measured against; a second pass without sampling shows
quantization alone. The metrics are those of the whole model, after the last tree.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lab.datasets import table
from lab.reporting import deviation, markdown_table, mean_text
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
from lab.running.pictures import COLORS, grid, panels
from lab.running.study import Bench, Study
from lab.scoring import HIGHER_IS_BETTER, METRICS, scores
from lab.systems import lineup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAMPLING: dict[str, dict[str, Any]] = {
    "sampled": {"subsample": 0.8, "colsample": 0.9},
    "whole": {},
}
TOLERANCE = 0.001  # of the metric: what quantization may cost
_UNSAMPLED_SEEDS = 3  # without sampling the seed only moves the rounding


class Accuracy(Experiment):
    name = "accuracy"
    summary = "systems on real tables, with and without sampling, over several seeds"

    def plan(self, study: Study) -> list[Cell]:
        default = table.ONE_OF_EACH if study.wanted.folder is None else table.REAL
        names = ["bitgrove", *(f"bitgrove-{bits}" for bits in study.bits)]
        names += lineup.peer_names(study.peers, study.bits)
        cells = []
        for dataset in study.names(default):
            for sampling in SAMPLING:
                for name in names:
                    n_seeds = study.seeds
                    if sampling == "whole":  # full precision has no use for a seed
                        n_seeds = min(n_seeds, _UNSAMPLED_SEEDS) if lineup.system(name).bits else 1
                    label = f"{name}, {sampling}"
                    cells += [Cell(dataset, label, seed) for seed in range(n_seeds)]
        return cells

    def measure(self, cell: Cell, bench: Bench) -> Result:
        name, _, sampling = cell.system.partition(", ")
        system, task = lineup.system(name), bench.task(cell.dataset)
        settings = replace(bench.settings(cell.dataset), **SAMPLING[sampling])
        trained = system.train(bench.prepared(system, cell.dataset), settings, cell.seed)
        prediction = system.predictor(trained.model, task, settings.n_threads)(task.X_test)
        return {**scores(task, prediction), "seconds": trained.seconds}

    def report(self, study: Study, bench: Bench, results: Results) -> Report:
        datasets = list(dict.fromkeys(cell.dataset for cell, _ in results))
        found = [
            Comparison(name, sampling, METRICS[study.entry(name).objective], results)
            for name in datasets
            for sampling in SAMPLING
        ]
        page = "\n\n".join([_summary(found), *(one.text() for one in found)]) + failures(results)
        size = (10.0, 2.6 * grid(len(found))[0])
        return Report(csv_rows(results), page, lambda figure: _draw(figure, found), size)


class Comparison:
    """The systems on one dataset under one sampling, against bitgrove's full precision."""

    def __init__(
        self, dataset: str, sampling: str, metrics: Sequence[str], results: Results
    ) -> None:
        self.title, self.metrics, self.main = f"{dataset}, {sampling}", metrics, metrics[0]
        self.runs: dict[str, list[Result]] = {}
        for cell, result in finished(results):
            name, _, how = cell.system.partition(", ")
            if (cell.dataset, how) == (dataset, sampling):
                self.runs.setdefault(name, []).append(result)

    def values(self, name: str, metric: str) -> list[float]:
        return [result[metric] for result in self.runs.get(name, [])]

    def better(self, name: str, metric: str) -> float | None:
        """Percent by which the mean is better (+) or worse (-) than full precision."""
        full, own = self.values("bitgrove", metric), self.values(name, metric)
        if name == "bitgrove" or not full or not own:
            return None
        base = statistics.fmean(full)
        sign = 1 if HIGHER_IS_BETTER[metric] else -1
        return sign * 100 * (statistics.fmean(own) - base) / abs(base)

    def text(self) -> str:
        header = ["system"]
        for metric in self.metrics:
            header += [metric, "better than full, %"]
        rows = []
        for name, runs in self.runs.items():
            cells = [name]
            for metric in self.metrics:
                better = self.better(name, metric)
                cells += [mean_text(self.values(name, metric))]
                cells += ["" if better is None else f"{better:+.3f}"]
            rows.append([*cells, f"{statistics.fmean(run['seconds'] for run in runs):.2f}"])
        lines = "\n".join(f"- {line}" for line in (*self.versus_lightgbm(), *self.verdicts()))
        return f"## {self.title}\n\n{markdown_table([*header, 's per run'], rows)}\n\n{lines}"

    def versus_lightgbm(self) -> list[str]:
        """Is full precision as good as LightGBM's?"""
        ours, theirs = (self.values(name, self.main) for name in ("bitgrove", "lightgbm"))
        if not ours or not theirs:
            return []
        gap, spread = statistics.fmean(ours) - statistics.fmean(theirs), 2 * deviation(theirs)
        text = f"full precision - LightGBM = {gap:+.5f} {self.main}"
        if spread == 0:
            return [text]
        inside = "yes" if abs(gap) <= spread else "no"
        return [
            f"{text} ± {_welch(ours, theirs):.5f}; within LightGBM's spread "
            f"(2 std {spread:.5f}): {inside}"
        ]

    def verdicts(self) -> list[str]:
        """Per bitgrove system with few bits: is it within the tolerance of full precision?"""
        found, full = [], self.values("bitgrove", self.main)
        for name in self.runs:
            library, _, bits = name.partition("-")
            better = self.better(name, self.main)
            if library != "bitgrove" or better is None or len(full) < 2:
                continue  # one run of full precision has no spread to judge by
            error = _welch(full, self.values(name, self.main))
            noise = 100 * error / abs(statistics.fmean(full))
            verdict = "yes" if better >= -100 * TOLERANCE else "no"
            if abs(better + 100 * TOLERANCE) < 2 * noise:
                verdict += ", but the noise could hide the opposite"
            found.append(
                f"{bits} bits: {better:+.3f}% ± {noise:.3f}% of full precision; "
                f"at most {TOLERANCE:.1%} worse: {verdict}"
            )
        return found


def _welch(one: Sequence[float], other: Sequence[float]) -> float:
    """Standard error of the difference of two means."""
    return float(sum(deviation(v) ** 2 / len(v) for v in (one, other)) ** 0.5)


def _summary(found: Sequence[Comparison]) -> str:
    """One line per dataset: the main metric of full precision and how each system differs."""
    others = list(dict.fromkeys(n for one in found for n in one.runs if n != "bitgrove"))
    rows = []
    for one in found:
        cells = [one.better(name, one.main) for name in others]
        rows.append([
            one.title, one.main, mean_text(one.values("bitgrove", one.main)),
            *("" if cell is None else f"{cell:+.2f}%" for cell in cells),
        ])  # fmt: skip
    heading = "Main metric, and how much better (+) or worse (-) than full precision:"
    return f"{heading}\n\n{markdown_table(['dataset', 'metric', 'bitgrove', *others], rows)}"


def _draw(figure: Figure, found: Sequence[Comparison]) -> None:
    for ax, one in zip(panels(figure, len(found)), found, strict=False):
        bars: dict[str, Any] = {name: one.better(name, one.main) for name in one.runs}
        bars = {name: value for name, value in bars.items() if value is not None}
        ax.barh(list(bars), list(bars.values()), color=COLORS[0])
        ax.axvline(0.0, color="#555555", lw=0.8)
        ax.set_title(f"{one.title}: {one.main}, % better than full", fontsize=8)
