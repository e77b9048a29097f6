"""The CUDA backend: everything large stays on one GPU; per round only plans and splits cross.

Owns the verbs on CuPy arrays; the kernels are kernels/cuda/*.cu. Histogram slots have one width per
pool (32 + 32 or 64 + 64 bits): narrower totals would change neither the sums nor the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.backends.base import PackedRows, Rounding, Targets, TreeInputs
from bitgrove.backends.core_tree import core_frontier
from bitgrove.backends.cpu import CpuBackend
from bitgrove.backends.cuda.binning import add_columns, bin_on_device
from bitgrove.backends.cuda.device import Device, Grid, blocks_of, on_device
from bitgrove.backends.cuda.edges import edge_bytes, find_on_device
from bitgrove.backends.cuda.gradients import GradientKernels
from bitgrove.backends.cuda.matrix import CudaMatrix
from bitgrove.backends.cuda.memory import BYTES_PER_OUTPUT, BYTES_PER_ROW, address_of
from bitgrove.backends.cuda.panel import CudaPanel
from bitgrove.backends.cuda.transfer import Sender
from bitgrove.backends.cuda.tree import CudaPool, CudaTreeWork, walk_tree
from bitgrove.backends.told import Gradients, OutputGradients
from bitgrove.data.binning import BinMapper
from bitgrove.data.row_ids import RowRuns
from bitgrove.data.sampling import KeepRule, Sample
from bitgrove.data.sparse.bins import with_dense_bins
from bitgrove.distributed.comm import Comm
from bitgrove.errors import DeviceMemoryError, HostMemoryError
from bitgrove.kernels.plans import (
    MAGNITUDE_BUCKETS,
    MAGNITUDES,
    ROW_TOTALS,
    ROW_TYPES,
)
from bitgrove.machine.memory import Room, free_memory, host_room
from bitgrove.model.tree import Tree
from bitgrove.objectives import Objective
from bitgrove.objectives.metrics import EvalSet
from bitgrove.params import TrainParams

Array = NDArray[Any]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
_MOST_BINS = 257  # of a feature, as the histogram pool counts them
_INT64 = np.dtype(np.int64)
_SLOT_BIN = 16  # bytes of a bin of the widest histograms


class CudaBackend:
    leaves_host_idle = True
    shares_bytes = False
    spills_bins = True
    narrow_labels = False
    tile_bytes = staticmethod(_core.tile_bytes)
    frontier_alpha = 0.6
    frontier = staticmethod(partial(core_frontier, one_width=True))

    def __init__(self, params: TrainParams, n_outputs: int = 1) -> None:
        self.device = Device(params.device)
        self.name = self.device.name
        self.device.kernels.prepare(say=params.verbosity >= 1 or params.progress)
        self._num_leaves = params.num_leaves
        self.pool_mb = max(self.device.free_bytes() >> 22, 1)  # a quarter
        self._host = CpuBackend(params.n_jobs)
        self._gradients = GradientKernels(self.device)
        self._sender = Sender(self.device, self._host.n_threads)
        self._pool_bytes = (params.histogram_pool_mb or self.pool_mb) << 20
        self._row_bytes = BYTES_PER_ROW + (n_outputs - 1) * BYTES_PER_OUTPUT
        self._promised = 0  # bytes of the device for what belongs to rows, and for histograms

    def room(self) -> Room:
        """With what CuPy's own pool would give back."""
        with self.device.handle:
            kept = int(self.device.cupy.get_default_memory_pool().free_bytes())
        free = self.device.free_bytes() + kept
        return Room(None, free, f"{host_room().place} {self.name}", DeviceMemoryError)

    @on_device
    def send_columns(self, columns: Sequence[Any]) -> Sequence[Any]:
        if not columns or not all(isinstance(column, np.ndarray) for column in columns):
            return columns
        n_rows, n_features = len(columns[0]), len(columns)
        n_bytes = sum(column.nbytes for column in columns) + edge_bytes(n_rows, n_features)
        most = 2 * self._num_leaves * _SLOT_BIN * _MOST_BINS * n_features
        pool_bytes = min(self._pool_bytes, most)
        n_bytes += n_rows * (n_features + self._row_bytes) + pool_bytes
        n_bytes += self.tile_bytes(n_rows, n_features)
        if n_bytes > self.device.free_bytes():
            return columns
        return self._sender.columns(columns)

    @on_device
    def find_edges(
        self, columns: Sequence[Any], rows: NDArray[np.int32] | None, max_bin: int
    ) -> list[F64]:
        # A table that the device has no room for is looked at where it is.
        if not columns or isinstance(columns[0], np.ndarray):
            return self._host.find_edges(columns, rows, max_bin)
        return find_on_device(columns, rows, max_bin, self.device)

    @on_device
    def bin_columns(self, columns: Sequence[Any], mapper: BinMapper) -> CudaMatrix:
        n_rows, n_features = len(columns[0]), len(columns)
        n_bins = int(mapper.edge_offset[-1]) + n_features
        beside = n_rows * self._row_bytes
        self.device.memory.require(beside + _SLOT_BIN * n_bins, "training on this data")
        beside += min(self._pool_bytes, 2 * self._num_leaves * _SLOT_BIN * n_bins)
        n_here = self._rows_with_room(n_rows, n_features, beside)
        if n_here < n_rows:
            _require_host((n_rows - n_here) * (self.tile_bytes(1, n_features) + n_features))
        columns = with_dense_bins(columns, mapper, self._host.n_threads)
        return bin_on_device(columns, mapper, n_here, self.device, self._sender)

    def _rows_with_room(self, n_rows: int, n_features: int, beside: int) -> int:
        """Rows whose tiles have room on the device, beside what they need there anyway."""
        self._promised += beside
        n_bytes = self.tile_bytes(n_rows, n_features)
        if n_bytes > self.device.free_bytes() - self._promised:
            self.device.memory.give_back()
        room = max(0, self.device.free_bytes() - self._promised)
        return n_rows if n_bytes <= room else int(room // self.tile_bytes(1, n_features))

    @on_device
    def upload(self, values: Array | None) -> Any:
        if values is None:
            return None
        memory = self.device.memory
        if values.size == 0 or values.strides[-1] != 0:
            return memory.upload(values)
        # Rows that repeat one value: only that one travels.
        repeated = memory.empty(values.shape, values.dtype)
        with memory.in_use():
            repeated[...] = memory.upload(values[..., :1])
        return repeated

    @on_device
    def download(self, values: Any) -> Array:
        return np.asarray(self.device.cupy.asnumpy(values))

    @on_device
    def gradients(self, objective: Objective, scores: Any, targets: Targets) -> Gradients:
        return self._gradients.compute(objective, scores, targets)

    @on_device
    def residual_keys(self, scores: Any, label: Any) -> Any:
        keys = self.device.memory.empty(scores.shape, np.uint32)
        n_rows = len(scores)
        data = (address_of(scores), address_of(label), n_rows, address_of(keys))
        self.device.launch("leaves", "residual_keys", self.device.grid(n_rows), *data)
        return keys

    @on_device
    def quantize(self, grad: Any, hess: Any, rounding: Rounding, runs: RowRuns) -> PackedRows:
        device, r = self.device, rounding
        packed = device.memory.kept("packed", (len(grad),), ROW_TYPES[r.half_bits])
        scales = (r.inverse_grad, r.inverse_hess, float(r.grad_limit), float(r.hess_limit))
        kernel, grids = f"quantize_{r.half_bits}", self._grids(runs)
        answer = device.answers.expect(ROW_TOTALS.itemsize, sum(x for x, _ in grids))
        for run, grid in zip(runs, grids, strict=True):
            n_rows, first = run.end - run.begin, run.begin
            data = (address_of(grad, first), address_of(hess, first), *scales)
            noise = (r.key, run.first, int(r.stochastic), n_rows)
            out = (address_of(packed, first), answer)
            device.launch("quantize", kernel, grid, *data, *noise, *out)
        return PackedRows(packed, answer.read(ROW_TOTALS, 1))

    def _grids(self, runs: RowRuns) -> list[Grid]:
        """Of a kernel whose threads step through the rows of each run."""
        return [self.device.grid(run.end - run.begin) for run in runs]

    @on_device
    def select_rows(self, runs: RowRuns, sample: Sample | None) -> Any:
        device, n_rows = self.device, runs[-1].end
        if sample is None:
            rows = device.memory.kept("rows", (n_rows,), np.int32)
            grid = device.grid(n_rows)
            device.launch("sampling", "all_rows", grid, address_of(rows), n_rows)
            return rows
        with device.memory.in_use():
            selected = device.memory.empty(n_rows, np.uint8)
            for run in runs:
                n = run.end - run.begin
                own = [address_of(a, run.begin) for a in (sample.ids, sample.limits)]
                args = (sample.key, run.first, sample.limit, *own, n)
                out = address_of(selected, run.begin)
                device.launch("sampling", "sample_rows", (blocks_of(n), 1), *args, out)
            return device.cupy.flatnonzero(selected).astype(np.int32)

    @on_device
    def count_importance(self, grad: Any, hess: Any, hess_share: float) -> I64:
        device, n_rows = self.device, len(grad)
        grid = device.grid(n_rows)
        answer = device.answers.expect(8 * MAGNITUDE_BUCKETS, grid[0])
        data = (address_of(grad), address_of(hess), float(hess_share), n_rows, answer)
        device.launch("sampling", "count_importance", grid, *data)
        return answer.read(_INT64, MAGNITUDE_BUCKETS)

    @on_device
    def keep_rows(self, grad: Any, hess: Any, rule: KeepRule, runs: RowRuns) -> OutputGradients:
        device = self.device
        names = ("kept gradients", "kept hessians")
        kept_grad, kept_hess = (device.memory.kept(n, (len(grad),), np.float32) for n in names)
        grids = self._grids(runs)
        answer = device.answers.expect(MAGNITUDES.itemsize, sum(x for x, _ in grids))
        for run, grid in zip(runs, grids, strict=True):
            n_rows, first = run.end - run.begin, run.begin
            data = (address_of(grad, first), address_of(hess, first))
            how = (*map(float, rule[:4]), rule.key, run.first, n_rows)
            out = (address_of(kept_grad, first), address_of(kept_hess, first), answer)
            device.launch("sampling", "keep_rows", grid, *data, *how, *out)
        return OutputGradients(kept_grad, kept_hess, device.answers.telling(MAGNITUDES, 1))

    @on_device
    def fade(self, scores: Any, start: Any, keep: float) -> None:
        """Three operations of CuPy: one alone could be contracted to other bits."""
        scores -= start
        scores *= keep
        scores += start

    @on_device
    def new_pool(self, matrix: CudaMatrix, n_slots: int, half_bits: int) -> CudaPool:
        add_columns(matrix, self.device.free_bytes() - self._promised, self.device)
        return CudaPool(self.device, matrix, n_slots, half_bits, self._num_leaves)

    @on_device
    def start_tree(self, pool: CudaPool, inputs: TreeInputs) -> CudaTreeWork:
        return CudaTreeWork(pool, inputs)

    @on_device
    def add_tree(self, scores: Any, matrix: CudaMatrix, tree: Tree) -> None:
        walk_tree(self.device, scores, matrix, tree, None)

    @on_device
    def new_panel(self, sets: Sequence[EvalSet], comm: Comm) -> CudaPanel:
        how = (self._host.n_threads, self._host.simd)
        return CudaPanel(self.device, sets, comm, how)


def _require_host(n_bytes: int) -> None:
    free = free_memory()
    if free is not None and n_bytes > free:
        raise HostMemoryError(
            f"bins that have no room on the GPU need {n_bytes / 1e9:.3g} GB on the host, and "
            f"{free / 1e9:.3g} GB are left there"
        )
