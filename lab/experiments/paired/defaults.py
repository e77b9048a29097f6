"""Beyond the paper: which regularisation should be the default?

Every candidate is trained on the same random splits of many tables, small and large, balanced and
not, of all objectives, in full precision and at the default bits, and compared with LightGBM's
defaults split by split. A candidate diverges where its loss is twice that of the best one.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from lab.datasets import table
from lab.experiments.paired.gains import Paired, paired_gain
from lab.reporting import markdown_table
from lab.running.experiment import Cell, Experiment, Report, Result, Results, by_system, csv_rows
from lab.running.pictures import COLORS
from lab.running.study import Bench, Study
from lab.scoring import METRICS, scores
from lab.systems.bitgrove import Bitgrove

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# (reg_lambda, min_child_weight, max_delta_step), LightGBM's defaults first. Steps are bounded where
# a score is a logarithm; elsewhere their size is that of the target, and no number fits all.
CANDIDATES: dict[str, tuple[float, float, float]] = {
    "LightGBM's": (0.0, 1e-3, 0.0),
    "lambda 0.01": (0.01, 1e-3, 0.0),
    "lambda 0.1": (0.1, 1e-3, 0.0),
    "lambda 1": (1.0, 1e-3, 0.0),
    "hess 0.1": (0.0, 0.1, 0.0),
    "hess 1": (0.0, 1.0, 0.0),
    "both 1": (1.0, 1.0, 0.0),
    "step 2": (0.0, 1e-3, 2.0),
    "step 5": (0.0, 1e-3, 5.0),
    "step 10": (0.0, 1e-3, 10.0),
    "step 20": (0.0, 1e-3, 20.0),
    "lambda 0.1, step 5": (0.1, 1e-3, 5.0),
}
BITS: dict[str, int | None] = {"full": None, "4 bits": 4}
SETS = (*table.REAL, *table.ONE_OF_EACH, "weights", *table.SMALL_AND_DIFFICULT)
MOST_ROWS = 5_000  # of a split: the study is about regularisation, which matters most on few rows
WHOLE = ("flows", "rare_positives")  # the rarest class needs all rows
_BOUNDED = ("binary", "multiclass")
_DIVERGED = 2.0
_NEGLIGIBLE = 0.1  # percent
# A loss shows leaves that run away, which an order of rows may hide.
_JUDGES = {**{objective: m[0] for objective, m in METRICS.items()}, "binary": "logloss"}


class Defaults(Experiment):
    name = "defaults"
    summary = "regularisation by default: LightGBM's against others, on many tables"

    def plan(self, study: Study) -> list[Cell]:
        return [
            Cell(name, f"{candidate}, {bits}", seed)
            for name in study.names(SETS)
            for seed in range(study.seeds)
            for candidate in CANDIDATES
            if candidate == _trained_as(candidate, study.entry(name).objective)
            for bits in BITS
        ]

    def measure(self, cell: Cell, bench: Bench) -> Result:
        candidate, _, bits = cell.system.rpartition(", ")
        objective = bench.study.entry(cell.dataset).objective
        system = Bitgrove(cell.system, BITS[bits], **_parameters(candidate, objective))
        settings = bench.settings(cell.dataset)
        most = None if cell.dataset in WHOLE else MOST_ROWS
        prepared = bench.resplit(system, cell.dataset, cell.seed, most)
        model = system.train(prepared, settings, cell.seed).model
        task = prepared.task
        found = scores(task, system.predictor(model, task, settings.n_threads)(task.X_test))
        return {**found, "rounding noise": statistics.fmean(model.info.rounding_noise)}

    def report(self, study: Study, bench: Bench, results: Results) -> Report:
        objectives = {cell.dataset: study.entry(cell.dataset).objective for cell, _ in results}
        pages, verdicts = [], []
        for bits in BITS:
            verdict = Verdict(bits, objectives, results)
            verdicts.append(verdict)
            title = f"{bits.capitalize()}, {study.trees} trees, {study.seeds} splits"
            pages += [title, verdict.summary(), verdict.details()]
        intro = (
            "Better (+) or worse (-) than LightGBM's defaults, percent of the test loss (where "
            "queries are ranked: of NDCG@10), mean ± standard error over the same splits; "
            "*: beyond two standard errors."
        )
        page = "\n\n".join([intro, *pages])
        return Report(csv_rows(results), page, lambda figure: _draw(figure, verdicts), (9.0, 6.0))


class Verdict:
    """All candidates at one precision, against LightGBM's defaults."""

    def __init__(self, bits: str, objectives: dict[str, str], results: Results) -> None:
        self.bits, self.names = bits, list(objectives)
        self.judges = {name: _JUDGES[objective] for name, objective in objectives.items()}
        self.values: dict[tuple[str, str], list[float]] = {}
        for name, metric in self.judges.items():
            found = by_system([(c, r) for c, r in results if c.dataset == name], metric)
            for candidate in CANDIDATES:
                trained = _trained_as(candidate, objectives[name])
                self.values[name, candidate] = found[name, f"{trained}, {bits}"]

    def gain(self, name: str, candidate: str) -> Paired:
        base, *_ = CANDIDATES
        return paired_gain(self.judges[name], self.values[name, base], self.values[name, candidate])

    def diverged(self, candidate: str) -> list[str]:
        """Sets on which its mean loss is far above that of the best candidate."""
        found = []
        for name in self.names:
            means = {other: statistics.fmean(self.values[name, other]) for other in CANDIDATES}
            if self.judges[name] != "ndcg@10" and means[candidate] > _DIVERGED * min(
                means.values()
            ):
                found.append(name)
        return found

    def summary(self) -> str:
        lines = []
        for candidate in CANDIDATES:
            gains = {name: self.gain(name, candidate) for name in self.names}
            clear = [g for g in gains.values() if g.beyond_noise and abs(g.mean) > _NEGLIGIBLE]
            worst = min(gains, key=lambda name: gains[name].mean)
            lines.append([
                candidate, str(sum(g.mean > 0 for g in clear)), str(sum(g.mean < 0 for g in clear)),
                f"{gains[worst].text()} ({worst})", ", ".join(self.diverged(candidate)) or "none",
            ])  # fmt: skip
        header = ["candidate", "sets better", "sets worse", "worst", "diverges on"]
        return markdown_table(header, lines)

    def details(self) -> str:
        base, *others = CANDIDATES
        lines = [
            [f"{name} {self.judges[name]}", f"{statistics.fmean(self.values[name, base]):.5g}",
             *(self.gain(name, other).text() for other in others)]
            for name in self.names
        ]  # fmt: skip
        return markdown_table(["dataset", base, *others], lines)


def _parameters(candidate: str, objective: str) -> dict[str, float]:
    reg_lambda, min_child_weight, step = CANDIDATES[candidate]
    return {
        "reg_lambda": reg_lambda,
        "min_child_weight": min_child_weight,
        "max_delta_step": step if objective in _BOUNDED else 0.0,
    }


def _trained_as(candidate: str, objective: str) -> str:
    """The first candidate that means the same for this objective."""
    wanted = _parameters(candidate, objective)
    return next(name for name in CANDIDATES if _parameters(name, objective) == wanted)


def _draw(figure: Figure, verdicts: list[Verdict]) -> None:
    axes = figure.subplots(1, len(verdicts), sharey=True, squeeze=False)[0]
    _, *others = CANDIDATES
    for ax, verdict in zip(axes, verdicts, strict=True):
        places = range(len(verdict.names))
        for number, other in enumerate(others):
            gains = [verdict.gain(name, other) for name in verdict.names]
            row, color = divmod(number, len(COLORS))
            ax.plot([g.mean for g in gains], places, "o^"[row], ms=3, color=COLORS[color],
                    label=other)  # fmt: skip
        ax.axvline(0.0, color="#555555", lw=1)
        ax.set_xscale("symlog", linthresh=1.0)
        ax.set(title=verdict.bits, xlabel="better than LightGBM's defaults, %")
        ax.set_yticks(places, verdict.names, fontsize=7)
        ax.spines[["top", "right"]].set_visible(False)
    axes[-1].legend(frameon=False, fontsize=6)
