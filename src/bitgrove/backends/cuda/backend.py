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
from bitgrove.backends.base import Gradients, PackedRows, Rounding, Sample, Targets, TreeInputs
from bitgrove.backends.cuda.binning import bin_on_device
from bitgrove.backends.cuda.device import Device, blocks_of, on_device
from bitgrove.backends.cuda.matrix import CudaMatrix
from bitgrove.backends.cuda.memory import BYTES_PER_ROW, POOL, address_of
from bitgrove.backends.cuda.tree import CudaPool, CudaTreeWork, walk_tree
from bitgrove.backends.losses import LossPart, loss_parts
from bitgrove.data.binning import BinMapper, cut_edges
from bitgrove.data.row_ids import RowRuns
from bitgrove.kernels.plans import MAGNITUDES, ROW_TOTALS, ROW_TYPES, records
from bitgrove.model.tree import Tree
from bitgrove.objectives import Custom, Objective
from bitgrove.params import TrainParams

Array = NDArray[Any]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
_C = _core.constants


class CudaBackend:
    frontier = _core.Frontier

    def __init__(self, params: TrainParams) -> None:
        self.device = Device(params.device)
        self.name = self.device.name
        self._num_leaves = params.num_leaves
        self.pool_mb = max(self.device.free_bytes() >> 22, 1)  # a quarter
        self._pool_bytes = (params.histogram_pool_mb or self.pool_mb) << 20

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
    def gradients(self, objective: Objective, scores: Any, targets: Targets) -> Gradients:
        n_outputs = len(scores)
        grad = self.device.memory.empty(scores.shape, np.float32)
        constant = objective.constant_hessian(targets.weight)
        hess = None if constant else self.device.memory.empty(scores.shape, np.float32)
        given = self._given(objective, scores, targets)
        magnitudes = records(MAGNITUDES, n_outputs)
        (found_at,) = self.device.mailbox.send(magnitudes)
        if given is not None:
            self._take_given(given, grad, hess, found_at)
        else:
            for part in loss_parts(objective, n_outputs):
                self._launch_loss(part, objective.family, scores, targets, (grad, hess, found_at))
        magnitudes = self.device.mailbox.fetch(found_at, magnitudes.shape, MAGNITUDES)
        return Gradients(grad, hess, magnitudes)

    def _launch_loss(
        self, part: LossPart, family: str, scores: Any, targets: Targets, out: tuple[Any, Any, int]
    ) -> None:
        """One kernel for the outputs of a part; out: gradients, hessians, where magnitudes go."""
        grad, hess, found_at = out
        first, n_outputs, n_rows = part.first, part.last - part.first, scores.shape[1]
        label = targets.label_of(first)
        data = [address_of(a) for a in (scores[first], label, targets.weight)]
        to = [address_of(grad[first]), address_of(None if hess is None else hess[first])]
        if family in ("ranked", "listwise"):  # a block for each query
            file, threads = "ranking", _C["RANK_THREADS"]
            grid = (len(targets.tables[0]) - 1, 1)
            args = (*data, *map(address_of, targets.tables), *self._rank_scratch(n_rows), *to)
        else:
            file, threads = "gradients", _C["THREADS"]
            grid = (blocks_of(n_rows), 1) if family == "softmax" else self.device.grid(n_rows)
            args = (*data, *to, n_outputs, n_rows)
        name, found = f"{part.kernel}_gradients", found_at + MAGNITUDES.itemsize * first
        self.device.launch(file, name, grid, *args, found, *part.parameters, threads=threads)

    def _given(self, objective: Objective, scores: Any, targets: Targets) -> Any:
        """What a function of the user's returns, on the device; None for other objectives."""
        if objective.family != "given":
            return None
        assert isinstance(objective, Custom)
        with self.device.memory.in_use():
            return objective.given(scores, targets.label, targets.weight, self.device.cupy)

    def _take_given(self, given: Any, grad: Any, hess: Any, found_at: int) -> None:
        """float64 gradients of the user's as float32, with their magnitudes."""
        n_outputs, n_rows = grad.shape
        for k in range(n_outputs):
            data = [address_of(side[k]) for side in given]
            found = found_at + MAGNITUDES.itemsize * k
            out = (address_of(grad[k]), address_of(hess[k]), n_rows, found)
            grid = self.device.grid(n_rows)
            self.device.launch("gradients", "given_gradients", grid, *data, *out)

    @on_device
    def residual_keys(self, scores: Any, label: Any) -> Any:
        keys = self.device.memory.empty(scores.shape, np.uint32)
        n_rows = len(scores)
        data = (address_of(scores), address_of(label), n_rows, address_of(keys))
        self.device.launch("leaves", "residual_keys", self.device.grid(n_rows), *data)
        return keys

    def _rank_scratch(self, n_rows: int) -> tuple[int, int]:
        """Addresses of room for the row of each rank, and for sums."""
        order = self.device.memory.scratch("order", n_rows, np.int32)
        sums = self.device.memory.scratch("rank sums", _C["RANK_SCRATCH"] * n_rows, np.int64)
        return address_of(order), address_of(sums)

    @on_device
    def quantize(self, grad: Any, hess: Any, rounding: Rounding, runs: RowRuns) -> PackedRows:
        device, r = self.device, rounding
        packed = device.memory.empty(len(grad), ROW_TYPES[r.half_bits])
        (totals,) = device.mailbox.send(records(ROW_TOTALS, 1))
        scales = map(float, (r.inverse_grad, r.inverse_hess, r.grad_limit, r.hess_limit))
        how, kernel = (*scales, r.key), f"quantize_{r.half_bits}"
        for run in runs:
            n_rows, first = run.end - run.begin, run.begin
            data = (address_of(grad, first), address_of(hess, first))
            noise = (run.first, int(r.stochastic), n_rows)
            out = (address_of(packed, first), totals)
            device.launch("quantize", kernel, device.grid(n_rows), *data, *how, *noise, *out)
        return PackedRows(packed, device.mailbox.fetch(totals, (1,), ROW_TOTALS))

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
                args = (sample[0], run.first, sample[1], n, address_of(selected, run.begin))
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
