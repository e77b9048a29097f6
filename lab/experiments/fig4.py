"""Figure 4: distributed training. What is sent is counted here; times were measured over links.

Ranks are threads of one process (ThreadComm), so that any machine can count the bytes and the
collectives of a tree and check that every number of ranks gives the same model. Bytes stand beside
those of two float64 per bin, which the same histograms would take. Times are those of ranks over
shaped links (lab bench scaling), with the model fitted to them, its errors, and its forecast for
the paper's clusters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import bitgrove
from bitgrove.distributed import CountingComm, ThreadComm, run_threads
from lab.experiments import scaling_forecast
from lab.experiments.scaling_model import FLOAT_BYTES
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
        lines, rows = [], []
        labels = [lineup.FULL, *(lineup.quantized(bits) for bits in study.bits)]
        found = {(c.dataset, c.system): r for c, r in results}
        names = list(dict.fromkeys(cell.dataset for cell, _ in results))
        sent: Sent = {}
        for name in names:
            for label in labels:
                runs = [found[name, f"{label}, {n} ranks"] for n in RANKS]
                same = len({run["digest"] for run in runs}) == 1
                sent[name, label] = [run["bytes"] for run in runs]
                floats = [_float_bytes(run, n) for n, run in zip(RANKS, runs, strict=True)]
                cells = [
                    f"{run['bytes'] / 1e6:.3f} ({whole / run['bytes']:.1f}x)"
                    for run, whole in list(zip(runs, floats, strict=True))[1:]
                ]
                lines.append([f"{name}, {label}", *cells, f"{runs[-1]['collectives']:.0f}",
                              "yes" if same else "NO"])  # fmt: skip
                rows += [{"dataset": name, "system": label, "ranks": n, "float64 bytes": whole, **r}
                         for n, r, whole in zip(RANKS, runs, floats, strict=True)]  # fmt: skip
            sent[name, "two float64 per bin"] = floats
        header = ["MB sent per rank and tree", *(f"{n} ranks" for n in RANKS[1:]),
                  "collectives", "same model"]  # fmt: skip
        page = (
            f"Counted with ranks as threads, {study.trees} trees; in brackets how many times less "
            "than two float64 per bin of the same histograms.\n\n"
            f"{markdown_table(header, lines)}\n\n{scaling_forecast.page()}"
        )
        size = (max(9.0, 4.5 * len(names)), 10.5)
        return Report(rows, page, lambda figure: _draw(figure, names, sent), size)


Sent = dict[tuple[str, str], list[float]]  # bytes by number of ranks, of a set and a system


def _float_bytes(run: Result, ranks: int) -> float:
    """What a rank would send of the same histograms as two float64 per bin."""
    return float(run["histograms"] * run["bins"] * FLOAT_BYTES * (ranks - 1) / ranks)


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


def _draw(figure: Figure, names: list[str], sent: Sent) -> None:
    parts: Any = figure.subfigures(2, 1, height_ratios=(1, 2.6))
    above, below = parts
    scaling_forecast.draw(below)
    axes = above.subplots(1, len(names), squeeze=False)[0]
    for ax, name in zip(axes, names, strict=True):
        for k, (label, volumes) in enumerate((x, v) for (n, x), v in sent.items() if n == name):
            ax.plot(RANKS[1:], [v / 1e6 for v in volumes[1:]], "-o", ms=3, color=COLORS[k],
                    label=label)  # fmt: skip
        ax.set(xscale="log", yscale="log", xlabel="ranks", title=f"{name}, counted")
        ax.set_xticks(RANKS[1:], [str(n) for n in RANKS[1:]])
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("MB per rank and tree")
    axes[0].legend(frameon=False, fontsize=8)
