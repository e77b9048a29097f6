"""The CUDA backend: everything large stays on one GPU; per round only plans and splits cross.

Owns the verbs on CuPy arrays; the kernels are kernels/cuda/*.cu. Histogram slots have one width per
pool (32 + 32 or 64 + 64 bits): narrower totals would change neither the sums nor the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.backends.base import PackedRows, Rounding, Sample, TreeInputs
from bitgrove.backends.cuda.binning import bin_on_device
from bitgrove.backends.cuda.device import Device, blocks_of, on_device
from bitgrove.backends.cuda.matrix import CudaMatrix
from bitgrove.backends.cuda.memory import BYTES_PER_ROW, POOL, address_of
from bitgrove.backends.cuda.tree import CudaPool, CudaTreeWork, walk_tree
from bitgrove.data.binning import BinMapper, cut_edges
from bitgrove.data.row_ids import RowRuns
from bitgrove.kernels.plans import ROW_TOTALS, records
from bitgrove.model.tree import Tree
from bitgrove.objectives import Objective, Queries
from bitgrove.params import TrainParams

Array = NDArray[Any]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
_C = _core.constants
_ROW_TYPES = {8: np.int16, 16: np.int32, 32: np.int64}


class CudaBackend:
    frontier = _core.Frontier

    def __init__(self, params: TrainParams) -> None:
        self.device = Device(params.device)
        self.name = self.device.name
        self._num_leaves = params.num_leaves
        self.pool_mb = max(self.device.free_bytes() >> 22, 1)  # a quarter
        self._pool_bytes = (params.histogram_pool_mb or self.pool_mb) << 20
        self._query_tables: tuple[Any, ...] = (None,)
        self._gradients: tuple[Any, Any, dict[int, int]] = (None, None, {})

    def find_edges(self, columns: Sequence[Array], max_bin: int) -> list[F64]:
        return cut_edges(columns, max_bin)  # the sample is on the host

    @on_device
    def bin_columns(self, columns: Sequence[Array], mapper: BinMapper) -> CudaMatrix:
        memory, n_rows, n_features = self.device.memory, len(columns[0]), len(columns)
        n_tile_bytes = int(_core.tile_bytes(n_rows, n_features))
        slot_bytes = 16 * (int(mapper.edge_offset[-1]) + 2 * n_features)
        pool_bytes = min(self._pool_bytes, 2 * self._num_leaves * slot_bytes)
        n_bytes = n_tile_bytes + n_rows * (n_features + BYTES_PER_ROW)
        memory.require(n_bytes + pool_bytes, "training on this data")
        tiles = memory.zeros(n_tile_bytes, np.uint8)
        binned = memory.empty((n_features, n_rows), np.uint8)
        missing = bin_on_device(columns, mapper, tiles, binned, self.device)
        POOL.give_back()  # the values that were sent up
        return CudaMatrix(n_rows, mapper, missing, tiles, binned)

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
    def gradients(
        self, objective: Objective, scores: Any, label: Any, weight: Any, queries: Queries | None
    ) -> tuple[Any, Any]:
        self._gradients = (None, None, {})  # their memory can be used again
        n_outputs, n_rows = scores.shape
        grad = self.device.memory.empty(scores.shape, np.float32)
        constant = objective.constant_hessian(weight)
        hess = None if constant else self.device.memory.empty(scores.shape, np.float32)
        data = [address_of(a) for a in (scores, label, weight)]
        out = [address_of(grad), address_of(hess)]
        if objective.name == "lambdarank":
            assert queries is not None
            self._rank_gradients(objective, queries, data, out, n_rows)
            self._gradients = (grad, hess, {})
            return grad, hess
        (top,) = self.device.mailbox.send(np.zeros((n_outputs, 2), dtype=np.uint32))
        if objective.name == "multiclass":
            grid = (blocks_of(n_rows), 1)
            args = (*data, *out, n_outputs, n_rows, top)
            self.device.launch("gradients", "softmax_gradients", grid, *args)
        else:
            kernel = {"binary": "binary_gradients", "regression": "squared_gradients"}
            args = (*data, *out, objective.sigmoid, n_rows, top)
            grid = self.device.grid(n_rows)
            self.device.launch("gradients", kernel[objective.name], grid, *args)
        tops = self.device.mailbox.fetch(top, (n_outputs, 2), np.uint32)
        known = {
            start + k * grad.strides[0]: top
            for start, column in zip(out, tops.T.tolist(), strict=True)
            for k, top in enumerate(column)
            if start
        }
        self._gradients = (grad, hess, known)
        return grad, hess

    def _rank_gradients(
        self, o: Objective, q: Queries, data: list[int], out: list[int], n_rows: int
    ) -> None:
        if self._query_tables[0] is not q:
            tables = (q.offset, q.inverse_max_dcg, q.unit, q.label_gain, q.discount)
            self._query_tables = (q, *map(self.device.memory.upload, tables))
        addresses = map(address_of, self._query_tables[1:])
        order = self.device.memory.scratch("order", n_rows, np.int32)
        sums = self.device.memory.scratch("rank sums", 2 * n_rows, np.int64)
        rules = (o.sigmoid, o.truncation, int(o.normalise))
        args = (*data, *addresses, *rules, address_of(order), address_of(sums), *out)
        grid = (len(q.offset) - 1, 1)
        self.device.launch("ranking", "rank_gradients", grid, *args, threads=_C["RANK_THREADS"])

    @on_device
    def max_magnitude(self, values: Any) -> int:
        address = address_of(values)
        grad, hess, known = self._gradients
        if address not in known:
            (top,) = self.device.mailbox.send(np.zeros(1, dtype=np.uint32))
            args = (address, values.size, top)
            self.device.launch("gradients", "max_magnitude", self.device.grid(values.size), *args)
            found = int(self.device.mailbox.fetch(top, (1,), np.uint32)[0])
            # Only what this backend holds cannot change: its memory is not given to others.
            mine = [a for a in (grad, hess) if a is not None]
            if not any(address_of(a) <= address < address_of(a) + a.nbytes for a in mine):
                return found
            known[address] = found
        return known[address]

    @on_device
    def count_magnitudes(self, values: Any) -> I64:
        (counts,) = self.device.mailbox.send(np.zeros(2048, dtype=np.int64))
        args = (address_of(values), values.size, counts)
        self.device.launch("gradients", "count_magnitudes", self.device.grid(values.size), *args)
        return self.device.mailbox.fetch(counts, (2048,), np.int64)

    @on_device
    def quantize(self, grad: Any, hess: Any, rounding: Rounding, runs: RowRuns) -> PackedRows:
        device, r = self.device, rounding
        packed = device.memory.empty(len(grad), _ROW_TYPES[r.half_bits])
        (totals,) = device.mailbox.send(records(ROW_TOTALS, 1))
        scales = map(float, (r.inverse_grad, r.inverse_hess, r.grad_limit, r.hess_limit))
        how, kernel = (*scales, r.key), f"quantize_{r.half_bits}"
        for run in runs:
            n_rows = run.end - run.begin
            hess_of_run = None if hess is None else hess[run.rows]
            data = (address_of(grad[run.rows]), address_of(hess_of_run))
            noise = (run.first, int(r.stochastic), n_rows)
            out = address_of(packed[run.rows])
            device.launch("quantize", kernel, device.grid(n_rows), *data, *how, *noise, out, totals)
        return PackedRows(packed, device.mailbox.fetch(totals, (1,), ROW_TOTALS)[0])

    @on_device
    def select_rows(self, runs: RowRuns, sample: Sample | None) -> Any:
        device, n_rows = self.device, runs[-1].end
        if sample is None:
            rows = device.memory.empty(n_rows, np.int32)
            grid = device.grid(n_rows)
            device.launch("quantize", "all_rows", grid, address_of(rows), n_rows)
            return rows
        with device.memory.in_use():
            selected = device.memory.empty(n_rows, np.uint8)
            for run in runs:
                n = run.end - run.begin
                args = (sample[0], run.first, sample[1], n, address_of(selected[run.rows]))
                device.launch("quantize", "sample_rows", (blocks_of(n), 1), *args)
            return device.cupy.flatnonzero(selected).astype(np.int32)

    @on_device
    def new_pool(self, matrix: CudaMatrix, n_slots: int, half_bits: int) -> CudaPool:
        return CudaPool(self.device, matrix, n_slots, half_bits, self._num_leaves)

    @on_device
    def start_tree(self, pool: CudaPool, inputs: TreeInputs) -> CudaTreeWork:
        return CudaTreeWork(pool, inputs)

    @on_device
    def add_tree(self, scores: Any, matrix: CudaMatrix, tree: Tree) -> None:
        walk_tree(self.device, scores, matrix, tree, None)
