"""Figure 4: distributed training. What is sent is measured here; how time scales is a model.

Ranks are threads of one process (ThreadComm), so that any machine can count the bytes and the
collectives of a tree and check that every number of ranks gives the same model. The times follow
from them: the compute time of one rank here, divided, and the communication of the model that was
fitted to ranks over shaped links (scaling_model), once with the integer messages that were counted
and once with two float64 per bin. The same model's forecast for the paper's clusters goes with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import bitgrove
from bitgrove.distributed import CountingComm, ThreadComm, run_threads
from lab.experiments import scaling_forecast
from lab.experiments.scaling_model import FLOAT_BYTES, Traffic, fit, measured
from lab.internals import n_bins
from lab.reporting import markdown_table
from lab.running.experiment import Cell, Experiment, Report, Result, Results
from lab.running.pictures import COLORS
from lab.running.study import Bench, Study
from lab.systems import lineup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bitgrove.callbacks import TrainingState

RANKS = (1, 2, 4, 8, 16)


class Fig4(Experiment):
    name = "fig4"
    summary = "distributed training: messages and scaling"
    timed = True

    def plan(self, study: Study) -> list[Cell]:
        labels = [lineup.FULL, *(lineup.quantized(bits) for bits in study.bits)]
        return [
            Cell(name, f"{label}, {ranks} ranks")
            for name in study.names(("epsilon", "criteo"))
            for label in labels
            for ranks in RANKS
        ]

    def measure(self, cell: Cell, bench: Bench) -> Result:
        label, _, ranks = cell.system.removesuffix(" ranks").rpartition(", ")
        task = bench.task(cell.dataset)
        params = lineup.ours(label).parameters(bench.settings(cell.dataset), 0, task)
        params |= {"n_jobs": 1, "histogram_pool_mb": 128}

        def work(comm: ThreadComm) -> tuple[bitgrove.Model, TreeMeter, float]:
            shard = task.train.shard(comm.rank, comm.size).dataset()
            counting = CountingComm(comm)
            meter = TreeMeter(counting)
            model = bitgrove.train(params, shard, comm=counting, callbacks=[meter])
            assert model.info is not None
            return model, meter, model.info.seconds["train"]

        models, meters, seconds = zip(*run_threads(int(ranks), work), strict=True)
        info = models[0].info
        sent, calls = meters[0].per_tree()
        n_trees = len(models[0].trees)
        return {
            "digest": models[0].digest(),
            "bytes": sent,
            "collectives": calls,
            "histograms": sum(info.accumulator_widths.values()) / n_trees,
            "rounds": sum(info.rounds_per_tree) / n_trees,
            "ms": 1e3 * seconds[0] / n_trees,
            "bins": n_bins(task.X_train),
        }

    def report(self, study: Study, bench: Bench, results: Results) -> Report:
        lines, rows, models = [], [], {}
        labels = [lineup.FULL, *(lineup.quantized(bits) for bits in study.bits)]
        found = {(c.dataset, c.system): r for c, r in results}
        names = list(dict.fromkeys(cell.dataset for cell, _ in results))
        for name in names:
            for label in labels:
                runs = [found[name, f"{label}, {n} ranks"] for n in RANKS]
                same = len({run["digest"] for run in runs}) == 1
                sent = [f"{r['bytes'] / 1e6:.3f}" for r in runs[1:]]
                lines.append([f"{name}, {label}", *sent, f"{runs[-1]['collectives']:.0f}",
                              "yes" if same else "NO"])  # fmt: skip
                rows += [{"dataset": name, "system": label, "ranks": n, **r}
                         for n, r in zip(RANKS, runs, strict=True)]  # fmt: skip
            models[name] = _model([found[name, f"{labels[1]}, {n} ranks"] for n in RANKS])
        header = ["MB sent per rank and tree", *(f"{n} ranks" for n in RANKS[1:]),
                  "collectives", "same model"]  # fmt: skip
        predicted = [
            [f"{name}, {kind}", *(f"{1e3 * (c + t):.1f} ({1e3 * t:.1f})" for c, t in times)]
            for name, kinds in models.items() for kind, times in kinds.items()
        ]  # fmt: skip
        page = (
            f"Measured with ranks as threads, {study.trees} trees:\n\n"
            f"{markdown_table(header, lines)}\n\n"
            f"Model, not measurement: milliseconds per tree of {labels[1]} on n machines, of these "
            "communication in brackets; compute is that of one rank here, communication that of "
            "the fitted model below over links of 7.5 Gbit/s and 0.2 ms.\n\n"
            f"{markdown_table(['', *(f'{n} machines' for n in RANKS)], predicted)}"
            f"\n\n{scaling_forecast.page()}"
        )
        size = (max(9.0, 4.5 * len(names)), 10.5)
        return Report(rows, page, lambda figure: _draw(figure, models), size)


class TreeMeter:
    """A callback that reads the counts of a CountingComm after each tree."""

    def __init__(self, comm: CountingComm) -> None:
        self.comm = comm
        self.at_tree: list[tuple[int, int]] = []

    def __call__(self, state: TrainingState) -> None:
        counts = (sum(self.comm.sent_bytes.values()), sum(self.comm.calls.values()))
        self.at_tree.append(counts)

    def per_tree(self) -> tuple[float, float]:
        """(bytes, collectives) of a tree; the first one is left out, it also pays for the bins."""
        (b0, c0), (b1, c1) = self.at_tree[0], self.at_tree[-1]
        n = max(len(self.at_tree) - 1, 1)
        return (b1 - b0) / n, (c1 - c0) / n


Times = dict[str, list[tuple[float, float]]]


def _model(runs: list[Result]) -> Times:
    """(compute, communication) in seconds per tree on n machines, with both kinds of messages."""
    coefficients = fit([point for point in measured()[1] if not point.check])
    times: Times = {"integer messages": [], "two float64 per bin": []}
    for n, run in zip(RANKS, runs, strict=True):
        compute = 1e-3 * runs[0]["ms"] / n
        floats = run["histograms"] * run["bins"] * FLOAT_BYTES * (n - 1) / n
        for kind, volume in (("integer messages", run["bytes"]), ("two float64 per bin", floats)):
            traffic = Traffic(ranks=n, rounds=run["rounds"], collectives=run["collectives"],
                              bytes=volume)  # fmt: skip
            spoken = coefficients.comm_seconds(traffic, scaling_forecast.PAPER_LINK)
            times[kind].append((compute, spoken))
    return times


def _draw(figure: Figure, models: dict[str, Times]) -> None:
    parts: Any = figure.subfigures(2, 1, height_ratios=(1, 2.6))
    above, below = parts
    scaling_forecast.draw(below)
    axes = above.subplots(1, len(models), squeeze=False)[0]
    for ax, (name, kinds) in zip(axes, models.items(), strict=True):
        for k, (kind, times) in enumerate(kinds.items()):
            total, spoken = ([1e3 * (c + t) for c, t in times], [1e3 * t for _, t in times])
            ax.plot(RANKS, total, "-o", ms=3, color=COLORS[k], label=kind)
            ax.plot(RANKS[1:], spoken[1:], "--", color=COLORS[k], label="communication only")
        first = next(iter(kinds.values()))[0][0]
        ax.plot(RANKS, [1e3 * first / n for n in RANKS], ":", color="#555555", label="ideal")
        ax.set(xscale="log", yscale="log", xlabel="machines", title=f"{name}, this run")
        ax.set_xticks(RANKS, [str(n) for n in RANKS])
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("ms per tree")
    axes[0].legend(frameon=False, fontsize=8)
