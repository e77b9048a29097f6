"""Cases of tests/cases.py whose rows come in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import bitgrove as bg
from bitgrove.distributed.comm import Comm
from cases import Case

# One of each kind: missing values, samples of rows, weights, queries, levels, several outputs.
NAMES = [
    "binary 2 bits", "binary few bins", "binary sampled", "early stopping", "regression weighted",
    "multiclass", "ranking", "ranking early stopping", "wide", "few values", "several targets",
    "categories", "categories multiclass", "categories of slopes multiclass",
]  # fmt: skip


def cut(*arrays: Any, size: int = 190) -> Callable[[], Iterator[Any]]:
    """A function that makes batches of the rows of arrays; the last one has no rows."""
    n_rows = len(arrays[0])

    def batches() -> Iterator[Any]:
        for first in [*range(0, n_rows, size), n_rows]:
            rows = tuple(array[first : first + size] for array in arrays)
            yield rows if len(rows) > 1 else rows[0]

    return batches


def streamed(case: Case, rows: slice = slice(None), group: Any = None) -> bg.Dataset:
    """The training rows of a case, or of one rank."""
    weight = None if case.weight is None else case.weight[rows]
    make = cut(case.X[rows], case.y[rows])
    return bg.Dataset.from_batches(make, weight=weight, group=group, **case.kinds)


def streamed_valid(case: Case) -> bg.Dataset | None:
    if case.valid is None:
        return None
    X, y, group = case.valid
    return bg.Dataset.from_batches(cut(X, size=70), y, group=group)


def train(case: Case, **changes: Any) -> bg.Model:
    dataset = streamed(case, group=case.group)
    return bg.train({**case.params, **changes}, dataset, valid_sets=streamed_valid(case))


def train_shard(case: Case, comm: Comm) -> bg.Model:
    """This rank's model; the first rank has no rows."""
    borders = case._borders(comm.size, "empty")
    rows, group = slice(borders[comm.rank], borders[comm.rank + 1]), case.group
    if group is not None:
        ends = np.cumsum(group)
        group = group[(ends > rows.start) & (ends <= rows.stop)]
    return bg.train(case.params, streamed(case, rows, group), comm=comm)
