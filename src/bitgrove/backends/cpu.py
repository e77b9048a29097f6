"""The C++ backend: threads, AVX-512/AVX2/scalar chosen at run time.

Owns the NumPy arrays the kernels work on and hands them over; holds no logic of its own. The
environment variable BITGROVE_SIMD (scalar, avx2, avx512) lowers the instruction set.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.backends.base import PackedRows, RootSums, Rounding, Targets, TreeInputs
from bitgrove.backends.core_tree import CoreTree, core_frontier
from bitgrove.backends.host_gradients import host_gradients
from bitgrove.backends.host_slots import HostSlots
from bitgrove.backends.losses import loss_parts
from bitgrove.backends.panel import HostPanel
from bitgrove.backends.told import Gradients, Known, OutputGradients
from bitgrove.data.binned.host import BinWriter, empty_bins, find_edges, whole_bins
from bitgrove.data.binning import BinMapper
from bitgrove.data.given_values import widened
from bitgrove.data.row_ids import RowRuns
from bitgrove.data.sampling import KeepRule, Sample
from bitgrove.data.sparse.bins import bin_sparse
from bitgrove.data.sparse.tables import SparseColumns
from bitgrove.distributed.comm import Comm
from bitgrove.kernels.plans import MAGNITUDE_BUCKETS, ROW_TYPES, Records
from bitgrove.machine.memory import Room, host_room
from bitgrove.machine.simd import simd_level
from bitgrove.machine.threads import resolve_threads
from bitgrove.model.tree import Tree
from bitgrove.objectives import Objective
from bitgrove.objectives.metrics import EvalSet

Array = NDArray[Any]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
_CACHE_LINE = 64


@dataclass(eq=False)
class CpuMatrix:
    """Bins in padded columns; of a training set also row-major, in tiles, for histograms.

    Of a sparse table the stored values of most features are in lists, and column_of is -1.
    """

    n_rows: int
    mapper: BinMapper
    missing: NDArray[np.uint8]
    columns: NDArray[np.uint8]
    column_of: NDArray[np.int32]  # of each feature
    n_threads: int
    lists: _core.SparseBins | None = None
    slot_offset: I64 = field(init=False)  # where the bins of each feature start in a slot
    layout: _core.TileLayout | None = None  # which features share a column of the tiles
    tiles: NDArray[np.uint8] | None = None

    @property
    def n_slot_bins(self) -> int:
        return int(self.slot_offset[-1])

    def prepare(self, mapper: BinMapper, alone: bool = False) -> None:
        self.mapper, self.slot_offset = mapper, mapper.bin_offset
        if self.lists is not None:
            self.lists.prepare(mapper.bin_offset, self.n_threads)
            if alone and self.lists.by_postings:
                sizes = np.where(self.column_of < 0, 0, np.diff(mapper.bin_offset))
                self.slot_offset = np.concatenate([[0], np.cumsum(sizes)])
        in_tiles = np.argsort(self.column_of)[np.count_nonzero(self.column_of < 0) :]
        self.layout = _core.TileLayout(self.slot_offset, in_tiles)
        self.layout.join_columns(self.columns, self.n_rows)
        self.tiles = _aligned_bytes(self.layout.n_bytes(self.n_rows))
        _core.lay_tiles(self.layout, self.columns, self.n_rows, self.tiles, self.n_threads)


@dataclass(eq=False)
class CpuPool:
    """Slots of bytes; a slot's sums have the width that the plans give it."""

    matrix: CpuMatrix
    n_slots: int
    half_bits: int
    n_threads: int
    storage: NDArray[np.uint8]
    core: _core.CpuPool  # the same for the core, with the matrix's bins

    def on_host(self, slots: I64) -> HostSlots:
        return HostSlots(self.storage, n_threads=self.n_threads)

    def put_back(self, host: HostSlots) -> None:
        """It is the pool's own memory."""


def _core_pool(matrix: CpuMatrix, storage: NDArray[np.uint8]) -> _core.CpuPool:
    mapper = matrix.mapper
    assert matrix.tiles is not None, "the matrix is prepared"
    # Columns of rows to be marked while nodes are divided by features in lists.
    n_marks = 0 if matrix.lists is None else _core.MARK_COLUMNS
    return _core.CpuPool(
        storage=storage,
        layout=matrix.layout,
        tiles=matrix.tiles,
        columns=matrix.columns,
        bin_offset=matrix.slot_offset,
        has_missing=mapper.has_missing,
        kinds=mapper.kinds,
        column_of=matrix.column_of,
        sparse=matrix.lists,
        marks=np.full((n_marks, matrix.columns.shape[1]), _core.NO_MARK, dtype=np.uint8),
        n_threads=matrix.n_threads,
    )


def _aligned_bytes(n_bytes: int) -> NDArray[np.uint8]:
    """Zeroed memory that starts at a cache line: rows and slots then never straddle one."""
    memory = np.zeros(n_bytes + _CACHE_LINE, dtype=np.uint8)
    start = -memory.ctypes.data % _CACHE_LINE
    return memory[start : start + n_bytes]


def _small_pages(n_bytes: int) -> NDArray[np.uint8]:
    """Zeroed memory for slots, many of which are never used, or by sums of half their width."""
    own = {"flags": mmap.MAP_PRIVATE} if hasattr(mmap, "MAP_PRIVATE") else {}
    try:
        memory = mmap.mmap(-1, max(n_bytes, 1), **own)
    except OSError as error:
        raise MemoryError(f"no memory for histograms of {n_bytes} bytes") from error
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with suppress(OSError):  # a system without large pages
            memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, dtype=np.uint8, count=n_bytes)


class CpuBackend:
    """packed: accumulators hold both halves of a sum in one integer; False is an ablation."""

    name = "cpu"
    leaves_host_idle = False
    shares_bytes = True
    spills_bins = False
    narrow_labels = True
    tile_bytes = staticmethod(_core.tile_bytes)
    pool_mb = 1024
    frontier = staticmethod(core_frontier)

    def __init__(self, n_jobs: int | None = None, packed: bool = True) -> None:
        self.n_threads = resolve_threads(n_jobs)
        self.packed = packed
        self.simd = simd_level()
        # Many threads need a large batch to share; for two, nodes expanded in vain cost more.
        self.frontier_alpha = 0.25 if self.n_threads <= 2 else 0.5
        self._buffers: dict[str, Array] = {}

    def buffer(self, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
        """Memory kept from one tree to the next: fresh pages would cost more than the work."""
        kept = self._buffers.get(name)
        if kept is None or kept.shape != shape or kept.dtype != dtype:
            kept = self._buffers[name] = np.empty(shape, dtype=dtype)
        return kept

    def room(self) -> Room:
        return host_room()

    def send_columns(self, columns: Sequence[Array]) -> Sequence[Array]:
        return columns

    def find_edges(
        self, columns: Sequence[Array], rows: NDArray[np.int32] | None, max_bin: int
    ) -> list[F64]:
        return find_edges(columns, rows, max_bin, self.n_threads)

    def bin_columns(self, columns: Sequence[Any], mapper: BinMapper) -> CpuMatrix:
        n_rows = len(columns[0])
        if isinstance(columns, SparseColumns):
            b = bin_sparse(columns, mapper, self.n_threads)
            how = (b.missing, b.columns, b.column_of, self.n_threads, b.lists)
            return CpuMatrix(n_rows, mapper, *how)
        bins = whole_bins(columns)
        if bins is None:
            bins = empty_bins(len(columns), n_rows)
        writer = BinWriter.of(mapper, bins, self.n_threads, self.simd)
        writer.write(columns)
        every = np.arange(len(columns), dtype=np.int32)
        return CpuMatrix(n_rows, mapper, writer.missing, bins, every, self.n_threads)

    def upload(self, values: Array | None) -> Any:
        # One row that "repeats itself" is contiguous already, but not to be written to.
        return None if values is None else np.require(values, requirements=("C", "W"))

    def download(self, values: Any) -> Array:
        return np.asarray(values)

    def gradients(self, objective: Objective, scores: Array, targets: Targets) -> Gradients:
        if objective.family == "given":
            given = targets._replace(label=widened(targets.label))
            return host_gradients(objective, scores, given)
        grad = self.buffer("grad", scores.shape, np.float32)
        hess = self.buffer("hess", scores.shape, np.float32)
        found = []
        for part in loss_parts(objective, len(scores)):
            rows = slice(part.first, part.last)
            magnitudes = _core.gradients(
                part.kernel,
                scores[rows],
                targets.label_of(part.first),
                targets.weight,
                targets.tables,
                part.parameters,
                grad[rows],
                hess[rows],
                self.n_threads,
                self.simd,
            )
            found.append(magnitudes)
        magnitudes = found[0] if len(found) == 1 else np.concatenate(found)
        kept = None if objective.constant_hessian(targets.weight) else hess
        if kept is None:
            for name in ("hess_top", "hess_rows", "hess_logs"):
                magnitudes[name] = 0
        return Gradients(grad, kept, Known(magnitudes))

    def residual_keys(self, scores: Array, label: Array) -> Array:
        keys = self.buffer("residual keys", scores.shape, np.uint32)
        _core.residual_keys(scores, label, keys, self.n_threads, self.simd)
        return keys

    def quantize(
        self, grad: Array, hess: Array | None, rounding: Rounding, runs: RowRuns
    ) -> PackedRows:
        packed = self.buffer("packed", (len(grad),), ROW_TYPES[rounding.half_bits])
        r, totals = rounding, None
        for run in runs:
            noise = (r.key, run.first, r.stochastic)
            how = _core.Rounding(r.inverse_grad, r.inverse_hess, r.grad_limit, r.hess_limit, *noise)
            part = None if hess is None else hess[run.rows]
            out = packed[run.rows]
            found = _core.quantize(grad[run.rows], part, how, out, self.n_threads, self.simd)
            totals = found if totals is None else _added(totals, found)
        assert totals is not None
        return PackedRows(packed, totals)

    def select_rows(self, runs: RowRuns, sample: Sample | None) -> Array:
        rows = self.buffer("rows", (runs[-1].end,), np.int32)
        if sample is None:
            _core.list_rows(rows, self.n_threads)
            return rows
        n_selected = 0
        for run in runs:
            part = rows[n_selected : n_selected + run.end - run.begin]
            own = [None if a is None else a[run.rows] for a in (sample.ids, sample.limits)]
            n_found = _core.select_rows(sample.key, run.first, sample.limit, part, *own)
            part[:n_found] += np.int32(run.begin)
            n_selected += n_found
        return rows[:n_selected]

    def count_importance(self, grad: Array, hess: Array | None, hess_share: float) -> I64:
        counts = np.zeros(MAGNITUDE_BUCKETS, dtype=np.int64)
        _core.count_importance(grad, hess, hess_share, counts, self.n_threads)
        return counts

    def keep_rows(
        self, grad: Array, hess: Array | None, rule: KeepRule, runs: RowRuns
    ) -> OutputGradients:
        kept_grad = self.buffer("kept grad", grad.shape, np.float32)
        kept_hess = self.buffer("kept hess", grad.shape, np.float32)
        for run in runs:
            part = None if hess is None else hess[run.rows]
            out = (kept_grad[run.rows], kept_hess[run.rows])
            how = _core.KeepRule(*rule, run.first)
            _core.keep_rows(grad[run.rows], part, how, *out, self.n_threads)
        magnitudes = _core.magnitudes(kept_grad, kept_hess, self.n_threads)
        return OutputGradients(kept_grad, kept_hess, Known(magnitudes))

    def fade(self, scores: Array, start: Array, keep: float) -> None:
        scores[:] = start + (scores - start) * keep

    def new_pool(self, matrix: CpuMatrix, n_slots: int, half_bits: int) -> CpuPool:
        slot_bytes = -(-matrix.n_slot_bins * half_bits // 4 // _CACHE_LINE) * _CACHE_LINE
        _core.give_back_heap()  # what binning needed until here
        storage = _small_pages(n_slots * slot_bytes).reshape(n_slots, slot_bytes)
        return CpuPool(
            matrix, n_slots, half_bits, self.n_threads, storage, _core_pool(matrix, storage)
        )

    def start_tree(self, pool: CpuPool, inputs: TreeInputs) -> CpuTreeWork:
        return CpuTreeWork(self, pool, inputs)

    def add_tree(self, scores: Array, matrix: CpuMatrix, tree: Tree) -> None:
        self.walk_tree(scores, matrix, tree, None)

    def new_panel(self, sets: Sequence[EvalSet], comm: Comm) -> HostPanel:
        return HostPanel(sets, comm, self.download, (self.n_threads, self.simd))

    def walk_tree(self, scores: Array, matrix: CpuMatrix, tree: Tree, rows: Array | None) -> None:
        """add_tree, for all rows or the listed ones."""
        walk = (tree.binned_splits(matrix.mapper.missing_bin), tree.left_bins, tree.leaf_value)
        where = (matrix.column_of, matrix.lists)
        _core.add_tree(scores, matrix.columns, *walk, rows, *where, self.n_threads)


class CpuTreeWork(CoreTree):
    """One tree on the CPU."""

    def __init__(self, backend: CpuBackend, pool: CpuPool, inputs: TreeInputs) -> None:
        self.pool, self._backend, self._inputs = pool, backend, inputs
        packed, rows, n_threads = inputs.packed, inputs.rows, backend.n_threads
        self._scratch = backend.buffer("scratch", (pool.matrix.n_rows,), np.int32)
        n_rows = n_active = len(rows)
        if inputs.separate_zeros:
            n_active = _core.separate_zero_rows(packed.values, rows, self._scratch, n_threads)
        sums = packed.totals
        if n_rows < pool.matrix.n_rows:
            sums = _core.row_sums(packed.values, rows, n_threads, backend.simd)
        self.root = RootSums(
            int(sums["grad"][0]), int(sums["hess"][0]), n_active, n_rows - n_active
        )
        self._verbs = self._verbs_on(pool, inputs.limits_features)

    def _verbs_on(self, pool: Any, by_node: bool) -> _core.CpuTree:
        inputs, backend, rules = self._inputs, self._backend, self._inputs.split_rules
        return _core.CpuTree(
            pool.core,
            inputs.rows,
            self._scratch,
            inputs.packed.values,
            inputs.allowed,
            _core.GainRules(*inputs.rules),
            None if rules is None else _core.SplitRules(*rules),
            backend.packed,
            backend.n_threads,
            backend.simd,
        )

    def set_leaves(self, begins: I64, ends: I64) -> None:
        """From row lists to row order: everything after it is read in order."""
        backend, n_leaves = self._backend, len(begins)
        # One number more than there are leaves: rows in none.
        dtype = np.uint8 if n_leaves < 2**8 else np.uint16 if n_leaves < 2**16 else np.uint32
        # The rows are divided by now: what that needed is free for the leaves.
        self._leaf_of = self._scratch.view(dtype)[: self.pool.matrix.n_rows]
        how = (backend.n_threads, backend.simd)
        _core.locate_leaves(self._inputs.rows, begins, ends, self._leaf_of, *how)
        self._n_leaves = n_leaves

    def leaf_sums(self, grad: Array, hess: Any, units: tuple[float, float]) -> Known:
        how = (self._backend.n_threads, self._backend.simd)
        leaves = (self._leaf_of, self._n_leaves)
        return Known(_core.leaf_sums(*leaves, grad, hess, *units, *how))

    def leaf_digits(
        self, keys: Array, weights: Any, prefixes: NDArray[np.uint32], shift: int
    ) -> I64:
        found = np.empty((self._n_leaves, 256), dtype=np.int64)
        leaves = (self._leaf_of, self._n_leaves)
        _core.leaf_digits(*leaves, keys, weights, prefixes, shift, found, self._backend.n_threads)
        return found

    def next_keys(self, keys: Array, lower: NDArray[np.uint32]) -> NDArray[np.uint32]:
        found = np.empty(self._n_leaves, dtype=np.uint32)
        leaves = (self._leaf_of, self._n_leaves)
        _core.next_keys(*leaves, keys, lower, found, self._backend.n_threads)
        return found

    def add_tree(self, scores: Array, tree: Tree) -> None:
        how = (self._backend.n_threads, self._backend.simd)
        _core.add_leaf_values(scores, self._leaf_of, self._n_leaves, tree.leaf_value, *how)
        if len(self._inputs.rows) < len(scores):
            left_out = np.flatnonzero(self._leaf_of == self._n_leaves).astype(np.int32)
            self._backend.walk_tree(scores, self.pool.matrix, tree, left_out)


def _added(a: Records, b: Records) -> Records:
    """The sums of records of integers."""
    return (a.view(np.int64) + b.view(np.int64)).view(a.dtype)
