"""One problem to train on: its training and test rows.

Owns Rows, which can be cut into shards and become a Dataset, and Task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bitgrove

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Rows:
    """A table that can be cut into contiguous shards, for ranking at query borders."""

    X: Array
    y: Array
    weight: Array | None = None
    group: Array | None = None

    def shard(self, rank: int, size: int) -> Rows:
        n_units = len(self.y) if self.group is None else len(self.group)
        first, last = n_units * rank // size, n_units * (rank + 1) // size
        group = None if self.group is None else self.group[first:last]
        if self.group is not None:
            starts = np.concatenate([[0], np.cumsum(self.group)])
            first, last = int(starts[first]), int(starts[last])
        weight = None if self.weight is None else self.weight[first:last]
        return Rows(self.X[first:last], self.y[first:last], weight, group)

    def dataset(self) -> bitgrove.Dataset:
        return bitgrove.Dataset(self.X, self.y, weight=self.weight, group=self.group)


@dataclass(frozen=True, eq=False)
class Task:
    """One problem, ready to train on: float32 features and labels, query sizes for ranking."""

    name: str
    objective: str
    X_train: Array
    y_train: Array
    X_test: Array
    y_test: Array
    group_train: Array | None = None
    group_test: Array | None = None
    n_classes: int = 1
    note: str = ""
    weight_train: Array | None = None

    @classmethod
    def cut(cls, name: str, objective: str, X: Array, y: Array, n_train: int, **more: Any) -> Task:
        """The first n_train rows train, the others test."""
        return cls(name, objective, X[:n_train], y[:n_train], X[n_train:], y[n_train:], **more)

    @property
    def shape(self) -> str:
        return f"{len(self.X_train):,} x {self.X_train.shape[1]}, {len(self.X_test):,} test rows"

    @property
    def train(self) -> Rows:
        return Rows(self.X_train, self.y_train, self.weight_train, self.group_train)

    @property
    def test(self) -> Rows:
        return Rows(self.X_test, self.y_test, None, self.group_test)


def run_lengths(query: Array) -> Array:
    """Lengths of the runs of equal query ids."""
    starts = np.flatnonzero(np.concatenate([[True], query[1:] != query[:-1]]))
    return np.diff(np.append(starts, len(query)))
