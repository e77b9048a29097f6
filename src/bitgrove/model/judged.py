"""Rows with their truth, on which a model is judged.

Owns GivenRows and how they are checked: the report, permutation importance and refit read alike.
Receives what the user gave; returns a Dataset whose labels are the model's, and its predictions and
their metrics. Scores begin where the rows say, if they do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.data.dataset import Dataset
from bitgrove.data.device_tables import on_host
from bitgrove.data.prediction_rows import rows_for_prediction
from bitgrove.data.tables import collected, column_names
from bitgrove.distributed.comm import SoloComm
from bitgrove.errors import DataError
from bitgrove.model.predict import predict_scores, starts_of
from bitgrove.objectives import OBJECTIVES, Objective
from bitgrove.objectives.metrics import EvalData, Metric, make_metric

if TYPE_CHECKING:
    from bitgrove.model.model import Model

F64 = NDArray[np.float64]


class GivenRows(NamedTuple):
    """The rows as the user gave them."""

    X: Any = None
    y: Any = None
    weight: Any = None
    group: Any = None
    qid: Any = None
    init_score: Any = None


def objective_of(model: Model) -> Objective:
    """What the model was trained for, with its parameters."""
    return OBJECTIVES[model.objective].for_model(model.params, model.n_outputs)


def judged_rows(model: Model, given: GivenRows) -> Dataset:
    """The rows, with labels as the model's objective has them; without y they have none."""
    rows = dataset_of(model, given).without_zero_weights()
    if rows.n_rows == 0:
        raise DataError("X has no rows (rows of weight zero aside)")
    if rows.label is not None:
        _check_label(objective_of(model), model, rows)
    return rows


def weights_of(rows: Dataset) -> F64:
    return np.ones(rows.n_rows) if rows.weight is None else rows.weight.astype(np.float64)


def score(
    objective: Objective, name: str | Any, rows: Dataset, prediction: F64
) -> tuple[Metric, float]:
    """A metric of predictions for these rows, which have labels."""
    assert rows.label is not None
    metric = make_metric(name).for_objective(objective)
    data = EvalData(prediction, rows.label, weights_of(rows), rows.group, objective.gains)
    return metric, metric.compute(data, SoloComm())


def predicted(model: Model, rows: Dataset, n_jobs: int | None = None, table: Any = None) -> F64:
    """Predictions of the rows; table: their values as the forest reads them, where others."""
    if table is None:
        table = rows_for_prediction(rows, model.feature_names, model.encoder)
    starts = starts_of(model.base_score, rows.init_score)
    scores = predict_scores(model.forest, table, starts, model._n_used(None), n_jobs)
    return objective_of(model).link.predictions(scores)


def dataset_of(model: Model, given: GivenRows) -> Dataset:
    """The rows, with labels as codes of the model's classes, where it has such."""
    if isinstance(given.X, Dataset):
        if any(part is not None for part in given[1:]):
            raise DataError("a Dataset has its own label, weight, group and init_score")
        return given.X
    X, y = collected(given.X), given.y
    if y is not None:
        y = np.asarray(on_host(y))
        y = y if y.ndim == 2 and y.shape[1] > 1 else _codes(model, y.ravel())
    names = column_names(X)
    # Other columns than the model's are an error of `predict`, which says it best.
    known = model.encoder is not None and names in (None, model.feature_names)
    listed = sorted(model.encoder.levels) if model.encoder is not None and known else []
    return Dataset(
        X,
        y,
        weight=given.weight,
        group=given.group,
        qid=given.qid,
        init_score=given.init_score,
        feature_names=model.feature_names if names is None else None,
        categorical_feature=listed or "auto",
    )


def _codes(model: Model, label: Any) -> Any:
    """Labels as numbers: the codes of the model's classes, where it knows them."""
    classes = model.class_labels()
    if classes is None:
        return label
    given = np.asarray(label)
    code = {name: number for number, name in enumerate(classes.tolist())}
    strange = [name for name in dict.fromkeys(given.tolist()) if name not in code]
    if strange:
        raise DataError(f"label: the model does not know the class {strange[0]!r}")
    return np.array([code[name] for name in given.tolist()], dtype=np.float64)


def _check_label(objective: Objective, model: Model, rows: Dataset) -> None:
    assert rows.label is not None
    n_columns = 1 if rows.label.ndim == 1 else rows.label.shape[1]
    wanted = model.n_outputs if objective.takes_columns else 1
    if n_columns != wanted:
        raise DataError(f"y has {n_columns} columns, that of the training {wanted}")
    objective.check_labels(rows.label)
    top = objective.top_label
    if top is not None and ((rows.label < 0) | (rows.label > top)).any():
        raise DataError(f"y must hold whole numbers from 0 to {top}")
    if objective.needs_queries and rows.group is None:
        raise DataError("a ranking is judged by query; give group or qid")
