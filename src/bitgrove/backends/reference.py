"""The oracle: plain NumPy, slow and obvious. Every other backend must equal it bit for bit.

Integers are int64 and never packed, so nothing here can overflow or borrow; widths in the plans
are ignored. Floats repeat kernels/shared operation by operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.exact_math import row_hash
from bitgrove.backends.base import Gradients, OutputGradients, Targets, TreeWork
from bitgrove.data.binning import BinMapper
from bitgrove.model.tree import Tree
from bitgrove.objectives import Objective
from bitgrove.training.splits import GainRules, SplitInfos, no_splits

Array = NDArray[Any]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
_GAIN_NOISE = 1e-12


@dataclass(eq=False)
class ReferenceMatrix:
    n_rows: int
    mapper: BinMapper
    bins: NDArray[np.uint8]  # (n_features, n_rows)


class ReferenceBackend:
    name = "reference"
    pool_mb = 1024

    def bin_columns(
        self, columns: Sequence[Array], mapper: BinMapper
    ) -> tuple[ReferenceMatrix, NDArray[np.uint8]]:
        bins = np.empty((len(columns), len(columns[0])), dtype=np.uint8)
        missing = np.zeros(len(columns), dtype=np.uint8)
        for f, column in enumerate(columns):
            edges = mapper.edge_values[mapper.edge_offset[f] : mapper.edge_offset[f + 1]]
            values = column.astype(np.float64)
            is_missing = np.isnan(values)
            found = np.searchsorted(edges, values, side="left")
            bins[f] = np.where(is_missing, mapper.missing_bin[f], found)
            missing[f] = is_missing.any()
        return ReferenceMatrix(bins.shape[1], mapper, bins), missing

    def prepare_training(self, matrix: ReferenceMatrix, mapper: BinMapper) -> None:
        matrix.mapper = mapper

    def array(self, values: Array | None) -> Any:
        return values

    def host(self, values: Any) -> Array:
        return np.asarray(values)

    def new_scores(self, base: F64, n_rows: int) -> F64:
        return np.repeat(base, n_rows).reshape(len(base), n_rows)

    def gradients(
        self, objective: Objective, scores: F64, targets: Targets, count_magnitudes: bool = False
    ) -> Gradients:
        grad, hess = objective.gradients(scores, *targets)
        parts = [
            output_gradients(grad[k], None if hess is None else hess[k], count_magnitudes)
            for k in range(len(grad))
        ]
        tops = np.stack([part.tops for part in parts])
        counts = [part.counts for part in parts if part.counts is not None]
        return Gradients(grad, hess, tops, np.stack(counts) if count_magnitudes else None)

    def quantize(
        self,
        grad: Array,
        hess: Array | None,
        scales: tuple[float, float, float, float],
        half_bits: int,
        key: int,
        first_row: int,
        stochastic: bool,
    ) -> tuple[I64, tuple[int, int, int]]:
        n_rows = len(grad)
        ids = np.arange(first_row, first_row + n_rows, dtype=np.uint64)
        nearest = np.full(n_rows, 0x8000000080000000, dtype=np.uint64)
        noise = row_hash(key, ids) if stochastic else nearest
        inverse_grad, inverse_hess, grad_limit, hess_limit = scales
        g = _round(grad.astype(np.float64) * inverse_grad, noise >> np.uint64(33), grad_limit)
        h = np.ones(n_rows, dtype=np.int64)
        if hess is not None:
            low = (noise & np.uint64(0xFFFFFFFF)) >> np.uint64(1)
            h = _round(hess.astype(np.float64) * inverse_hess, low, hess_limit)
        totals = (int(np.abs(g).sum()), int(h.sum()), int(((g == 0) & (h == 0)).sum()))
        return np.stack([g, h], axis=1), totals

    def row_sums(self, packed: I64, rows: Array) -> tuple[int, int]:
        grad, hess = packed[rows].sum(axis=0)
        return int(grad), int(hess)

    def select_rows(self, n_rows: int, first_row: int, sample: tuple[int, int] | None) -> Array:
        rows = np.arange(n_rows, dtype=np.int32)
        if sample is None:
            return rows
        key, threshold = sample
        ids = np.arange(first_row, first_row + n_rows, dtype=np.uint64)
        return rows[row_hash(key, ids) < np.uint64(threshold)]

    def excluded_rows(self, rows: Array, n_rows: int) -> Array:
        return np.setdiff1d(np.arange(n_rows, dtype=np.int32), rows)

    def separate_zero_rows(self, packed: I64, rows: Array) -> int:
        active = packed[rows].any(axis=1)
        rows[:] = np.concatenate([rows[active], rows[~active]])
        return int(active.sum())

    def partition(self, matrix: ReferenceMatrix, rows: Array, plan: I64) -> I64:
        n_left = np.empty((len(plan), 2), dtype=np.int64)
        for i, (begin, end, feature, split_bin, missing_bin, default_left, zero) in enumerate(plan):
            mine = rows[begin:end].copy()
            bins = matrix.bins[feature, mine]
            left = np.where(bins == missing_bin, default_left == 1, bins <= split_bin)
            rows[begin:end] = np.concatenate([mine[left], mine[~left]])
            n_left[i] = left[: zero - begin].sum(), left[zero - begin :].sum()
        return n_left

    def new_pool(self, n_slots: int, n_bins: int, half_bits: int) -> I64:
        return np.zeros((n_slots, n_bins, 2), dtype=np.int64)

    def build_histograms(
        self, pool: I64, matrix: ReferenceMatrix, packed: I64, rows: Array, plan: I64, packing: bool
    ) -> None:
        offset = matrix.mapper.bin_offset
        for begin, end, slot, *_ in plan:
            mine = rows[begin:end]
            pool[slot] = 0
            for f in range(matrix.mapper.n_features):
                np.add.at(
                    pool[slot], offset[f] + matrix.bins[f, mine].astype(np.int64), packed[mine]
                )

    def subtract_histograms(
        self, pool: I64, plan: I64, bins: tuple[int, int], packing: bool
    ) -> None:
        for parent, built, *_ in plan:
            pool[parent, bins[0] : bins[1]] -= pool[built, bins[0] : bins[1]]

    def histogram_sums(
        self, pool: I64, slot: int, width: int, bins: tuple[int, int], packing: bool
    ) -> I64:
        return pool[slot, bins[0] : bins[1]].copy()

    def pack_messages(
        self, pool: I64, plan: I64, n_messages: int, packing: bool
    ) -> list[NDArray[np.uint8]]:
        parts: list[list[I64]] = [[np.empty((0, 2), dtype=np.int64)] for _ in range(n_messages)]
        for message, slot, _, first, last in plan:
            parts[message].append(pool[slot, first:last])
        return [np.concatenate(part).reshape(-1).view(np.uint8) for part in parts]

    def add_messages(
        self,
        pool: I64,
        plan: I64,
        steps: tuple[int, int],
        messages: list[tuple[int, NDArray[np.uint8]]],
        packing: bool,
    ) -> None:
        ends = np.cumsum(plan[:, 3] - plan[:, 2])
        for rank, message in messages:
            if len(message) != 16 * ends[-1]:
                raise ValueError(f"rank {rank} sent histograms that do not fit the plan")
            parts = np.split(message.view(np.int64).reshape(-1, 2), ends[:-1])
            for (slot, _, first, last), part in list(zip(plan, parts, strict=True))[slice(*steps)]:
                pool[slot, first:last] += part

    def find_splits(
        self,
        pool: I64,
        mapper: BinMapper,
        slots: I64,
        widths: I64,
        sums: F64,
        features: tuple[int, int],
        allowed: NDArray[np.uint8],
        rules: GainRules,
        packing: bool,
    ) -> SplitInfos:
        found = no_splits(len(slots))
        for i, slot in enumerate(slots):
            for f in range(*features):
                if allowed[f]:
                    bins = pool[slot, mapper.bin_offset[f] : mapper.bin_offset[f + 1]]
                    _search_feature(
                        bins, f, bool(mapper.has_missing[f]), sums[i], rules, found[i : i + 1]
                    )
            parent = leaf_score(sums[i, 0], sums[i, 1], rules)
            if not found["gain"][i] > max(parent * _GAIN_NOISE, rules.min_gain):
                found[i] = no_splits(1)[0]
        return found

    def run_rounds(self, work: TreeWork, frontier: Any, alpha: float) -> bool:
        return False

    def locate_leaves(self, rows: Array, begins: I64, ends: I64, n_rows: int) -> list[Array]:
        return [rows[begin:end] for begin, end in zip(begins, ends, strict=True)]

    def leaf_sums(
        self, leaves: list[Array], grad: Array, hess: Any, units: tuple[float, float]
    ) -> I64:
        sums = np.zeros((len(leaves), 2), dtype=np.int64)
        for leaf, rows in enumerate(leaves):
            sums[leaf] = _fixed_sum(grad[rows], units[0]), len(rows)
            if hess is not None:
                sums[leaf, 1] = _fixed_sum(hess[rows], units[1])
        return sums

    def add_leaf_values(self, scores: F64, leaves: list[Array], values: F64) -> None:
        for rows, value in zip(leaves, values, strict=True):
            scores[rows] += value

    def add_tree(self, scores: F64, matrix: ReferenceMatrix, tree: Tree, subset: Any) -> None:
        rows = np.arange(matrix.n_rows) if subset is None else subset
        missing = matrix.mapper.missing_bin
        node = np.full(len(rows), 0 if tree.n_splits else -1)
        while (active := np.flatnonzero(node >= 0)).size:
            at = node[active]
            feature = tree.feature[at]
            bins = matrix.bins[feature, rows[active]]
            is_missing = bins == missing[feature]
            left = np.where(is_missing, tree.default_left[at] == 1, bins <= tree.split_bin[at])
            node[active] = np.where(left, tree.left[at], tree.right[at])
        scores[rows] += tree.leaf_value[~node]


def _fixed_sum(values: Array, unit: float) -> int:
    return int(np.rint(values.astype(np.float64) * unit).astype(np.int64).sum())


def _round(x: F64, noise: NDArray[np.uint64], limit: float) -> I64:
    """floor(x + noise), noise a 31-bit fraction of one; within the limit."""
    shifted = x + noise.astype(np.float64) * (1.0 / 2147483648.0)
    return np.clip(np.floor(shifted), -limit, limit).astype(np.int64)


def output_gradients(grad: Array, hess: Array | None, count_magnitudes: bool) -> OutputGradients:
    """One output's gradients with their bounds, from host arrays."""
    no_hess = np.zeros(0, dtype=np.float32)
    bits = [v.view(np.uint32) & 0x7FFFFFFF for v in (grad, no_hess if hess is None else hess)]
    tops = np.array([b.max(initial=0) for b in bits], dtype=np.uint32)
    counts = None
    if count_magnitudes:
        counts = np.stack([np.bincount(b >> 20, minlength=2048) for b in bits])
    return OutputGradients(grad, hess, tops, counts)


def _soften(grad: F64, reg_alpha: float) -> F64:
    positive = np.maximum(np.abs(grad) - reg_alpha, 0.0)
    return np.where(grad < 0.0, -positive, positive)


def leaf_score(grad: float, hess: float, rules: GainRules) -> float:
    g = float(_soften(np.float64(grad * rules.grad_scale), rules.reg_alpha))
    denominator = hess * rules.hess_scale + rules.reg_lambda
    return (g * g) / denominator if denominator > 0 else 0.0


def _gains(left: I64, node: F64, rules: GainRules) -> F64:
    """Gains of all cuts of one feature; left[b] are the sums of the rows that go left at bin b."""
    grad, hess, min_hess = node
    left_grad, left_hess = left[:, 0].astype(np.float64), left[:, 1].astype(np.float64)
    right_grad, right_hess = grad - left_grad, hess - left_hess
    gl = _soften(left_grad * rules.grad_scale, rules.reg_alpha)
    gr = _soften(right_grad * rules.grad_scale, rules.reg_alpha)
    hl = left_hess * rules.hess_scale + rules.reg_lambda
    hr = right_hess * rules.hess_scale + rules.reg_lambda
    with np.errstate(divide="ignore", invalid="ignore"):
        children = ((gl * gl) * hr + (gr * gr) * hl) / (hl * hr)
    gain = 0.5 * (children - leaf_score(grad, hess, rules))
    return np.where((left_hess >= min_hess) & (right_hess >= min_hess), gain, -np.inf)


def _search_feature(
    bins: I64, feature: int, has_missing: bool, node: F64, rules: GainRules, best: SplitInfos
) -> None:
    """Updates best if this feature has a better split; ties keep the earlier one."""
    n_values = len(bins) - int(has_missing)
    left = np.cumsum(bins[:n_values], axis=0)
    candidates = [(left if has_missing else left[:-1], not has_missing)]
    if has_missing:
        candidates.insert(0, (left[:-1] + bins[n_values], True))
    options = []
    for order, (sums, default_left) in enumerate(candidates):
        gains = _gains(sums, node, rules)
        if len(gains):
            b = int(np.argmax(gains))
            options.append((-gains[b], b, order, default_left, sums[b]))
    if not options:
        return
    negative_gain, b, _, default_left, sums = min(options, key=lambda option: option[:3])
    if -negative_gain > best["gain"][0]:
        best[0] = (-negative_gain, sums[0], sums[1], feature, b, default_left, 0)
