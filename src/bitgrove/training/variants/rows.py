"""Which rows a tree is grown on, whatever their gradients: all, or a part drawn by hash.

Owns RowDraws, what a Booster asks of any way of drawing rows, and Bagging. Rows are drawn alone, by
query, or by class with a share of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends.base import Backend
from bitgrove.backends.told import OutputGradients
from bitgrove.data.dataset import Dataset
from bitgrove.data.row_ids import RowRuns, row_ids
from bitgrove.data.sampling import Sample, row_sample, rows_key, share_limit
from bitgrove.distributed.comm import Comm
from bitgrove.errors import DataError, ParameterError
from bitgrove.objectives import Objective
from bitgrove.params import TrainParams

U64 = NDArray[np.uint64]


@dataclass
class TrainingRows:
    """The rows of this rank, and what they mean."""

    dataset: Dataset
    objective: Objective
    backend: Backend
    runs: RowRuns
    comm: Comm


class DrawnRows(NamedTuple):
    """What one tree sees of the rows."""

    rows: Any  # row list on the backend
    gradients: OutputGradients  # what its splits are found from
    # The largest |gradient| and hessian of all rows, where `gradients` holds only some of them.
    largest: tuple[float, float] | None = None


class RowDraws(ABC):
    """One training's way of drawing rows."""

    name: ClassVar[str]

    def __init__(self, params: TrainParams, data: TrainingRows) -> None:
        self.params, self.data = params, data

    @property
    @abstractmethod
    def is_random(self) -> bool:
        """Whether trees see different rows."""

    def sample(self, iteration: int) -> Sample | None:
        """The rows that trees of an iteration are grown and fitted on; None: all."""
        return None

    @abstractmethod
    def draw(self, gradients: OutputGradients, iteration: int, tree: int) -> DrawnRows: ...


class Bagging(RowDraws):
    """Rows that every tree of an iteration sees, and no others."""

    name = "bagging"

    def __init__(self, params: TrainParams, data: TrainingRows) -> None:
        super().__init__(params, data)
        self._ids: Any = None
        self._limits: Any = None
        if params.bagging_by_query:
            self._ids = data.backend.upload(_query_ids(data))
        if (params.pos_bagging_fraction, params.neg_bagging_fraction) != (1.0, 1.0):
            self._limits = data.backend.upload(_class_limits(params, data))

    @property
    def is_random(self) -> bool:
        return self.sample(0) is not None

    def sample(self, iteration: int) -> Sample | None:
        params = self.params
        if self._limits is not None and params.subsample_freq > 0:
            return Sample(rows_key(params, iteration), 0, self._ids, self._limits)
        found = row_sample(params, iteration)
        return None if found is None else found._replace(ids=self._ids)

    def draw(self, gradients: OutputGradients, iteration: int, tree: int) -> DrawnRows:
        data = self.data
        return DrawnRows(data.backend.select_rows(data.runs, self.sample(iteration)), gradients)


def _query_ids(data: TrainingRows) -> U64:
    """Of each row: the id of the first row of its query, which lies whole on this rank."""
    group = data.dataset.group
    if group is None:
        if data.dataset.n_rows == 0:
            return np.zeros(0, dtype=np.uint64)
        raise DataError("bagging_by_query=True: the training set has no group or qid")
    sizes = group[group > 0]
    first = row_ids(data.runs)[np.cumsum(sizes) - sizes]
    return np.repeat(first, sizes)


def _class_limits(params: TrainParams, data: TrainingRows) -> U64:
    """Of each row: the limit of its class."""
    if data.objective.n_classes != 2 or data.objective.n_outputs != 1:
        raise ParameterError(
            "pos_bagging_fraction and neg_bagging_fraction: need an objective of two classes, not "
            f"{data.objective.name!r}"
        )
    if params.subsample < 1.0:
        raise ParameterError(
            f"subsample={params.subsample!r}: not together with pos_bagging_fraction and "
            "neg_bagging_fraction"
        )
    label = data.dataset.label
    assert label is not None, "the objective refuses data without labels"
    shares = (params.neg_bagging_fraction, params.pos_bagging_fraction)
    limits = np.array([share_limit(share) for share in shares], dtype=np.uint64)
    return limits[(label > 0).astype(np.intp)]
