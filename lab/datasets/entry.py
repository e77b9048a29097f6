"""What a dataset is to the lab: a name, an objective, hyperparameters, and a way to its rows.

Owns Entry, one line of the table, the Wanted rows, sampling and other splits. The kinds of entries:
Generated here, PaperSet in paper_set, Spec in specs, Bundled in bundled.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bitgrove import ParameterError
from lab.datasets.task import Array, Task, run_lengths
from lab.internals import chosen_by_hash

_TEST_PART = 0.5  # of few training rows: a share of a small test set would measure mostly noise
_SAMPLE, _RESPLIT = 77, 78
_RESPLIT_SHARE = 0.2


@dataclass(frozen=True)
class Wanted:
    """The folder with the user's files, the share of the rows, and the most training rows."""

    folder: Path | None = None
    scale: float | None = None
    max_rows: int | None = None

    def share(self, n_train: int) -> float:
        """Of so many training rows."""
        most = 1.0 if self.max_rows is None else self.max_rows / n_train
        return min(1.0 if self.scale is None else self.scale, most)


@dataclass(frozen=True, kw_only=True)
class Entry(ABC):
    name: str
    objective: str
    parameters: dict[str, float] = field(default_factory=lambda: {"num_leaves": 31})

    @abstractmethod
    def found(self, folder: Path | None) -> bool:
        """Can it be loaded with this folder?"""

    @abstractmethod
    def load(self, wanted: Wanted) -> Task: ...

    @abstractmethod
    def source(self) -> str:
        """Where its rows come from, for the reader."""

    def hyperparameters(self, task: Task) -> dict[str, float]:
        """What a training on the task that was loaded is told."""
        return dict(self.parameters)


@dataclass(frozen=True, kw_only=True)
class Generated(Entry):
    """Rows that are made, n_rows of them unless others are wanted."""

    make: Callable[[int, int], Task]
    n_rows: int = 100_000
    test_part: int = 5  # a test row for so many training rows

    def found(self, folder: Path | None) -> bool:
        return True

    def load(self, wanted: Wanted) -> Task:
        n_train = max(round(self.n_rows * wanted.share(self.n_rows)), 1)
        return self.make(n_train, max(n_train // self.test_part, 1))

    def source(self) -> str:
        return f"generated, {self.n_rows:,} rows"


def data_folder(option: str | None) -> Path | None:
    """The folder of the user's files: the option --data, else BITGROVE_DATA, else none."""
    given = option or os.environ.get("BITGROVE_DATA")
    if given and not Path(given).is_dir():
        raise ParameterError(f"--data {given}: no such folder")
    return Path(given) if given else None


def sample(task: Task, share: float) -> Task:
    """About this share of the training rows, chosen by a hash; whole queries where there are any.

    The test set keeps at least half as many rows, as far as it has them.
    """
    train, group = _sampled(task.group_train, len(task.X_train), share, 0)
    few = share_of_test(len(task.X_train), len(task.X_test), share)
    test, group_test = _sampled(task.group_test, len(task.X_test), few, 1)
    weight = None if task.weight_train is None else task.weight_train[train]
    return Task(
        task.name, task.objective, task.X_train[train], task.y_train[train],
        task.X_test[test], task.y_test[test], group, group_test, task.n_classes,
        f"{share:.3g} of the rows", weight,
    )  # fmt: skip


def resplit(task: Task, seed: int, max_rows: int | None = None) -> Task:
    """The same rows with another test fifth, of whole queries where there are any.

    max_rows: about so many training rows at most, and a test set that is not smaller than half.
    """
    X = np.concatenate([task.X_train, task.X_test])
    y = np.concatenate([task.y_train, task.y_test])
    group = None
    if task.group_train is not None and task.group_test is not None:
        group = np.concatenate([task.group_train, task.group_test])
    weight = task.weight_train
    if weight is not None:  # test rows have none of their own: those of other rows
        weight = np.concatenate([weight, np.resize(weight, len(task.X_test))])
    unit = np.arange(len(X)) if group is None else np.repeat(np.arange(len(group)), group)
    is_test = chosen_by_hash(_RESPLIT_SHARE, unit, _RESPLIT, seed)
    train, test = np.flatnonzero(~is_test), np.flatnonzero(is_test)
    new = Task(
        task.name, task.objective, X[train], y[train], X[test], y[test],
        None if group is None else run_lengths(unit[train]),
        None if group is None else run_lengths(unit[test]),
        task.n_classes, task.note, None if weight is None else weight[train],
    )  # fmt: skip
    share = 1.0 if max_rows is None else max_rows / len(train)
    return new if share >= 1.0 else sample(new, share)


def share_of_test(n_train: int, n_test: int, share: float) -> float:
    """The same share of the test rows, or what makes them half as many as the training rows."""
    return min(1.0, max(share, _TEST_PART * share * n_train / n_test))


def _sampled(
    group: Array | None, n_rows: int, share: float, part: int
) -> tuple[Array, Array | None]:
    """(rows kept, sizes of the queries kept)."""
    n_units = n_rows if group is None else len(group)
    kept = chosen_by_hash(share, np.arange(n_units), _SAMPLE, part)
    if not kept.any():
        kept[0] = True
    if group is None:
        return np.flatnonzero(kept), None
    return np.flatnonzero(np.repeat(kept, group)), group[kept]
