"""What a report is about: a model, and the rows it is shown with.

Owns Subject. Receives a Model and what the user gave; returns checked labels, predictions and SHAP
values of the rows, each made once, and samples of rows that depend on nothing but their number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.exact_math import hash_key, row_hash
from bitgrove.data.dataset import Dataset
from bitgrove.data.device_tables import on_host
from bitgrove.errors import DataError
from bitgrove.model.judged import (
    GivenRows,
    judged_rows,
    objective_of,
    predicted,
    score,
    weights_of,
)
from bitgrove.objectives import Objective
from bitgrove.objectives.metrics import Metric

if TYPE_CHECKING:
    from bitgrove.model.model import Model
    from bitgrove.report import Curves

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
MOST_EXPLAINED = 500  # rows with SHAP values
_PURPOSE = 11  # of the hash that samples rows


@dataclass(frozen=True, eq=False)
class Subject:
    """rows: None where the report shows the model alone; they have a label where y is known."""

    model: Model
    objective: Objective
    rows: Dataset | None
    title: str
    evals_result: Curves

    @classmethod
    def of(
        cls, model: Model, given: GivenRows, title: str | None = None, curves: Curves | None = None
    ) -> Subject:
        rows = None if given.X is None else judged_rows(model, given)
        if rows is None and any(part is not None for part in given):
            raise DataError("y, sample_weight, group and qid need the rows of X")
        curves = curves or (model.info.evals_result if model.info is not None else {})
        title = title or f"A {model.objective} model"
        return cls(model, objective_of(model), rows, title, curves)

    @property
    def n_rows(self) -> int:
        return 0 if self.rows is None else self.rows.n_rows

    @property
    def label(self) -> F64 | None:
        return None if self.rows is None else self.rows.label

    @cached_property
    def weight(self) -> F64:
        assert self.rows is not None
        return weights_of(self.rows)

    @cached_property
    def prediction(self) -> F64:
        """(n_rows,) or (n_rows, n_outputs)."""
        assert self.rows is not None
        return predicted(self.model, self.rows)

    @property
    def output_names(self) -> list[str]:
        """Of what the predictions are about: classes, labels, quantiles, or one nameless."""
        model = self.model
        if model.n_outputs == 1:
            return [""]
        if levels := self.objective.quantile_levels:
            return [f"{100.0 * level:g} % quantile" for level in levels]
        if model.classes is not None and len(model.classes) == model.n_outputs:
            return [str(name) for name in model.classes]
        return [f"output {k}" for k in range(model.n_outputs)]

    def output(self, k: int) -> F64:
        """The predictions of one output."""
        return self.prediction if self.prediction.ndim == 1 else self.prediction[:, k]

    def label_of(self, k: int) -> F64:
        """What the predictions of one output are compared with."""
        assert self.label is not None
        return self.label if self.label.ndim == 1 else self.label[:, k]

    def sampled(self, n_most: int) -> I64:
        """Numbers of at most so many rows, increasing; a smaller sample is part of a larger one."""
        return np.sort(self._drawn[:n_most])

    @cached_property
    def _drawn(self) -> I64:
        """All rows, in the order in which samples take them."""
        numbers = np.arange(self.n_rows, dtype=np.uint64)
        hashes = row_hash(hash_key(0, _PURPOSE), numbers)
        return np.argsort(hashes, kind="stable").astype(np.int64)

    @property
    def explains(self) -> bool:
        """Whether there are rows to explain, and splits that explain them."""
        return self.rows is not None and any(tree.n_splits for tree in self.model.trees)

    @cached_property
    def explained(self) -> I64:
        """The rows with SHAP values: fewer, where there are many outputs."""
        return self.sampled(max(150, min(MOST_EXPLAINED, 3000 // self.model.n_outputs)))

    @cached_property
    def contributions(self) -> F64:
        """(n_explained, n_outputs, n_features + 1): SHAP values, the expected score last."""
        assert self.rows is not None
        shape = (len(self.explained), self.model.n_outputs, self.model.n_features + 1)
        found = self.model.predict(self.rows.subset(self.explained), pred_contrib=True)
        return np.asarray(on_host(found), np.float64).reshape(shape)

    def score(self, name: str) -> tuple[Metric, float]:
        """A metric of the predictions."""
        assert self.rows is not None
        return score(self.objective, name, self.rows, self.prediction)

    def shown_values(self, feature: int, rows: I64) -> list[Any]:
        """The values of a feature as a reader knows them: numbers, names of levels, None."""
        assert self.rows is not None
        column = np.asarray(on_host(self.rows.columns[feature]))[rows]
        levels = self.rows.levels.get(feature)
        if levels is None:
            return [None if np.isnan(value) else float(value) for value in column]
        names = [str(value) for value in levels.values.tolist()]
        return [None if np.isnan(code) else names[int(code)] for code in column]
