"""Prediction on raw rows: scores and leaves of a whole forest.

Receives a forest (tree.make_forest) and a C-contiguous float32 or float64 table, or a sparse one
stored by rows; returns scores that are bit-equal to the training scores, because each row adds its
leaf values to the base score in tree order.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.data.device_tables import device_of, require_device
from bitgrove.data.sparse.tables import SparseTable, is_sparse
from bitgrove.errors import DataError, ParameterError
from bitgrove.machine.gpu import find_device, usable_gpu
from bitgrove.machine.threads import resolve_threads

Rows = NDArray[Any] | SparseTable
# Rows times trees from which on a GPU is faster than the cores beside it, sending included.
_LEAST_WALKS = 2_000_000


def starts_of(
    base_score: NDArray[np.float64], init_score: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Where scores start: (n_outputs,), or (n_rows, n_outputs) where rows have their own."""
    if init_score is None:
        return base_score
    own = init_score[:, None] if init_score.ndim == 1 else init_score
    if own.shape[1] != len(base_score):
        raise DataError(
            f"init_score: has {own.shape[1]} values per row, the model {len(base_score)} outputs"
        )
    return base_score + own


def predict_scores(
    forest: Any,
    rows: Rows,
    base_score: NDArray[np.float64],
    n_iterations: int,
    n_jobs: int | None,
) -> NDArray[np.float64]:
    """Scores (n_rows, n_outputs) after the first n_iterations iterations.

    base_score: of the outputs, or of each row and output.
    """
    n_outputs = base_score.shape[-1]
    scores = np.empty((len(rows), n_outputs))
    scores[:] = base_score  # np.tile would take longer than a row's walk
    add_scores(forest, rows, scores, n_iterations * n_outputs, n_jobs)
    return scores


def add_scores(
    forest: Any, rows: Rows, scores: NDArray[np.float64], n_trees: int, n_jobs: int | None
) -> None:
    """Adds the first n_trees trees to the scores (n_rows, n_outputs)."""
    _core.predict_scores(forest, n_trees, _for_core(rows), scores, resolve_threads(n_jobs))


def predict_leaves(forest: Any, rows: Rows, n_jobs: int | None) -> NDArray[np.int32]:
    """The leaf of every row in every tree, (n_rows, n_trees)."""
    leaves = np.empty((len(rows), forest.n_trees), dtype=np.int32)
    _core.predict_leaves(forest, _for_core(rows), leaves, resolve_threads(n_jobs))
    return leaves


def _for_core(rows: Rows) -> Any:
    return rows.core if isinstance(rows, SparseTable) else rows


def choose_gpu(X: Any, device: str | None, trained_on: str, n_trees: int) -> str | None:
    """The GPU to predict on; None is the CPU.

    If no device is given, it is where the rows are; many rows of the host go to the GPU that the
    model was trained on. "auto": many rows go to a GPU if there is one.
    """
    lies_on = device_of(X)
    if lies_on == "cpu" and device in (None, "auto"):
        if _n_rows(X) * n_trees < _LEAST_WALKS or is_sparse(X):
            return None
        known = trained_on if trained_on.startswith("cuda") else None
        return known or (usable_gpu() if device == "auto" else None)
    if device in (None, "auto"):
        device = lies_on
    elif device.partition(":")[0] == "cuda":
        device = f"cuda:{find_device(device)}"
    elif device != "cpu":
        allowed = "'cpu', 'auto', 'cuda' and 'cuda:0', ..."
        raise ParameterError(f"device={device!r}: allowed are {allowed}")
    require_device(lies_on, device)
    return None if device == "cpu" else device


def _n_rows(X: Any) -> int:
    """Of any table; 0 where only reading it would tell."""
    shape = getattr(X, "shape", None)
    return int(shape[0]) if shape else getattr(X, "n_rows", 0)


def as_int(name: str, value: object) -> int:
    if isinstance(value, bool | np.bool_):
        raise ParameterError(f"{name}={value!r}: an integer is needed")
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ParameterError(f"{name}={value!r}: an integer is needed") from None


def checked_n_jobs(n_jobs: int | None) -> int | None:
    if n_jobs is None:
        return None
    return as_int("n_jobs", n_jobs)
