"""The reference backend: arrays of NumPy, verbs that a reader can check against the formula.

Owns ReferenceBackend; how a tree grows is tree.py and best_first.py, where bins are cut edges.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.exact_math import (
    numpy_exp,
    numpy_log,
    numpy_sigmoid,
    numpy_to_gradient,
    row_hash,
)
from bitgrove.backends.base import PackedRows, Rounding, Sample, TreeInputs
from bitgrove.backends.reference.best_first import BestFirst
from bitgrove.backends.reference.edges import find_edges
from bitgrove.backends.reference.tree import ReferenceMatrix, ReferencePool, ReferenceTree
from bitgrove.data.binning import BinMapper
from bitgrove.data.row_ids import RowRuns, row_ids
from bitgrove.kernels.plans import ROW_TOTALS, records
from bitgrove.model.tree import Tree
from bitgrove.objectives import Objective, Queries

Array = NDArray[Any]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
_LOG2_E = 1.4426950408889634
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

    def gradients(
        self, objective: Objective, scores: F64, label: F64, weight: Any, queries: Queries | None
    ) -> tuple[Array, Array | None]:
        if objective.name == "binary":
            p = numpy_sigmoid(objective.sigmoid * scores)
            grad = objective.sigmoid * (p - label)
            hess = ((objective.sigmoid * objective.sigmoid) * p) * (1.0 - p)
        elif objective.name == "regression":
            grad, hess = scores - label, np.ones_like(scores)
        elif objective.name == "multiclass":
            grad, hess = softmax_gradients(scores, label)
        else:
            assert queries is not None
            grad, hess = rank_gradients(objective, scores[0], label, queries)
        w = 1.0 if weight is None else weight.astype(np.float64)
        constant = objective.constant_hessian(weight)
        return numpy_to_gradient(grad * w), None if constant else numpy_to_gradient(hess * w)

    def max_magnitude(self, values: Array) -> int:
        return int((values.view(np.uint32) & 0x7FFFFFFF).max(initial=0))

    def count_magnitudes(self, values: Array) -> I64:
        return np.bincount((values.view(np.uint32) & 0x7FFFFFFF) >> 20, minlength=2048)

    def quantize(
        self, grad: Array, hess: Array | None, rounding: Rounding, runs: RowRuns
    ) -> PackedRows:
        """Rows are pairs of int64, not packed."""
        r, n_rows = rounding, len(grad)
        nearest = np.full(n_rows, _NEAREST, dtype=np.uint64)
        noise = row_hash(r.key, row_ids(runs)) if r.stochastic else nearest
        g = _round(grad.astype(np.float64) * r.inverse_grad, noise >> np.uint64(33), r.grad_limit)
        h = np.ones(n_rows, dtype=np.int64)
        if hess is not None:
            low = (noise & np.uint64(0xFFFFFFFF)) >> np.uint64(1)
            h = _round(hess.astype(np.float64) * r.inverse_hess, low, r.hess_limit)
        zeros = int(((g == 0) & (h == 0)).sum())
        totals = records(
            ROW_TOTALS, 1, abs_grad=np.abs(g).sum(), grad=g.sum(), hess=h.sum(), zero_rows=zeros
        )
        return PackedRows(np.stack([g, h], axis=1), totals[0])

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


def softmax_gradients(scores: F64, label: F64) -> tuple[F64, F64]:
    n_classes = len(scores)
    powers = numpy_exp(scores - scores.max(axis=0))
    total = np.zeros_like(powers[0])
    for k in range(n_classes):
        total = total + powers[k]
    p = powers / total
    is_class = label == np.arange(n_classes)[:, None]
    factor = n_classes / (n_classes - 1)
    return p - is_class, (factor * p) * (1.0 - p)


def rank_gradients(o: Objective, score: F64, label: F64, queries: Queries) -> tuple[F64, F64]:
    """Lambdas, query by query: a matrix of pairs (rank i above rank j), summed as integers."""
    grad, hess = np.zeros((1, len(score))), np.zeros((1, len(score)))
    for q, (begin, end) in enumerate(zip(queries.offset[:-1], queries.offset[1:], strict=True)):
        order = begin + np.argsort(-score[begin:end], kind="stable")
        s, y = score[order], label[order]
        i, j = np.triu_indices(end - begin, k=1)
        keep = (i < o.truncation) & (y[i] != y[j])
        i, j = i[keep], j[keep]
        high, low = np.where(y[i] > y[j], i, j), np.where(y[i] > y[j], j, i)
        gap = s[high] - s[low]
        gain = queries.label_gain[y[high].astype(int)] - queries.label_gain[y[low].astype(int)]
        weight = (gain * (queries.discount[i] - queries.discount[j])) * queries.inverse_max_dcg[q]
        if o.normalise and s[0] != s[-1]:
            weight = weight / (0.01 + np.abs(gap))
        p = 1.0 / (1.0 + numpy_exp(o.sigmoid * gap))
        unit = queries.unit[q]
        pull = np.rint((((-o.sigmoid) * weight) * p) * unit).astype(np.int64)
        curve = np.rint(((((o.sigmoid * o.sigmoid) * weight) * p) * (1.0 - p)) * unit).astype(
            np.int64
        )
        sums = np.zeros((2, end - begin), dtype=np.int64)
        for index, sign in ((high, 1), (low, -1)):
            np.add.at(sums[0], index, sign * pull)
            np.add.at(sums[1], index, curve)
        total = np.array([-2 * int(pull.sum())], dtype=np.float64) / unit
        norm = (numpy_log(1.0 + total) * _LOG2_E) / total if o.normalise and total > 0 else 1.0
        grad[0, order] = (sums[0] / unit) * norm
        hess[0, order] = (sums[1] / unit) * norm
    return grad, hess
