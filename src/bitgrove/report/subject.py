"""What a report is about: a model, and the rows it is shown with.

Owns Subject. Receives a Model and what the user gave; returns checked labels, predictions and SHAP
values of the rows, each made once, and samples of rows that depend on nothing but their number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.exact_math import hash_key, row_hash
from bitgrove.data.dataset import Dataset
from bitgrove.data.device_tables import on_host
from bitgrove.data.tables import collected, column_names
from bitgrove.distributed.comm import SoloComm
from bitgrove.errors import DataError
from bitgrove.model.refit import labels_of
from bitgrove.objectives import OBJECTIVES, Objective
from bitgrove.objectives.metrics import EvalData, Metric, make_metric

if TYPE_CHECKING:
    from bitgrove.model.model import Model
    from bitgrove.report import Curves

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
MOST_EXPLAINED = 500  # rows with SHAP values
_PURPOSE = 11  # of the hash that samples rows


class GivenRows(NamedTuple):
    """The rows as the user gave them."""

    X: Any = None
    y: Any = None
    weight: Any = None
    group: Any = None
    qid: Any = None


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
        objective = OBJECTIVES[model.objective].for_model(model.params, model.n_outputs)
        rows = None if given.X is None else _dataset(model, given)
        if rows is None and any(part is not None for part in given):
            raise DataError("report: y, sample_weight, group and qid need the rows of X")
        if rows is not None and rows.label is not None:
            _check_label(objective, model, rows)
        curves = curves or (model.info.evals_result if model.info is not None else {})
        title = title or f"A {model.objective} model"
        return cls(model, objective, rows, title, curves)

    @property
    def n_rows(self) -> int:
        return 0 if self.rows is None else self.rows.n_rows

    @property
    def label(self) -> F64 | None:
        return None if self.rows is None else self.rows.label

    @cached_property
    def weight(self) -> F64:
        given = None if self.rows is None else self.rows.weight
        return np.ones(self.n_rows) if given is None else given.astype(np.float64)

    @cached_property
    def prediction(self) -> F64:
        """(n_rows,) or (n_rows, n_outputs)."""
        return np.asarray(on_host(self.model.predict(self.rows)), np.float64)

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
        assert self.rows is not None and self.label is not None
        metric = make_metric(name).for_objective(self.objective)
        data = EvalData(
            self.prediction, self.label, self.weight, self.rows.group, self.objective.gains
        )
        return metric, metric.compute(data, SoloComm())

    def shown_values(self, feature: int, rows: I64) -> list[Any]:
        """The values of a feature as a reader knows them: numbers, names of levels, None."""
        assert self.rows is not None
        column = np.asarray(on_host(self.rows.columns[feature]))[rows]
        levels = self.rows.levels.get(feature)
        if levels is None:
            return [None if np.isnan(value) else float(value) for value in column]
        names = [str(value) for value in levels.values.tolist()]
        return [None if np.isnan(code) else names[int(code)] for code in column]


def _dataset(model: Model, given: GivenRows) -> Dataset:
    if isinstance(given.X, Dataset):
        if any(part is not None for part in given[1:]):
            raise DataError("report: a Dataset has its own label, weight and group")
        rows = given.X
    else:
        X, y = collected(given.X), given.y
        if y is not None:
            y = np.asarray(on_host(y))
            y = y.astype(np.float64) if y.ndim == 2 else labels_of(model, y)
        names = column_names(X)
        # Other columns than the model's are an error of `predict`, which says it best.
        known = model.encoder is not None and names in (None, model.feature_names)
        listed = sorted(model.encoder.levels) if model.encoder is not None and known else []
        rows = Dataset(
            X,
            y,
            weight=given.weight,
            group=given.group,
            qid=given.qid,
            feature_names=model.feature_names if names is None else None,
            categorical_feature=listed or "auto",
        )
    rows = rows.without_zero_weights()
    if rows.n_rows == 0:
        raise DataError("report: X has no rows (rows of weight zero aside)")
    return rows


def _check_label(objective: Objective, model: Model, rows: Dataset) -> None:
    assert rows.label is not None
    n_columns = 1 if rows.label.ndim == 1 else rows.label.shape[1]
    wanted = model.n_outputs if objective.takes_columns else 1
    if n_columns != wanted:
        raise DataError(f"report: y has {n_columns} columns, that of the training {wanted}")
    objective.check_labels(rows.label)
    top = objective.top_label
    if top is not None and ((rows.label < 0) | (rows.label > top)).any():
        raise DataError(f"report: y must hold whole numbers from 0 to {top}")
    if objective.needs_queries and rows.group is None:
        raise DataError("report: a ranking is judged by query; give group or qid")
