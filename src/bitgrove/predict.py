"""Prediction on raw rows: scores and leaves of a whole forest.

Receives a Forest and a C-contiguous float32 or float64 table; returns scores that are bit-equal to
the training scores, because each row adds its leaf values to the base score in tree order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.threads import resolve_threads
from bitgrove.tree import Forest

Rows = NDArray[Any]


def predict_scores(
    forest: Forest,
    rows: Rows,
    base_score: NDArray[np.float64],
    n_iterations: int,
    n_jobs: int | None,
) -> NDArray[np.float64]:
    """Scores (n_rows, n_outputs) after the first n_iterations iterations."""
    scores = np.tile(np.asarray(base_score, dtype=np.float64), (len(rows), 1))
    kernel = _core.predict_scores_f32 if rows.dtype == np.float32 else _core.predict_scores_f64
    kernel(*_arrays(forest), n_iterations * forest.n_outputs, rows, scores, resolve_threads(n_jobs))
    return scores


def predict_leaves(forest: Forest, rows: Rows, n_jobs: int | None) -> NDArray[np.int32]:
    """The leaf of every row in every tree, (n_rows, n_trees)."""
    leaves = np.empty((len(rows), forest.n_trees), dtype=np.int32)
    kernel = _core.predict_leaves_f32 if rows.dtype == np.float32 else _core.predict_leaves_f64
    kernel(*_arrays(forest), forest.n_trees, rows, leaves, resolve_threads(n_jobs))
    return leaves


def _arrays(forest: Forest) -> tuple[NDArray[Any], ...]:
    nodes = forest.nodes.view(np.uint8).reshape(-1)
    return nodes, forest.split_offset, forest.leaf_offset, forest.leaf_value
