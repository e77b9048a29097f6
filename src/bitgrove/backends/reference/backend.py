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
from bitgrove.backends.base import PackedRows, Rounding, Targets, TreeInputs
from bitgrove.backends.host_gradients import bucket_counts, host_gradients, output_gradients
from bitgrove.backends.panel import HostPanel
from bitgrove.backends.reference.best_first import BestFirst
from bitgrove.backends.reference.edges import find_edges
from bitgrove.backends.reference.tree import ReferenceMatrix, ReferencePool, ReferenceTree
from bitgrove.backends.told import Gradients, OutputGradients
from bitgrove.data.binning import BinMapper
from bitgrove.data.row_ids import RowRuns, row_ids
from bitgrove.data.sampling import KeepRule, Sample
from bitgrove.data.sparse.tables import dense_columns
from bitgrove.distributed.comm import Comm
from bitgrove.kernels.plans import ROW_TOTALS, SQUARED_ERROR_UNITS, records
from bitgrove.machine.memory import Room, host_room
from bitgrove.model.tree import Tree
from bitgrove.objectives import Objective
from bitgrove.objectives.metrics import EvalSet

Array = NDArray[Any]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
_NEAREST = 0x8000000080000000  # noise of one half, for both halves


class ReferenceBackend:
    name = "reference"
    leaves_host_idle = False
    shares_bytes = True
    spills_bins = False
    narrow_labels = False
    pool_mb = 1024
    frontier_alpha = 0.5
    frontier = BestFirst

    def room(self) -> Room:
        return host_room()

    def tile_bytes(self, n_rows: int, n_columns: int) -> int:
        return 0  # it has none

    def send_columns(self, columns: Sequence[Any]) -> Sequence[Array]:
        return dense_columns(columns)

    def find_edges(
        self, columns: Sequence[Array], rows: NDArray[np.int32] | None, max_bin: int
    ) -> list[F64]:
        sampled = columns if rows is None else [column[rows] for column in columns]
        return [find_edges(column, max_bin) for column in sampled]

    def bin_columns(self, columns: Sequence[Array], mapper: BinMapper) -> ReferenceMatrix:
        bins = np.empty((len(columns), len(columns[0])), dtype=np.uint8)
        missing = np.zeros(len(columns), dtype=np.uint8)
        for f, column in enumerate(self.send_columns(columns)):
            if column.dtype == np.uint8:  # bins already
                bins[f], missing[f] = column, (column == mapper.missing_bin[f]).any()
                continue
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
        ids = row_ids(runs) if sample.ids is None else sample.ids
        limits = np.uint64(sample.limit) if sample.limits is None else sample.limits
        return rows[row_hash(sample.key, ids) < limits]

    def count_importance(self, grad: Array, hess: Array | None, hess_share: float) -> I64:
        return bucket_counts(numpy_to_gradient(_sizes(grad, hess, hess_share)))

    def keep_rows(
        self, grad: Array, hess: Array | None, rule: KeepRule, runs: RowRuns
    ) -> OutputGradients:
        sizes = _sizes(grad, hess, rule.hess_share)
        chance = np.where(sizes >= rule.whole, 1.0, rule.base + rule.slope * sizes)
        noise = row_hash(rule.key, row_ids(runs)) >> np.uint64(11)
        kept = (sizes >= rule.whole) | (noise.astype(np.float64) * 2.0**-53 < chance)
        weight = np.divide(1.0, np.minimum(chance, 1.0), out=np.zeros_like(sizes), where=kept)
        sides = (grad, _ones(grad, hess))
        return output_gradients(*(numpy_to_gradient(v.astype(np.float64) * weight) for v in sides))

    def fade(self, scores: F64, start: F64, keep: float) -> None:
        scores[:] = start + (scores - start) * keep

    def new_pool(self, matrix: ReferenceMatrix, n_slots: int, half_bits: int) -> ReferencePool:
        n_bins = int(matrix.mapper.bin_offset[-1])
        storage = np.zeros((n_slots, n_bins, 2), dtype=np.int64)
        return ReferencePool(matrix, n_slots, half_bits, storage)

    def start_tree(self, pool: ReferencePool, inputs: TreeInputs) -> ReferenceTree:
        return ReferenceTree(pool, inputs)

    def add_tree(self, scores: F64, matrix: ReferenceMatrix, tree: Tree) -> None:
        matrix.walk_tree(scores, tree, np.arange(matrix.n_rows))

    def new_panel(self, sets: Sequence[EvalSet], comm: Comm) -> HostPanel:
        return HostPanel(sets, comm, self.download)


def _ones(grad: Array, hess: Array | None) -> Array:
    return np.ones(len(grad)) if hess is None else hess


def _sizes(grad: Array, hess: Array | None, hess_share: float) -> F64:
    g, h = grad.astype(np.float64), _ones(grad, hess).astype(np.float64)
    return np.sqrt(g * g + hess_share * (h * h))


def _round(x: F64, noise: NDArray[np.uint64], limit: float) -> I64:
    """floor(x + noise), noise a 31-bit fraction of one; within the limit."""
    shifted = x + noise.astype(np.float64) * (1.0 / 2147483648.0)
    return np.clip(np.floor(shifted), -limit, limit).astype(np.int64)
