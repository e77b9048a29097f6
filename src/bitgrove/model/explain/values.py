"""What each feature adds to the score of a row: Shapley values and their interactions.

Owns the calls into the core (cpp/explain) and what crosses: the cover of leaves, the feature that
each column of the trees counts for, the expected score. Receives a Model and rows as its forest
reads them; returns float64 arrays, with the same bits for any number of threads and on a GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.data.device_tables import beside
from bitgrove.machine.threads import resolve_threads
from bitgrove.model.predict import predict_scores
from bitgrove.model.tree import Tree

if TYPE_CHECKING:
    from bitgrove.model.model import Model

F64 = NDArray[np.float64]


def leaf_cover(tree: Tree) -> F64:
    """Training rows of each leaf; a tree that does not know them (an imported one) has hessians."""
    rows = np.asarray(tree.leaf_rows, dtype=np.float64)
    return rows if rows.any() else np.maximum(tree.leaf_hess, 0.0)


def players(model: Model) -> NDArray[np.int32]:
    """The feature that each column of the trees counts for: a category may have several."""
    if model.encoder is None:
        return np.arange(model.n_features, dtype=np.int32)
    return model.encoder.sources.astype(np.int32)


def make_shap_forest(model: Model) -> Any:
    """The forest as its explanation walks it."""
    cover = [np.zeros(0), *map(leaf_cover, model.trees)]
    return _core.make_shap_forest(
        model.forest, np.concatenate(cover), players(model), model.n_features
    )


def expected_scores(model: Model, n_used: int) -> F64:
    """Of each output: the score of a row of which nothing is known."""
    means = model.shap_forest.expected()[: n_used * model.n_outputs].reshape(-1, model.n_outputs)
    sums: F64 = np.cumsum(np.concatenate([model.base_score[None, :], means]), axis=0)
    return sums[-1]


def contributions(model: Model, rows: NDArray[Any], n_used: int, n_jobs: int | None) -> F64:
    """(n_rows, n_outputs, n_features + 1): of each feature, and last the expected score."""
    n_outputs, width = model.n_outputs, model.n_features + 1
    found = np.empty((len(rows), n_outputs * width))
    forest, n_threads = model.shap_forest, resolve_threads(n_jobs)
    _core.shap_values(forest, n_used * n_outputs, rows, n_outputs, found, n_threads)
    shaped = found.reshape(len(rows), n_outputs, width)
    shaped[:, :, -1] = expected_scores(model, n_used)
    return shaped


def contributions_on(model: Model, gpu: str, rows: Any, n_used: int) -> Any:
    """contributions() on a GPU: a CuPy array, of rows on the host a NumPy one."""
    from bitgrove.backends.cuda.forest.explain import DeviceShapForest

    n_outputs, width = model.n_outputs, model.n_features + 1
    kept, key = model._device_forests, f"shap {gpu}"
    if key not in kept:
        kept[key] = DeviceShapForest(model.shap_forest, n_outputs, model.n_features, gpu)
    found = kept[key].values(rows, n_used * n_outputs)
    shaped = found.reshape(len(rows), n_outputs, width)
    shaped[:, :, -1] = beside(expected_scores(model, n_used), shaped)
    return shaped


def interactions(model: Model, rows: NDArray[Any], n_used: int, n_jobs: int | None) -> F64:
    """(n_rows, n_outputs, n_features + 1, n_features + 1), the expected score in the corner."""
    n_outputs, width = model.n_outputs, model.n_features + 1
    found = np.zeros((len(rows), n_outputs * width * width))
    forest, n_threads = model.shap_forest, resolve_threads(n_jobs)
    rows = np.ascontiguousarray(rows)
    _core.shap_interactions(forest, n_used * n_outputs, rows, n_outputs, found, n_threads)
    shaped = found.reshape(len(rows), n_outputs, width, width)
    shaped[:, :, -1, -1] = expected_scores(model, n_used)
    return shaped


def interventional(
    model: Model, rows: NDArray[Any], background: NDArray[Any], n_used: int, n_jobs: int | None
) -> F64:
    """As contributions(), but what is not known of a row is taken from rows of the background."""
    n_outputs, width = model.n_outputs, model.n_features + 1
    dtype = np.result_type(rows, background)
    rows, background = (np.ascontiguousarray(part, dtype) for part in (rows, background))
    found = np.zeros((len(rows), n_outputs * width))
    _core.interventional_values(
        model.forest, n_used * n_outputs, players(model), model.n_features, rows, background,
        n_outputs, found, resolve_threads(n_jobs),
    )  # fmt: skip
    shaped = found.reshape(len(rows), n_outputs, width)
    shaped[:, :, -1] = background_scores(model, background, n_used, n_jobs)
    return shaped


def background_scores(
    model: Model, background: NDArray[Any], n_used: int, n_jobs: int | None
) -> F64:
    """Of each output: the mean raw score of the background."""
    scores = predict_scores(model.forest, background, model.base_score, n_used, n_jobs)
    means: F64 = scores.mean(axis=0)
    return means
