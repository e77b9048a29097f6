"""Beyond the paper: does ranking lose accuracy at few bits?

Full precision and few bits are trained on the same random splits by query and compared split by
split. Small ranking sets are noisy, so there is a noise floor: full precision once more, on 99% of
the rows of each tree, which should change nothing but luck.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from lab.experiments.paired.gains import Paired, paired_gain
from lab.reporting import deviation, markdown_table
from lab.running.experiment import Cell, Experiment, Report, Result, Results, by_system, csv_rows
from lab.running.pictures import panels
from lab.running.study import Bench, Study
from lab.scoring import score
from lab.systems.base import System
from lab.systems.bitgrove import Bitgrove

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BITS = (2, 3, 4, 5, 8)
FULL = "full precision"
FLOORS = tuple(f"{FULL}, 99% of the rows ({word})" for word in ("a", "b", "c"))
METRIC = "ndcg@10"


class RankingBits(Experiment):
    name = "ranking_bits"
    summary = "ranking at few bits against full precision, over random splits by query"

    def plan(self, study: Study) -> list[Cell]:
        default = ("ranking_like",) if study.wanted.folder is None else ("mq2008", "mslr_5k")
        return [
            Cell(name, label, seed)
            for name in study.names(default)
            for seed in range(study.seeds)
            for label in _labels()
        ]

    def measure(self, cell: Cell, bench: Bench) -> Result:
        system, settings = _system(cell.system), bench.settings(cell.dataset)
        prepared = bench.resplit(system, cell.dataset, cell.seed)
        model = system.train(prepared, settings, cell.seed).model
        predict = system.predictor(model, prepared.task, settings.n_threads)
        return {METRIC: score(prepared.task, predict(prepared.task.X_test))}

    def report(self, study: Study, bench: Bench, results: Results) -> Report:
        values = by_system(results, METRIC)
        names = list(dict.fromkeys(cell.dataset for cell, _ in results))
        pages = [
            f"Test NDCG@10 after {study.trees} trees, mean ± standard deviation of {study.seeds} "
            "random splits; better (+) or worse (-) than full precision on the same split, "
            "percent, mean ± standard error; *: beyond two standard errors."
        ]
        for name in names:
            lines = []
            for label in _labels():
                runs = values[name, label]
                text = f"{statistics.fmean(runs):.4f} ± {deviation(runs):.4f}"
                paired = "" if label == FULL else _gain(values, name, label).text()
                lines.append([label, text, paired])
            found = markdown_table(["gradients", "NDCG@10", "better, %"], lines)
            pages.append(f"{name}: {bench.task(name).shape}\n\n{found}")
        size = (4.5 * len(names), 3.6)
        page = "\n\n".join(pages)
        return Report(csv_rows(results, "split"), page, lambda f: _draw(f, names, values), size)


def _labels() -> list[str]:
    return [FULL, *(f"{bits} bits" for bits in BITS), *FLOORS]


def _system(label: str) -> System:
    if label in FLOORS:
        return Bitgrove(label, None, subsample=0.99, random_state=FLOORS.index(label))
    return Bitgrove(label, None if label == FULL else int(label.split()[0]))


def _gain(values: dict[tuple[str, str], list[float]], name: str, label: str) -> Paired:
    return paired_gain(METRIC, values[name, FULL], values[name, label])


def _draw(figure: Figure, names: list[str], values: dict[tuple[str, str], list[float]]) -> None:
    _, *labels = _labels()
    for ax, name in zip(panels(figure, len(names)), names, strict=False):
        gains = [_gain(values, name, label) for label in labels]
        colors = ["#999999" if label in FLOORS else "#0072B2" for label in labels]
        for place, (gain, color) in enumerate(zip(gains, colors, strict=True)):
            ax.errorbar([place], [gain.mean], [2 * gain.error], fmt="o", ms=4, color=color)
        ax.axhline(0.0, color="#555555", lw=1)
        words = [label.replace(f"{FULL}, 99% of the rows", "99% rows") for label in labels]
        ax.set_xticks(range(len(labels)), words, rotation=60)
        ax.set(title=name, ylabel="better than full precision, %\n(two standard errors)")
