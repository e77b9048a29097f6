"""The reference backend: arrays of NumPy, verbs that a reader can check against the formula.

Owns ReferenceBackend; how a tree grows is tree.py and best_first.py, where bins are cut edges.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.exact_math import numpy_to_gradient, row_hash
from bitgrove.arithmetic.selection import float32_keys
from bitgrove.backends.base import (
    Gradients,
    PackedRows,
    Rounding,
    Sample,
    Targets,
    TreeInputs,
)
from bitgrove.backends.host_gradients import host_gradients
from bitgrove.backends.reference.best_first import BestFirst
from bitgrove.backends.reference.edges import find_edges
from bitgrove.backends.reference.tree import ReferenceMatrix, ReferencePool, ReferenceTree
from bitgrove.data.binning import BinMapper
from bitgrove.data.row_ids import RowRuns, row_ids
from bitgrove.kernels.plans import ROW_TOTALS, SQUARED_ERROR_UNITS, records
from bitgrove.model.tree import Tree
from bitgrove.objectives import Objective

Array = NDArray[Any]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
_NEAREST = 0x8000000080000000  # noise of one half, for both halves


class ReferenceBackend:
    name = "reference"
    pool_mb = 1024
    frontier = BestFirst

    def find_edges(self, columns: Sequence[Array], max_bin: int) -> list[F64]:
        return [find_edges(column, max_bin) for column in columns]

    def bin_columns(self, columns: Sequence[Array], mapper: BinMapper) -> ReferenceMatrix:
        bins = np.empty((len(columns), len(columns[0])), dtype=np.uint8)
        missing = np.zeros(len(columns), dtype=np.uint8)
        for f, column in enumerate(columns):
            edges = mapper.edge_values[mapper.edge_offset[f] : mapper.edge_offset[f + 1]]
            values = column.astype(np.float64)
            is_missing = np.isnan(values)
            found = np.searchsorted(edges, values, side="left")
            bins[f] = np.where(is_missing, mapper.missing_bin[f], found)
            missing[f] = is_missing.any()
        return ReferenceMatrix(bins.shape[1], mapper, missing, bins)

    def upload(self, values: Array | None) -> Any:
        return None if values is None else np.array(values)

    def download(self, values: Any) -> Array:
        return np.asarray(values)

    def gradients(self, objective: Objective, scores: F64, targets: Targets) -> Gradients:
        return host_gradients(objective, scores, targets)

    def residual_keys(self, scores: F64, label: F64) -> NDArray[np.uint32]:
        return float32_keys(numpy_to_gradient(label - scores))

    def quantize(
        self, grad: Array, hess: Array | None, rounding: Rounding, runs: RowRuns
    ) -> PackedRows:
        """Rows are pairs of int64, not packed."""
        r, n_rows = rounding, len(grad)
        nearest = np.full(n_rows, _NEAREST, dtype=np.uint64)
        noise = row_hash(r.key, row_ids(runs)) if r.stochastic else nearest
        x = grad.astype(np.float64) * r.inverse_grad
        g = _round(x, noise >> np.uint64(33), r.grad_limit)
        h = np.ones(n_rows, dtype=np.int64)
        if hess is not None:
            low = (noise & np.uint64(0xFFFFFFFF)) >> np.uint64(1)
            h = _round(hess.astype(np.float64) * r.inverse_hess, low, r.hess_limit)
        zeros = int(((g == 0) & (h == 0)).sum())
        totals = records(
            ROW_TOTALS, 1, abs_grad=np.abs(g).sum(), grad=g.sum(), hess=h.sum(), zero_rows=zeros
        )
        if r.half_bits < 32:  # of full precision there is nothing to say
            errors = np.minimum((g - x) * (g - x), 1.0) * SQUARED_ERROR_UNITS
            totals["squared_grad"] = (g * g).sum()
            totals["squared_error"] = errors.astype(np.int64).sum()
        return PackedRows(np.stack([g, h], axis=1), totals)

    def select_rows(self, runs: RowRuns, sample: Sample | None) -> Array:
        rows = np.arange(runs[-1].end, dtype=np.int32)
        if sample is None:
            return rows
        key, threshold = sample
        return rows[row_hash(key, row_ids(runs)) < np.uint64(threshold)]

    def new_pool(self, matrix: ReferenceMatrix, n_slots: int, half_bits: int) -> ReferencePool:
        n_bins = int(matrix.mapper.bin_offset[-1])
        storage = np.zeros((n_slots, n_bins, 2), dtype=np.int64)
        return ReferencePool(matrix, n_slots, half_bits, storage)

    def start_tree(self, pool: ReferencePool, inputs: TreeInputs) -> ReferenceTree:
        return ReferenceTree(pool, inputs)

    def add_tree(self, scores: F64, matrix: ReferenceMatrix, tree: Tree) -> None:
        matrix.walk_tree(scores, tree, np.arange(matrix.n_rows))


def _round(x: F64, noise: NDArray[np.uint64], limit: float) -> I64:
    """floor(x + noise), noise a 31-bit fraction of one; within the limit."""
    shifted = x + noise.astype(np.float64) * (1.0 / 2147483648.0)
    return np.clip(np.floor(shifted), -limit, limit).astype(np.int64)
