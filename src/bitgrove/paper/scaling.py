"""Figure 4: distributed training. What is sent is measured; how time scales is a model of it.

Ranks are threads of one process (ThreadComm), so that any machine can count the bytes and the
collectives of a tree and check that every number of ranks gives the same model. The times follow
from them: T(n) = compute / n + bytes / bandwidth + collectives * latency, at the paper's row counts
and network (8 Gbit/s), once with the integer messages and once with two float64 per bin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import bitgrove
from bitgrove.binning import find_edges
from bitgrove.distributed import ThreadComm, run_threads
from bitgrove.paper import lineup
from bitgrove.paper.cells import Cell, Experiment, Report, Result, Results
from bitgrove.paper.machine import markdown_table
from bitgrove.paper.pictures import COLORS
from bitgrove.paper.study import Bench, Study
from bitgrove.paper.systems import Bitgrove
from bitgrove.paper.task import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bitgrove.callbacks import TrainingState

RANKS = (1, 2, 4, 8, 16)
_PAPER_ROWS = {"epsilon": 8_000_000, "criteo": 41_256_555}
_BANDWIDTH = 1e9  # bytes per second: the paper's 8 Gbit/s
_LATENCY = 50e-6  # seconds per collective and doubling of ranks
_FLOAT_BYTES, _INT_BYTES = 16, 8  # per bin: two float64; 32+32 bits, the widest of few-bit sums


class Counter:
    """Counts what one rank sends, and in how many collectives, tree by tree."""

    def __init__(self, comm: ThreadComm) -> None:
        self.n_bytes = self.n_calls = 0
        self.at_tree: list[tuple[int, int]] = []
        others = comm.size - 1
        # A ring sends a vector twice for an allreduce, once per other rank for a gather.
        ring = 2 * others / comm.size
        self._wrap(comm, "allreduce_sum", lambda values: ring * values.nbytes)
        self._wrap(comm, "allreduce_max", lambda values: ring * values.nbytes)
        self._wrap(comm, "allgather", lambda values: others * values.nbytes)
        self._wrap(comm, "reduce_scatter_sum", lambda blocks: _others(blocks, comm.rank))

    def _wrap(self, comm: Any, name: str, sent: Callable[[Any], float]) -> None:
        collective = getattr(comm, name)

        def counted(values: Any, **options: Any) -> Any:
            self.n_bytes += int(sent(values))
            self.n_calls += 1
            return collective(values, **options)

        setattr(comm, name, counted)

    def __call__(self, state: TrainingState) -> None:
        self.at_tree.append((self.n_bytes, self.n_calls))

    def per_tree(self) -> tuple[float, float]:
        """(bytes, collectives) of a tree; the first one is left out, it also pays for the bins."""
        (b0, c0), (b1, c1) = self.at_tree[0], self.at_tree[-1]
        n = max(len(self.at_tree) - 1, 1)
        return (b1 - b0) / n, (c1 - c0) / n


def _others(blocks: Sequence[Any], rank: int) -> int:
    return sum(block.nbytes for k, block in enumerate(blocks) if k != rank)


def plan(study: Study) -> list[Cell]:
    labels = [lineup.FULL, *(lineup.quantized(bits) for bits in study.bits)]
    return [
        Cell(name, f"{label}, {ranks} ranks")
        for name in study.names(("epsilon", "criteo"))
        for label in labels
        for ranks in RANKS
    ]


def measure(cell: Cell, bench: Bench) -> Result:
    label, _, ranks = cell.system.removesuffix(" ranks").rpartition(", ")
    system, task = lineup.system(label, cell.dataset), bench.task(cell.dataset)
    assert isinstance(system, Bitgrove)
    params = {"objective": task.objective, **system.parameters(bench.settings(cell.dataset), 0)}
    params |= {"n_jobs": 1, "histogram_pool_mb": 128}
    starts = _borders(task, int(ranks))

    def work(comm: ThreadComm) -> tuple[bitgrove.Model, Counter, float]:
        shard = _shard(task, *starts[comm.rank : comm.rank + 2])
        counter = Counter(comm)
        model = bitgrove.train(params, shard, comm=comm, callbacks=[counter])
        assert model.info is not None
        return model, counter, model.info.seconds["train"]

    models, counters, seconds = zip(*run_threads(int(ranks), work), strict=True)
    info = models[0].info
    sent, calls = counters[0].per_tree()
    n_trees = len(models[0].trees)
    return {
        "digest": models[0].digest(),
        "bytes": sent,
        "collectives": calls,
        "histograms": sum(info.accumulator_widths.values()) / n_trees,
        "ms": 1e3 * seconds[0] / n_trees,
        "bins": _n_bins(task),
    }


def _n_bins(task: Task) -> int:
    edges = (find_edges(column.astype(np.float64), 255) for column in task.X_train.T)
    return sum(len(found) + 1 for found in edges)


def _borders(task: Task, n_ranks: int) -> list[int]:
    """First rows of the shards; whole queries stay on one rank."""
    n = len(task.X_train)
    wanted = [n * rank // n_ranks for rank in range(n_ranks + 1)]
    if task.group_train is None:
        return wanted
    ends = np.concatenate([[0], np.cumsum(task.group_train)])
    return [int(ends[np.searchsorted(ends, row)]) for row in wanted]


def _shard(task: Task, first: int, last: int) -> bitgrove.Dataset:
    group = task.group_train
    if group is not None:
        ends = np.cumsum(group)
        group = group[(ends > first) & (ends <= last)]
    return bitgrove.Dataset(task.X_train[first:last], task.y_train[first:last], group=group)


def report(study: Study, bench: Bench, results: Results) -> Report:
    lines, rows, models = [], [], {}
    labels = [lineup.FULL, *(lineup.quantized(bits) for bits in study.bits)]
    found = {(c.dataset, c.system): r for c, r in results}
    names = list(dict.fromkeys(cell.dataset for cell, _ in results))
    for name in names:
        for label in labels:
            runs = [found[name, f"{label}, {n} ranks"] for n in RANKS]
            same = len({run["digest"] for run in runs}) == 1
            lines.append([f"{name}, {label}", *(f"{r['bytes'] / 1e6:.3f}" for r in runs[1:]),
                          f"{runs[-1]['collectives']:.0f}", "yes" if same else "NO"])  # fmt: skip
            rows += [{"dataset": name, "system": label, "ranks": n, **r}
                     for n, r in zip(RANKS, runs, strict=True)]  # fmt: skip
        solo, many = (found[name, f"{labels[1]}, {n} ranks"] for n in (1, RANKS[-1]))
        models[name] = _model(name, solo, many, bench.task(name))
    header = ["MB sent per rank and tree", *(f"{n} ranks" for n in RANKS[1:]),
              "collectives", "same model"]  # fmt: skip
    predicted = [
        [f"{name}, {kind}", *(f"{1e3 * t:.0f}" for t in times)]
        for name, kinds in models.items() for kind, times in kinds.items()
    ]  # fmt: skip
    page = (
        f"Measured with ranks as threads, {study.trees} trees:\n\n{markdown_table(header, lines)}"
        "\n\nModel, not measurement: milliseconds per tree at the paper's row counts, compute "
        f"scaled from one rank here, {_BANDWIDTH / 1e9:g} GB/s, {1e6 * _LATENCY:g} us per "
        "collective and doubling; integer messages at their widest (32+32 bits).\n\n"
        f"{markdown_table(['', *(f'{n} machines' for n in RANKS)], predicted)}"
    )
    return Report(rows, page, lambda figure: _draw(figure, models), (4.5 * len(names), 3.6))


def _model(name: str, solo: Result, many: Result, task: Task) -> dict[str, list[float]]:
    """Seconds per tree on n machines, with integer and with float messages."""
    compute = 1e-3 * solo["ms"] * _PAPER_ROWS.get(name, len(task.X_train)) / len(task.X_train)
    times: dict[str, list[float]] = {}
    for kind, size in (("integer messages", _INT_BYTES), ("two float64 per bin", _FLOAT_BYTES)):
        volume = many["histograms"] * many["bins"] * size
        times[kind] = [
            compute / n
            + volume * (n - 1) / n / _BANDWIDTH
            + (many["collectives"] * _LATENCY * np.log2(n) if n > 1 else 0.0)
            for n in RANKS
        ]
    return times


def _draw(figure: Figure, models: dict[str, dict[str, list[float]]]) -> None:
    axes = figure.subplots(1, len(models), squeeze=False)[0]
    for ax, (name, kinds) in zip(axes, models.items(), strict=True):
        for k, (kind, times) in enumerate(kinds.items()):
            ax.plot(RANKS, [1e3 * t for t in times], "-o", ms=3, color=COLORS[k], label=kind)
        first = next(iter(kinds.values()))[0]
        ax.plot(RANKS, [1e3 * first / n for n in RANKS], ":", color="#555555", label="ideal")
        ax.set(xscale="log", yscale="log", xlabel="machines", title=f"{name} (model)")
        ax.set_xticks(RANKS, [str(n) for n in RANKS])
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("ms per tree")
    axes[0].legend(frameon=False, fontsize=8)


FIG4 = Experiment("fig4", "distributed training: messages and scaling", plan, measure, report)
