"""Validation sets of every metric, judged by any backend: the oracle's bits are wanted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.distributed import SoloComm
from bitgrove.distributed.comm import Comm
from bitgrove.objectives.links import EXP, IDENTITY, SOFTMAX, Sigmoid
from bitgrove.objectives.metrics import METRICS, EvalSet, Metric, make_metric

F64 = NDArray[np.float64]
GAINS = 2.0 ** np.arange(31) - 1.0
WEIGHTS = ["none", "fractions", "with zeros", "1e-30 to 1e30"]
SIZES = [1, 7, 700, 5000]
KINDS = ["one", "ties", "several", "labels by output"]
KINDS_OF = {
    "probability": ("one", "ties", "labels by output"),
    "value": ("one", "ties", "several", "labels by output"),
    "score": ("one", "ties", "labels by output"),
    "class probabilities": ("several",),
    "ranking score": ("one", "ties"),
}


class Judged(NamedTuple):
    """A set, its scores (n_outputs, n_rows), and who may judge it."""

    given: EvalSet
    scores: F64
    metrics: list[Metric]


def metrics_for(judges: str, n_outputs: int) -> list[Metric]:
    """Those of queries want one output."""
    found = [make_metric(name) for name, kind in METRICS.items() if judges in kind.judges]
    if judges == "ranking score":
        found += [make_metric(f"{name}@{k}") for name in ("ndcg", "map") for k in (1, 3, 1000)]
    return [m for m in found if n_outputs == 1 or "ranking score" not in m.judges]


def weights(kind: str, n_rows: int, seed: int) -> NDArray[np.float32] | None:
    rng = np.random.default_rng(seed)
    if kind == "none":
        return None
    if kind == "fractions":
        return rng.exponential(size=n_rows).astype(np.float32)
    if kind == "with zeros":
        return np.append(1, rng.integers(0, 3, n_rows - 1)).astype(np.float32)
    return (10.0 ** rng.uniform(-30, 30, n_rows)).astype(np.float32)


def groups(n_rows: int, seed: int) -> NDArray[np.int64]:
    """Of one row, of none, of a few and of many."""
    rng, sizes = np.random.default_rng(seed), [1]
    while sum(sizes) < n_rows:
        sizes.append(min(int(rng.choice([0, 1, 2, 30, 70, 300])), n_rows - sum(sizes)))
    return np.array(sizes)


def judged_sets(n_rows: int, weight: str, kind: str, seed: int = 1) -> Iterator[Judged]:
    """One for each kind of prediction; ties leave few distinct scores."""
    rng = np.random.default_rng(seed)
    n_outputs = 1 if kind in ("one", "ties") else 3
    columns = (n_rows, n_outputs) if kind == "labels by output" else (n_rows,)
    given_weight = weights(weight, n_rows, seed)
    for judges, link in {
        "probability": Sigmoid(1.0), "value": EXP, "score": IDENTITY,
        "class probabilities": SOFTMAX, "ranking score": IDENTITY,
    }.items():  # fmt: skip
        if kind not in KINDS_OF[judges]:
            continue
        scores = rng.normal(size=(n_outputs, n_rows)) * 2
        if kind == "ties":
            scores = np.round(scores)
        label = {
            "probability": rng.integers(0, 2, columns), "value": rng.exponential(size=columns),
            "score": rng.integers(0, 2, columns), "ranking score": rng.integers(0, 5, columns),
            "class probabilities": rng.integers(0, 3, columns),
        }[judges].astype(np.float64)  # fmt: skip
        label.flat[0] = 1.0
        group = groups(n_rows, seed) if n_outputs == 1 else None
        yield Judged(
            EvalSet(label, given_weight, group, GAINS, link), scores, metrics_for(judges, n_outputs)
        )


def judge(backend: Any, sets: Sequence[Judged], comm: Comm | None = None) -> list[list[float]]:
    """By all metrics that the first set names; all sets at once."""
    comm = comm or SoloComm()
    panel = backend.new_panel([one.given for one in sets], comm)
    scores = [backend.upload(one.scores) for one in sets]
    found = panel.judge(sets[0].metrics, scores)
    assert panel.judge(sets[0].metrics, scores) == found  # nothing is left over from a round
    return list(found)


def check_panel(backend: Any, oracle: Any, n_rows: int, weight: str, kind: str) -> None:
    for one in judged_sets(n_rows, weight, kind):
        wanted, found = judge(oracle, [one])[0], judge(backend, [one])[0]
        names = [metric.name for metric in one.metrics]
        assert dict(zip(names, found, strict=True)) == dict(zip(names, wanted, strict=True))


def part(one: Judged, rank: int, size: int) -> Judged:
    """This rank's queries and their rows; the last but one rank has none."""
    given = one.given
    n = len(given.label) if given.group is None else len(given.group)
    parts = np.array_split(np.arange(n), max(size - 1, 1))
    if size > 1:
        parts.insert(size - 2, np.arange(0))
    mine = parts[rank]
    ends = np.arange(1, n + 1) if given.group is None else np.cumsum(given.group)
    starts = np.concatenate([[0], ends])
    rows = slice(starts[mine[0]], ends[mine[-1]]) if len(mine) else slice(0, 0)
    weight = None if given.weight is None else given.weight[rows]
    group = None if given.group is None else given.group[mine]
    own = given._replace(label=given.label[rows], weight=weight, group=group)
    return one._replace(given=own, scores=np.ascontiguousarray(one.scores[:, rows]))
