"""The C++ backend: OpenMP threads, AVX-512/AVX2/scalar chosen at run time.

Owns the NumPy arrays the kernels work on and hands them over; holds no logic of its own. The
environment variable BITGROVE_SIMD (scalar, avx2, avx512) lowers the instruction set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.backends.base import Gradients, Targets, TreeWork
from bitgrove.backends.losses import loss_kernel
from bitgrove.data.binning import BinMapper
from bitgrove.machine.simd import simd_level
from bitgrove.machine.threads import resolve_threads
from bitgrove.model.tree import Tree
from bitgrove.objectives import Objective
from bitgrove.training.splits import SPLIT_INFO, GainRules, SplitInfos

Array = NDArray[Any]
I64 = NDArray[np.int64]
# The partition kernel gathers 32 bits at a time.
_COLUMN_PADDING = 3
_CACHE_LINE = 64
_ROW_TYPES = {8: np.int16, 16: np.int32, 32: np.int64}
_QUANTIZE = {half: getattr(_core, f"quantize_{half}") for half in _ROW_TYPES}


@dataclass(eq=False)
class CpuMatrix:
    """Bins in padded columns; of a training set also row-major, in tiles, for histograms."""

    n_rows: int
    mapper: BinMapper
    columns: NDArray[np.uint8]
    layout: Any = None  # which features share a column of the tiles
    tiles: NDArray[np.uint8] | None = None


class LeafNumbers(NamedTuple):
    """The leaf of every row, in row order; n_leaves where a row is in none."""

    of_row: Array
    n_leaves: int


def _aligned_bytes(n_bytes: int) -> NDArray[np.uint8]:
    """Zeroed memory that starts at a cache line: rows and slots then never straddle one."""
    memory = np.zeros(n_bytes + _CACHE_LINE, dtype=np.uint8)
    start = -memory.ctypes.data % _CACHE_LINE
    return memory[start : start + n_bytes]


class CpuBackend:
    name = "cpu"
    pool_mb = 1024

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_threads = resolve_threads(n_jobs)
        self.simd = simd_level()
        self._buffers: dict[str, Array] = {}

    def _buffer(self, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
        """Memory kept from one tree to the next: fresh pages would cost more than the work."""
        kept = self._buffers.get(name)
        if kept is None or kept.shape != shape or kept.dtype != dtype:
            kept = self._buffers[name] = np.empty(shape, dtype=dtype)
        return kept

    def bin_columns(
        self, columns: Sequence[Array], mapper: BinMapper
    ) -> tuple[CpuMatrix, NDArray[np.uint8]]:
        n_rows, n_features = len(columns[0]), len(columns)
        bins = np.empty((n_features, n_rows + _COLUMN_PADDING), dtype=np.uint8)
        missing = np.zeros(n_features, dtype=np.uint8)
        edges = (mapper.edge_values, mapper.edge_offset)
        _core.bin_columns(list(columns), *edges, bins, missing, n_rows, self.n_threads, self.simd)
        return CpuMatrix(n_rows, mapper, bins), missing

    def prepare_training(self, matrix: CpuMatrix, mapper: BinMapper) -> None:
        matrix.mapper, matrix.layout = mapper, _core.TileLayout(mapper.bin_offset)
        matrix.layout.join_columns(matrix.columns, matrix.n_rows)
        matrix.tiles = _aligned_bytes(matrix.layout.n_bytes(matrix.n_rows))
        _core.lay_tiles(matrix.layout, matrix.columns, matrix.n_rows, matrix.tiles, self.n_threads)

    def array(self, values: Array | None) -> Any:
        return None if values is None else np.ascontiguousarray(values)

    def host(self, values: Any) -> Array:
        return np.asarray(values)

    def new_scores(self, base: NDArray[np.float64], n_rows: int) -> NDArray[np.float64]:
        return np.repeat(base, n_rows).reshape(len(base), n_rows)

    def gradients(
        self, objective: Objective, scores: Array, targets: Targets, count_magnitudes: bool = False
    ) -> Gradients:
        kernel = loss_kernel(objective)
        grad = self._buffer("grad", scores.shape, np.float32)
        hess = self._buffer("hess", scores.shape, np.float32)
        tops = np.empty((len(scores), 2), dtype=np.uint32)
        _core.gradients(
            loss=kernel.name,
            scores=scores,
            label=targets.label,
            weight=targets.weight,
            tables=targets.tables,
            parameters=kernel.parameters,
            grad=grad,
            hess=hess,
            tops=tops,
            n_threads=self.n_threads,
            simd=self.simd,
        )
        kept = None if objective.constant_hessian(targets.weight) else hess
        if kept is None:
            tops[:, 1] = 0
        counts = self._counts(grad, kept) if count_magnitudes else None
        return Gradients(grad, kept, tops, counts)

    def _counts(self, grad: Array, hess: Array | None) -> I64:
        counts = np.zeros((len(grad), 2, 2048), dtype=np.int64)
        for side, values in enumerate((grad, () if hess is None else hess)):
            for k, of_output in enumerate(values):
                _core.count_magnitudes(
                    values=of_output, counts=counts[k, side], n_threads=self.n_threads
                )
        return counts

    def quantize(
        self,
        grad: Array,
        hess: Array | None,
        scales: tuple[float, float, float, float],
        half_bits: int,
        key: int,
        first_row: int,
        stochastic: bool,
    ) -> tuple[Array, tuple[int, int, int]]:
        packed = self._buffer("packed", (len(grad),), _ROW_TYPES[half_bits])
        totals = _QUANTIZE[half_bits](
            grad, hess, scales, key, first_row, stochastic, packed, self.n_threads, self.simd
        )
        return packed, totals

    def row_sums(self, packed: Array, rows: Array) -> tuple[int, int]:
        grad, hess = _core.row_sums(packed, rows, self.n_threads, self.simd)
        return grad, hess

    def select_rows(self, n_rows: int, first_row: int, sample: tuple[int, int] | None) -> Array:
        rows = self._buffer("rows", (n_rows,), np.int32)
        if sample is None:
            _core.list_rows(rows, self.n_threads)
            return rows
        n_selected = _core.select_rows(sample[0], first_row, sample[1], rows)
        return rows[:n_selected]

    def excluded_rows(self, rows: Array, n_rows: int) -> Array:
        out = np.ones(n_rows, dtype=bool)
        out[rows] = False
        return np.flatnonzero(out).astype(np.int32)

    def _scratch(self, n_rows: int) -> Array:
        kept = self._buffers.get("scratch")
        if kept is None or len(kept) < n_rows:
            kept = self._buffers["scratch"] = np.empty(n_rows, np.int32)
        return kept

    def separate_zero_rows(self, packed: Array, rows: Array) -> int:
        scratch = self._scratch(len(rows))
        return int(_core.separate_zero_rows(packed, rows, scratch, self.n_threads))

    def partition(self, matrix: CpuMatrix, rows: Array, plan: I64) -> I64:
        scratch = self._scratch(len(rows))
        n_left: I64 = _core.partition_rows(
            rows, scratch, matrix.columns, plan, self.n_threads, self.simd
        )
        return n_left

    def new_pool(self, n_slots: int, n_bins: int, half_bits: int) -> NDArray[np.uint8]:
        slot_bytes = -(-n_bins * half_bits // 4 // _CACHE_LINE) * _CACHE_LINE
        return _aligned_bytes(n_slots * slot_bytes).reshape(n_slots, slot_bytes)

    def build_histograms(
        self, pool: Array, matrix: CpuMatrix, packed: Array, rows: Array, plan: I64, packing: bool
    ) -> None:
        _core.build_histograms(
            pool,
            matrix.layout,
            matrix.tiles,
            rows,
            packed,
            plan,
            packing,
            self.n_threads,
            self.simd,
        )

    def subtract_histograms(
        self, pool: Array, plan: I64, bins: tuple[int, int], packing: bool
    ) -> None:
        _core.subtract_histograms(pool, plan, *bins, packing, self.n_threads, self.simd)

    def histogram_sums(
        self, pool: Array, slot: int, width: int, bins: tuple[int, int], packing: bool
    ) -> I64:
        first, last = (b * width // 4 for b in bins)
        raw = pool[slot, first:last]
        hess_mask = 2 ** min(width, 63) - 1
        if packing and width < 64:
            both = raw.view(f"i{width // 4}").astype(np.int64)
            return np.stack([both >> width, both & hess_mask], axis=1)
        pairs = raw.view(f"i{width // 8}").astype(np.int64).reshape(-1, 2)
        pairs[:, 1] &= hess_mask
        return pairs

    def pack_messages(self, pool: Array, plan: I64, n_messages: int, packing: bool) -> list[Array]:
        how = (packing, self.n_threads, self.simd)
        content, ends = _core.pack_messages(pool, plan, n_messages, *how)
        return np.split(content, ends[:-1])

    def add_messages(
        self,
        pool: Array,
        plan: I64,
        steps: tuple[int, int],
        messages: list[tuple[int, Array]],
        packing: bool,
    ) -> None:
        _core.add_messages(pool, plan, steps, messages, packing, self.n_threads, self.simd)

    def find_splits(
        self,
        pool: Array,
        mapper: BinMapper,
        slots: I64,
        widths: I64,
        sums: NDArray[np.float64],
        features: tuple[int, int],
        allowed: NDArray[np.uint8],
        rules: GainRules,
        packing: bool,
    ) -> SplitInfos:
        found: Array = _core.find_splits(
            pool,
            slots,
            widths,
            sums,
            mapper.bin_offset,
            mapper.has_missing,
            allowed,
            features,
            rules.as_tuple(),
            packing,
            self.n_threads,
            self.simd,
        )
        return found.view(SPLIT_INFO)

    def run_rounds(self, work: TreeWork, frontier: Any, alpha: float) -> bool:
        matrix, mapper, rows = work.matrix, work.matrix.mapper, work.rows
        tree = _core.TreeSearch(
            work.pool,
            matrix.layout,
            matrix.tiles,
            rows,
            work.packed,
            mapper.bin_offset,
            mapper.has_missing,
            work.allowed,
            work.rules.as_tuple(),
            work.packing,
            self.n_threads,
            self.simd,
        )
        scratch = self._scratch(len(rows))
        tree.grow(frontier, alpha, rows, scratch, matrix.columns, mapper.missing_bin)
        return True

    def locate_leaves(self, rows: Array, begins: I64, ends: I64, n_rows: int) -> LeafNumbers:
        # One number more than there are leaves: rows in none.
        leaf_of = self._buffer("leaf_of", (n_rows,), np.min_scalar_type(len(begins)))
        _core.locate_leaves(rows, begins, ends, leaf_of, self.n_threads)
        return LeafNumbers(leaf_of, len(begins))

    def leaf_sums(
        self, leaves: LeafNumbers, grad: Array, hess: Any, units: tuple[float, float]
    ) -> I64:
        sums = np.empty((leaves.n_leaves, 2), dtype=np.int64)
        _core.leaf_sums(leaves.of_row, grad, hess, *units, sums, self.n_threads, self.simd)
        return sums

    def add_leaf_values(
        self, scores: Array, leaves: LeafNumbers, values: NDArray[np.float64]
    ) -> None:
        _core.add_leaf_values(scores, *leaves, values, self.n_threads, self.simd)

    def add_tree(self, scores: Array, matrix: CpuMatrix, tree: Tree, subset: Any) -> None:
        missing_bin = matrix.mapper.missing_bin[tree.feature].astype(np.uint8)
        _core.add_binned_tree(
            scores,
            matrix.columns,
            tree.feature,
            tree.split_bin,
            missing_bin,
            tree.default_left,
            tree.left,
            tree.right,
            tree.leaf_value,
            subset,
            self.n_threads,
        )
