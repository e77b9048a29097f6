"""One run on a full-size set: what it is told, how long its trees take, how good it becomes.

Owns FullBench, which makes each set once and keeps it, binned, on the device, and run(), the facts
of one training. Nothing is evaluated while it trains: afterwards the forest is walked in slices, so
that times are those of training alone.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import bitgrove
from lab.datasets.paper_set import PaperSet
from lab.datasets.table import known
from lab.full_size.judge import JUDGES, Judge
from lab.full_size.rows import FullTask, arrays_on, make
from lab.internals import bin_once, scores_along
from lab.running.study import Study
from lab.scoring import HIGHER_IS_BETTER, METRICS

# Test rows beyond these would only cost time: half a million tell 0.0005 of AUC apart.
_MOST_TEST = 500_000
# What of the paper's 500 trees a run can afford on the largest sets.
TREES = {"epsilon": 300, "kitsune": 300, "criteo": 200}
_LEAST_ROWS = 200
_FIRST_TREES = 3  # not timed: kernels are compiled and memory is taken
_STEPS = 50  # values of a curve
_ROWS_VERSION = 1  # of the recipes


@dataclass(frozen=True)
class Size:
    """The rows, trees and leaves of a study."""

    max_rows: int | None
    trees: int
    leaves: int | None
    device: str
    threads: int

    def rows(self, name: str) -> tuple[int, int, int]:
        """Training, validation and test rows: the paper's, or the same share of both."""
        entry = paper_set(name)
        n_train = min(entry.n_train, self.max_rows or entry.n_train)
        n_test = min(entry.n_test, _MOST_TEST, max(n_train // 2, _LEAST_ROWS))
        return n_train, n_test, n_test

    def settings(self, name: str) -> dict[str, Any]:
        """The paper's (Appendix C); what it leaves out is LightGBM's default."""
        entry = paper_set(name)
        share = self.rows(name)[0] / entry.n_train
        chosen = {
            **entry.parameters,
            "min_child_weight": max(entry.parameters["min_child_weight"] * share, 1.0),
            "objective": entry.objective,
            "n_estimators": min(self.trees, TREES.get(name, self.trees)),
            "max_bin": 255, "min_child_samples": 20, "reg_lambda": 0.0,
            # Edges are found on the host: of wide sets a smaller sample does.
            "bin_sample_rows": 200_000 if entry.n_features < 500 else 30_000,
            "device": self.device, "n_jobs": self.threads,
        }  # fmt: skip
        if self.leaves is not None:
            chosen["num_leaves"] = self.leaves
        return chosen


def size_of(study: Study) -> Size:
    return Size(study.wanted.max_rows, study.trees, study.leaves, study.device, study.threads)


def fingerprint(name: str, size: Size) -> str:
    """Changes with the rows and what the libraries are told, not with the machine."""
    settings = size.settings(name)
    del settings["device"], settings["n_jobs"]  # pages are made elsewhere than runs
    facts = [_ROWS_VERSION, size.rows(name), settings]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]


def paper_set(name: str) -> PaperSet:
    entry = known(name)
    if not isinstance(entry, PaperSet):
        raise bitgrove.ParameterError(f"dataset {name!r}: full_size knows the paper's eight only")
    return entry


@dataclass(eq=False)
class FullSet:
    """A set on the device."""

    task: FullTask
    data: bitgrove.Dataset
    valid: Judge
    test: Judge
    seconds: dict[str, float]


class FullBench:
    """All sets that were asked for so far; a GPU has room for the eight of them."""

    def __init__(self, size: Size) -> None:
        self.size = size
        self._sets: dict[str, FullSet] = {}
        self._failed: dict[str, Exception] = {}

    def get(self, name: str) -> FullSet:
        if name in self._failed:  # once is enough: making it takes time
            raise self._failed[name]
        if name not in self._sets:
            try:
                self._sets[name] = self._made(name)
            except Exception as error:
                self._failed[name] = error
                raise
        return self._sets[name]

    def _made(self, name: str) -> FullSet:
        xp, started = arrays_on(self.size.device), time.perf_counter()
        task = make(name, self.size.rows(name), xp)
        made = time.perf_counter()
        train = task.train
        data = bitgrove.Dataset(train.X, train.y, group=train.group)
        bin_once(self.size.settings(name), data)
        if xp is not np:
            xp.get_default_memory_pool().free_all_blocks()
        seconds = {"make": made - started, "bin": time.perf_counter() - made}
        judge = JUDGES[paper_set(name).objective]
        return FullSet(task, data, judge(xp, task.valid), judge(xp, task.test), seconds)


def run(bench: FullBench, name: str, params: dict[str, Any], seed: int) -> dict[str, Any]:
    """Trains, and judges the model along its iterations: plain numbers and lists of them."""
    full, began = bench.get(name), time.perf_counter()
    settings = {**bench.size.settings(name), **params, "random_state": seed}
    moments = [time.perf_counter()]
    model = bitgrove.train(
        settings, full.data, callbacks=[lambda _: moments.append(time.perf_counter())]
    )
    trained = time.perf_counter()
    facts = {**_quality(model, full), **_times(moments), **_inside(model, full)}
    print(
        f"{name}: {full.task.shape}; seed {seed}; made {full.seconds['make']:.1f} s, binned "
        f"{full.seconds['bin']:.1f} s; trained {trained - began:.2f} s, "
        f"{facts['ms']:.2f} ms per tree; judged {time.perf_counter() - trained:.2f} s; "
        f"{facts['metric']} {facts['test']:.6f}",
        flush=True,
    )
    return {**facts, "rows": full.task.shape, "trees": len(model.trees), "seconds": full.seconds}


# (iteration, scores) after every so many iterations of a model
Along = Callable[[int], Iterator[tuple[int, Any]]]


def _quality(model: bitgrove.Model, full: FullSet) -> dict[str, Any]:
    along = [partial(scores_along, model, part.X) for part in (full.task.valid, full.task.test)]
    return quality(model.objective, along, (full.valid, full.test), model.n_iterations)


def quality(
    objective: str, along: Sequence[Along], judges: tuple[Judge, Judge], n_iterations: int
) -> dict[str, Any]:
    """The metric on the test rows at the iteration that validation chose, drawn again; and best.

    along and judges: of the validation rows, then of the test rows.
    """
    metric = METRICS[objective][0]
    better = max if HIGHER_IS_BETTER[metric] else min
    every = max(1, n_iterations // _STEPS)
    valid = [(k, judges[0].value(scores)) for k, scores in along[0](every)]
    chosen = better(valid, key=lambda point: point[1])[0]
    test, kept = [], None
    for iteration, scores in along[1](every):
        test.append((iteration, judges[1].value(scores)))
        kept = scores if iteration == chosen else kept
    best = better(test, key=lambda point: point[1])
    return {
        "metric": metric, "chosen": chosen, "test": dict(test)[chosen],
        "best": best[1], "best iteration": best[0],
        "iterations": [k for k, _ in test],
        "valid curve": [value for _, value in valid], "test curve": [value for _, value in test],
        "drawn": judges[1].drawn_again(kept),
    }  # fmt: skip


def _times(moments: list[float]) -> dict[str, Any]:
    """Milliseconds of a tree: mean, standard deviation of ten parts' means, median."""
    trees = 1e3 * np.diff(moments)
    rest = trees[min(_FIRST_TREES, len(trees) - 1) :]
    parts = [float(part.mean()) for part in np.array_split(rest, min(10, len(rest)))]
    return {"ms": float(rest.mean()), "ms parts": parts, "ms median": float(np.median(rest)),
            "first ms": trees[:_FIRST_TREES].tolist()}  # fmt: skip


def _inside(model: bitgrove.Model, full: FullSet) -> dict[str, Any]:
    """Widths, zero rows, rounds and average hessians: figures 5 and 8."""
    info = model.info
    assert info is not None
    n_rows, at = full.data.n_rows, np.unique(np.linspace(0, len(model.trees) - 1, 50).astype(int))
    mean_hess = [tree.leaf_hess / np.maximum(tree.leaf_rows, 1) for tree in model.trees]
    quantiles = {
        key: [float(np.quantile(mean_hess[k], share)) for k in at]
        for key, share in (("hess 10%", 0.1), ("hess 90%", 0.9))
    }
    return {
        "widths": dict(info.accumulator_widths),
        "rounds": float(np.mean(info.rounds_per_tree)),
        "zero share": [info.zero_rows[k] / n_rows for k in at],
        "at": at.tolist(),
        "hess": [float(mean_hess[k].mean()) for k in at], **quantiles,
        "leaves": float(np.mean([tree.n_leaves for tree in model.trees])),
    }  # fmt: skip
