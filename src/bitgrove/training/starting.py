"""Where a training starts: at a constant, at the rows' own scores, or from a finished model.

Owns the scores before the first tree. Receives what the user gave as init_model; returns the same
Model on all ranks, checked against the training, and the scores that it gives to rows. Its trees
stay as they are, in front of the new ones. Scores are sums over a row's leaves in the order of the
trees: the same bits everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends import Backend
from bitgrove.data.device_tables import on_host
from bitgrove.data.sparse.tables import SparseColumns, rows_of
from bitgrove.distributed.agreement import agree_on
from bitgrove.distributed.comm import Comm
from bitgrove.errors import DataError, DataTypeError, ParameterError
from bitgrove.machine.files import PathLike
from bitgrove.model.exchange import import_model
from bitgrove.model.model import Model
from bitgrove.model.predict import predict_scores, starts_of

F64 = NDArray[np.float64]

if TYPE_CHECKING:
    from bitgrove.data.dataset import Dataset
    from bitgrove.objectives import Objective
    from bitgrove.params import TrainParams


def shared_model(given: Model | PathLike | None, comm: Comm, what: str) -> Model | None:
    """The model (or its file, that rank 0 can read) of rank 0 on all ranks; None without one."""
    agree_on(comm, f"{what} given", given is not None)
    if given is None:
        return None
    content = np.zeros(0, dtype=np.uint8)
    if comm.rank == 0:
        given = getattr(given, "model_", given)  # of a fitted estimator
        if not isinstance(given, (Model, str, os.PathLike)):
            raise DataTypeError(f"{what}: a Model or a file, got {type(given).__name__}")
        model = given if isinstance(given, Model) else import_model(given)
        content = np.frombuffer(model.to_bytes(), dtype=np.uint8)
    return Model.from_bytes(comm.broadcast(content).tobytes())


def check_continues(model: Model, objective: Objective, dataset: Dataset) -> None:
    """Refuses a model whose scores mean something else, or that knows other features."""
    if model.objective != objective.name:
        raise ParameterError(
            f"init_model has objective {model.objective!r}, this training {objective.name!r}"
        )
    if model.n_outputs != objective.n_outputs:
        raise DataError(
            f"init_model has {model.n_outputs} outputs, this training {objective.n_outputs}"
        )
    if model.feature_names != dataset.feature_names:
        raise DataError("init_model has other features than the training set")
    if dataset.init_score is not None:
        raise DataError("init_score: not together with init_model")
    known = {} if model.encoder is None else model.encoder.levels
    for f in sorted(f for f in dataset.levels if f not in known and len(dataset.levels[f])):
        raise DataError(
            f"init_model: column {model.feature_names[f]!r} holds text or categories, but the "
            "model knows it as a number"
        )


def raw_scores(model: Model, dataset: Dataset, n_jobs: int | None) -> NDArray[np.float64]:
    """(n_outputs, n_rows), of raw rows: the bins of this training may be others."""
    if dataset.n_rows == 0:
        return np.zeros((model.n_outputs, 0))
    parts: list[Any] = [
        model.predict_raw(part, n_jobs=n_jobs, device="cpu") for part in dataset.in_parts()
    ]
    found = np.concatenate(parts) if len(parts) > 1 else parts[0]
    return np.ascontiguousarray(found.reshape(dataset.n_rows, model.n_outputs).T)


def column_scores(model: Model, columns: Sequence[Any], n_jobs: int | None) -> NDArray[np.float64]:
    """(n_outputs, n_rows), of the columns that the model's trees see."""
    if len(columns[0]) == 0:
        return np.zeros((model.n_outputs, 0))
    rows: Any
    if isinstance(columns, SparseColumns):
        rows = rows_of(columns)
    else:
        rows = np.stack([on_host(column) for column in columns], axis=1)
    found = predict_scores(model.forest, rows, model.base_score, model.n_iterations, n_jobs)
    return np.ascontiguousarray(found.T)


def base_scores(
    params: TrainParams,
    objective: Objective,
    dataset: Dataset,
    weight: NDArray[np.float32] | None,
    comm: Comm,
) -> F64:
    """Where the score of each output starts: as given, zero, or the best constant."""
    n_outputs, given = objective.n_outputs, params.base_score
    if dataset.init_score is not None:
        if given is not None:
            raise ParameterError(f"base_score={given!r}: the Dataset has an init_score already")
        return np.zeros(n_outputs)
    if given is not None:
        if len(given) not in (1, n_outputs):
            raise ParameterError(
                f"base_score={given!r}: {len(given)} values for {n_outputs} outputs"
            )
        found = np.array([objective.link.score(value) for value in given])
        return np.broadcast_to(found, (n_outputs,)).copy()
    if not params.boost_from_average:
        return np.zeros(n_outputs)
    assert dataset.label is not None
    return objective.base_scores(dataset.label, weight, comm)


def start_scores(
    backend: Backend, base_score: F64, n_rows: int, init_score: F64 | None = None
) -> Any:
    """(n_outputs, n_rows) on the backend: each output's base score, or the rows' own."""
    starts = starts_of(base_score, init_score)
    if init_score is None:
        return backend.upload(np.broadcast_to(starts[:, None], (len(starts), n_rows)))
    return backend.upload(np.ascontiguousarray(starts.T))
