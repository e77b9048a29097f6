"""The other libraries on the same rows as full_size: how good they become, and how long it takes.

Rows are made on the device and copied to the host, where the libraries train with --threads. They
are judged as ours are: at the iteration that the validation part chose, of every tenth.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lab.datasets.task import Task
from lab.full_size.judge import JUDGES
from lab.full_size.rows import FullTask, arrays_on, make, on_host
from lab.full_size.training import Size, fingerprint, paper_set, quality, size_of
from lab.reporting import markdown_table
from lab.running.experiment import (
    Cell,
    Experiment,
    Report,
    Result,
    Results,
    failures,
    finished,
)
from lab.running.pictures import panels
from lab.running.study import Bench, Study
from lab.systems import lineup
from lab.systems.base import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SETS = ("year", "letor", "higgs")


class FullPeers(Experiment):
    name = "full_size_peers"
    summary = "LightGBM, XGBoost and CatBoost on the rows of full_size"
    devices = ("cpu", "cuda")
    timed = True
    reports_parts = True

    def __init__(self) -> None:
        self._made: tuple[str, FullTask] | None = None

    def plan(self, study: Study) -> list[Cell]:
        labels = lineup.peers(study.peers, study.bits)
        return [Cell(name, label) for name in study.names(_SETS) for label in labels]

    def fingerprint(self, cell: Cell, bench: Bench) -> str:
        return fingerprint(cell.dataset, size_of(bench.study))

    def measure(self, cell: Cell, bench: Bench) -> Result:
        size = size_of(bench.study)
        rows = self._rows(cell.dataset, size)
        system = lineup.labelled(cell.system, cell.dataset)
        settings, task = _settings(cell.dataset, size), _host_task(cell.dataset, rows)
        prepared = system.prepare(task, settings)
        trained = system.train(prepared, settings, cell.seed)
        judge, xp = JUDGES[task.objective], arrays_on(size.device)

        def along(X: Any, every: int) -> Iterator[tuple[int, Any]]:
            """Scores lie where the judges are."""
            for k, scores in system.scores_along(trained.model, X, size.threads, every):
                yield k, xp.asarray(scores)

        parts = [partial(along, on_host(part.X)) for part in (rows.valid, rows.test)]
        facts = quality(task.objective, parts, (judge(xp, rows.valid), judge(xp, rows.test)),
                        settings.n_trees)  # fmt: skip
        ms = 1e3 * trained.seconds / settings.n_trees
        print(f"{cell.dataset}, {cell.system}: binned {prepared.seconds:.1f} s, trained "
              f"{trained.seconds:.1f} s, {facts['metric']} {facts['test']:.6f}",
              flush=True)  # fmt: skip
        return {**facts, "ms": ms, "bin seconds": prepared.seconds, "rows": rows.shape,
                "threads": size.threads, "version": system.version}  # fmt: skip

    def _rows(self, name: str, size: Size) -> FullTask:
        """The last set is kept: its cells follow each other."""
        if self._made is None or self._made[0] != name:
            self._made = None
            self._made = name, make(name, size.rows(name), arrays_on(size.device))
        return self._made[1]

    def report(self, study: Study, bench: Bench, results: Results) -> Report:
        plain = [
            {"dataset": cell.dataset, "system": cell.system, "seed": cell.seed,
             **{key: value for key, value in result.items() if not isinstance(value, list)}}
            for cell, result in results
        ]  # fmt: skip
        return Report(plain, _page(results), partial(_draw, results=finished(results)))


def _settings(name: str, size: Size) -> Settings:
    told = size.settings(name)
    return Settings(
        n_trees=told["n_estimators"], learning_rate=told["learning_rate"],
        num_leaves=told["num_leaves"], max_bin=told["max_bin"],
        min_child_weight=told["min_child_weight"], min_child_samples=told["min_child_samples"],
        n_threads=size.threads,
    )  # fmt: skip


def _host_task(name: str, rows: FullTask) -> Task:
    train, test = rows.train, rows.test
    X_train = np.ascontiguousarray(on_host(train.X))
    # The test rows are walked in slices afterwards; a library's own curve would need them here.
    return Task(name, paper_set(name).objective, X_train, train.y, X_train[:1], test.y[:1],
                group_train=train.group)  # fmt: skip


def _page(results: Results) -> str:
    lines = [
        [f"{cell.dataset}, {cell.system} {r['version']}", f"{r['metric']} {r['test']:.5f}",
         str(r["chosen"]), f"{r['best']:.5f}", f"{r['ms']:.1f}", str(r["threads"])]
        for cell, r in finished(results)
    ]  # fmt: skip
    table = markdown_table(["", "test", "at", "best", "ms per tree", "threads"], lines)
    return f"At the iteration that the validation part chose.\n\n{table}{failures(results)}"


def _draw(figure: Figure, results: list[tuple[Cell, dict[str, Any]]]) -> None:
    """A panel per set: the test metric along the iterations."""
    names = list(dict.fromkeys(cell.dataset for cell, _ in results))
    for ax, name in zip(panels(figure, len(names)), names, strict=False):
        for cell, result in results:
            if cell.dataset == name:
                ax.plot(result["iterations"], result["test curve"], lw=1.1, label=cell.system)
        ax.set_title(name, fontsize=8)
        ax.legend(fontsize=6, frameon=False)
