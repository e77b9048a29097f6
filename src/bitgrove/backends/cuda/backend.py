"""The CUDA backend: everything large stays on one GPU; per round only plans and splits cross.

Owns the CuPy arrays and the launches; the kernels are kernels/cuda/*.cu. Histogram slots have one
width per pool (32 + 32 or 64 + 64 bits): narrower totals, and the unpacked layout of
packed=False, would change neither the sums nor the model, so those wishes are not followed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.backends.base import Gradients, Targets, TreeWork
from bitgrove.backends.cuda import plans
from bitgrove.backends.cuda.binning import bin_on_device
from bitgrove.backends.cuda.memory import (
    BYTES_PER_ROW,
    POOL,
    DeviceMemory,
    Mailbox,
    PinnedMemory,
    address_of,
)
from bitgrove.backends.cuda.messages import HostSlots
from bitgrove.backends.cuda.module import find_device, import_cupy, kernels_of
from bitgrove.backends.cuda.rounds import RoundMaker
from bitgrove.backends.losses import loss_kernel
from bitgrove.data.binning import BinMapper
from bitgrove.model.tree import Tree
from bitgrove.objectives import Objective
from bitgrove.params import TrainParams
from bitgrove.training.splits import SPLIT_INFO, GainRules, SplitInfos, no_splits

Array = NDArray[Any]
I64 = NDArray[np.int64]
Grid = tuple[int, int]
P = ParamSpec("P")
R = TypeVar("R")
_ROW_TYPES = {8: np.int16, 16: np.int32, 32: np.int64}
# These mirror the constants of the kernels.
_THREADS = 256
_RANK_THREADS = 128
_BUCKETS = 2048


@dataclass(eq=False)
class CudaMatrix:
    """Bins twice: row-major tiles for histograms, columns for partition and validation."""

    n_rows: int
    mapper: BinMapper
    tiles: Any
    columns: Any


def _on_device(
    verb: Callable[Concatenate[CudaBackend, P], R],
) -> Callable[Concatenate[CudaBackend, P], R]:
    """Runs a verb with the backend's device current, and the caller's again afterwards."""

    @wraps(verb)
    def run(self: CudaBackend, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._is_current():
            return verb(self, *args, **kwargs)
        with self._in_use():
            return verb(self, *args, **kwargs)

    return run


class CudaBackend:
    def __init__(self, params: TrainParams) -> None:
        index = find_device(params.device)
        self.name = f"cuda:{index}"
        self._cupy = import_cupy()
        self._kernels = kernels_of(index)
        self.device = self._cupy.cuda.Device(index)
        self._n_processors = int(self.device.attributes["MultiProcessorCount"])
        self._stream = _core.Stream(0)  # CUDA's default stream
        self._num_leaves = params.num_leaves
        with self.device:
            free, _ = self._cupy.cuda.runtime.memGetInfo()
        self.pool_mb = max(int(free) >> 22, 1)  # a quarter
        self._pool_bytes = (params.histogram_pool_mb or self.pool_mb) << 20
        with self._in_use():
            self.memory = memory = DeviceMemory(self._cupy)
            self._mailbox = Mailbox(memory, PinnedMemory(self._cupy), self._stream)
            pinned = PinnedMemory(self._cupy)
            self._rounds = RoundMaker(memory, pinned, self._kernels, self._n_processors)
        self._features: tuple[Any, Any] = (None, None)
        self._totals: tuple[Any, int, int] = (None, 0, 0)

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        """The device, its default stream and no others, whatever the caller uses."""
        with self.device, self._cupy.cuda.Stream.null:
            yield

    def _is_current(self) -> bool:
        """Asking costs less than entering and leaving."""
        cuda = self._cupy.cuda
        return cuda.runtime.getDevice() == self.device.id and cuda.get_current_stream().ptr == 0

    def _launch(self, file: str, kernel: str, grid: Grid, threads: int, *args: Any) -> None:
        self._stream.launch(self._kernels.get(file, kernel, threads), grid, *args)

    def _grid(self, n_items: int) -> Grid:
        """Blocks for a kernel whose threads step through the items."""
        return max(1, min(-(-n_items // _THREADS), 8 * self._n_processors)), 1

    @_on_device
    def bin_columns(
        self, columns: Sequence[Array], mapper: BinMapper
    ) -> tuple[CudaMatrix, NDArray[np.uint8]]:
        n_rows, n_features = len(columns[0]), len(columns)
        n_tile_bytes = int(_core.tile_bytes(n_rows, n_features))
        slot_bytes = 16 * (int(mapper.edge_offset[-1]) + 2 * n_features)
        pool_bytes = min(self._pool_bytes, 2 * self._num_leaves * slot_bytes)
        n_bytes = n_tile_bytes + n_rows * (n_features + BYTES_PER_ROW)
        self.memory.require(n_bytes + pool_bytes, "training on this data")
        tiles = self.memory.zeros(n_tile_bytes, np.uint8)
        binned = self.memory.empty((n_features, n_rows), np.uint8)
        missing = bin_on_device(columns, mapper, tiles, binned, self.memory, self._launch)
        POOL.give_back()  # the values that were sent up
        return CudaMatrix(n_rows, mapper, tiles, binned), missing

    def prepare_training(self, matrix: CudaMatrix, mapper: BinMapper) -> None:
        matrix.mapper = mapper

    @_on_device
    def array(self, values: Array | None) -> Any:
        return None if values is None else self.memory.upload(values)

    @_on_device
    def host(self, values: Any) -> Array:
        return np.asarray(self._cupy.asnumpy(values))

    @_on_device
    def new_scores(self, base: NDArray[np.float64], n_rows: int) -> Any:
        scores = self.memory.empty((len(base), n_rows), np.float64)
        for output, value in enumerate(base.tolist()):
            scores[output].fill(value)
        return scores

    @_on_device
    def gradients(
        self, objective: Objective, scores: Any, targets: Targets, count_magnitudes: bool = False
    ) -> Gradients:
        kernel = loss_kernel(objective)
        n_outputs, n_rows = scores.shape
        grad = self.memory.empty(scores.shape, np.float32)
        constant = objective.constant_hessian(targets.weight)
        hess = None if constant else self.memory.empty(scores.shape, np.float32)
        tops = np.zeros((n_outputs, 2), dtype=np.uint32)
        counts = np.zeros((n_outputs, 2, _BUCKETS) if count_magnitudes else 0, dtype=np.int64)
        # Sent together: the mailbox may come round between two sendings.
        tops_at, counts_at = self._mailbox.send(tops, counts)
        data = [address_of(a) for a in (scores, targets.label, targets.weight)]
        out = [address_of(grad), address_of(hess)]
        if objective.family == "ranked":
            file, threads = "ranking", _RANK_THREADS
            grid = (len(targets.tables[0]) - 1, 1)
            args = (*data, *map(address_of, targets.tables), *self._rank_scratch(n_rows), *out)
        else:
            file, threads = "gradients", _THREADS
            by_row = objective.family == "softmax"
            grid = (-(-n_rows // _THREADS), 1) if by_row else self._grid(n_rows)
            args = (*data, *out, n_outputs, n_rows)
        name = f"{kernel.name}_gradients"
        self._launch(file, name, grid, threads, *args, tops_at, *kernel.parameters)
        if count_magnitudes:
            self._count_magnitudes(grad, hess, counts_at)
        tops = self._mailbox.fetch(tops_at, tops.shape, np.uint32)
        if count_magnitudes:
            counts = self._mailbox.fetch(counts_at, counts.shape, np.int64)
        return Gradients(grad, hess, tops, counts if count_magnitudes else None)

    def _rank_scratch(self, n_rows: int) -> tuple[int, int]:
        """Addresses of room for the row and the sums of each rank."""
        order = self.memory.scratch("order", n_rows, np.int32)
        sums = self.memory.scratch("rank sums", 2 * n_rows, np.int64)
        return address_of(order), address_of(sums)

    def _count_magnitudes(self, grad: Any, hess: Any, counts_at: int) -> None:
        """Counts into (n_outputs, 2, buckets) int64 at the address."""
        n_outputs, n_rows = grad.shape
        for side, values in enumerate((grad, hess)):
            for k in range(0 if values is None else n_outputs):
                to = counts_at + 8 * _BUCKETS * (2 * k + side)
                args = (address_of(values[k]), n_rows, to)
                self._launch("gradients", "count_magnitudes", self._grid(n_rows), _THREADS, *args)

    @_on_device
    def quantize(
        self,
        grad: Any,
        hess: Any,
        scales: tuple[float, float, float, float],
        half_bits: int,
        key: int,
        first_row: int,
        stochastic: bool,
    ) -> tuple[Any, tuple[int, int, int]]:
        n_rows = len(grad)
        self._totals = (None, 0, 0)
        packed = self.memory.empty(n_rows, _ROW_TYPES[half_bits])
        (sums,) = self._mailbox.send(np.zeros(4, dtype=np.int64))
        noise = (key, first_row, int(stochastic))
        args = (address_of(grad), address_of(hess), *map(float, scales), *noise, n_rows)
        kernel, grid = f"quantize_{half_bits}", self._grid(n_rows)
        self._launch("quantize", kernel, grid, _THREADS, *args, address_of(packed), sums)
        found = self._mailbox.fetch(sums, (4,), np.int64).tolist()
        abs_grad, hess_sum, zero_rows, grad_sum = found
        self._totals = (packed, grad_sum, hess_sum)
        return packed, (abs_grad, hess_sum, zero_rows)

    @_on_device
    def row_sums(self, packed: Any, rows: Any) -> tuple[int, int]:
        if self._totals[0] is packed and len(rows) == len(packed):
            return self._totals[1:]
        (sums,) = self._mailbox.send(np.zeros(2, dtype=np.int64))
        kernel = f"sum_rows_{packed.dtype.itemsize * 4}"
        args = (address_of(packed), address_of(rows), len(rows), sums)
        self._launch("quantize", kernel, self._grid(len(rows)), _THREADS, *args)
        grad, hess = self._mailbox.fetch(sums, (2,), np.int64).tolist()
        return grad, hess

    @_on_device
    def select_rows(self, n_rows: int, first_row: int, sample: tuple[int, int] | None) -> Any:
        if sample is None:
            rows = self.memory.empty(n_rows, np.int32)
            self._launch(
                "quantize", "all_rows", self._grid(n_rows), _THREADS, address_of(rows), n_rows
            )
            return rows
        with self.memory.in_use():
            selected = self.memory.empty(n_rows, np.uint8)
            args = (sample[0], first_row, sample[1], n_rows)
            grid = (-(-n_rows // _THREADS), 1)
            self._launch("quantize", "sample_rows", grid, _THREADS, *args, address_of(selected))
            return self._cupy.flatnonzero(selected).astype(np.int32)

    @_on_device
    def excluded_rows(self, rows: Any, n_rows: int) -> Any:
        with self.memory.in_use():
            out = self._cupy.ones(n_rows, dtype=np.uint8)
            out[rows] = 0
            return self._cupy.flatnonzero(out).astype(np.int32)

    def separate_zero_rows(self, packed: Any, rows: Any) -> int:
        return len(rows)

    @_on_device
    def partition(self, matrix: CudaMatrix, rows: Any, plan: I64) -> I64:
        rounds = self._rounds.start(len(plan), self._stream)
        self._rounds.add_matrix(rounds, matrix, rows)
        n_left: I64 = rounds.partition(plan)
        return n_left

    @_on_device
    def new_pool(self, n_slots: int, n_bins: int, half_bits: int) -> Any:
        """(n_slots, n_bins) packed 32 + 32 bits, or (n_slots, n_bins, 2) of 64 bits each."""
        shape = (n_slots, n_bins) if half_bits <= 32 else (n_slots, n_bins, 2)
        return self.memory.empty(shape, np.int64)

    @_on_device
    def build_histograms(
        self, pool: Any, matrix: CudaMatrix, packed: Any, rows: Any, plan: I64, packing: bool
    ) -> None:
        rounds = self._rounds.start(len(plan), self._stream)
        self._rounds.add_matrix(rounds, matrix, rows)
        self._rounds.add_pool(rounds, pool)
        self._rounds.add_packed(rounds, packed)
        rounds.build(plan)

    @_on_device
    def subtract_histograms(
        self, pool: Any, plan: I64, bins: tuple[int, int], packing: bool
    ) -> None:
        rounds = self._rounds.start(len(plan), self._stream)
        self._rounds.add_pool(rounds, pool)
        rounds.subtract(plan, bins)

    @_on_device
    def histogram_sums(
        self, pool: Any, slot: int, width: int, bins: tuple[int, int], packing: bool
    ) -> I64:
        raw: I64 = self._cupy.asnumpy(pool[slot, bins[0] : bins[1]])
        return raw if raw.ndim == 2 else np.stack([raw >> 32, raw & 0xFFFFFFFF], axis=1)

    @_on_device
    def pack_messages(self, pool: Any, plan: I64, n_messages: int, packing: bool) -> list[Array]:
        with self.memory.in_use():
            return HostSlots(self._cupy, pool, plan[:, 1:]).pack(plan[:, :1], n_messages)

    @_on_device
    def add_messages(
        self,
        pool: Any,
        plan: I64,
        steps: tuple[int, int],
        messages: list[tuple[int, Array]],
        packing: bool,
    ) -> None:
        with self.memory.in_use():
            HostSlots(self._cupy, pool, plan).add(steps, messages)

    @_on_device
    def find_splits(
        self,
        pool: Any,
        mapper: BinMapper,
        slots: I64,
        widths: I64,
        sums: NDArray[np.float64],
        features: tuple[int, int],
        allowed: NDArray[np.uint8],
        rules: GainRules,
        packing: bool,
    ) -> SplitInfos:
        if len(slots) == 0 or features[0] == features[1]:
            return no_splits(len(slots))
        rounds = self._rounds.start(len(slots), self._stream)
        self._rounds.add_mapper(rounds, mapper)
        self._rounds.add_pool(rounds, pool)
        self._rounds.add_rules(rounds, self._allowed(allowed), rules)
        found: Array = rounds.find(slots, sums, features)
        return found.view(SPLIT_INFO)

    def _allowed(self, allowed: NDArray[np.uint8]) -> Any:
        """The allowed features on the device; most trees have those of the tree before."""
        known, on_device = self._features
        if known is None or not np.array_equal(known, allowed):
            on_device = self.memory.upload(allowed)
            self._features = (allowed.copy(), on_device)
        return on_device

    @_on_device
    def run_rounds(self, work: TreeWork, frontier: Any, alpha: float) -> bool:
        rounds = self._tree_rounds(work)
        rounds.grow(frontier, alpha, work.matrix.mapper.missing_bin)
        return True

    def _tree_rounds(self, work: TreeWork) -> Any:
        n_nodes = max(len(work.pool), self._num_leaves)
        return self._rounds.of_tree(work, self._allowed(work.allowed), n_nodes, self._stream)

    def locate_leaves(self, rows: Any, begins: I64, ends: I64, n_rows: int) -> tuple[Any, I64, I64]:
        return rows, begins, ends  # its kernels read row lists

    @_on_device
    def leaf_sums(
        self, leaves: tuple[Any, I64, I64], grad: Any, hess: Any, units: tuple[float, float]
    ) -> I64:
        rows, begins, ends = leaves
        zeros = np.zeros((len(begins), 2), dtype=np.int64)
        *ranges, sums = self._mailbox.send(begins, ends, zeros)
        data = (address_of(grad), address_of(hess), *map(float, units), sums)
        grid = plans.leaf_grid(begins, ends)
        self._launch("leaves", "leaf_sums", grid, _THREADS, address_of(rows), *ranges, *data)
        return self._mailbox.fetch(sums, zeros.shape, np.int64)

    @_on_device
    def add_leaf_values(
        self, scores: Any, leaves: tuple[Any, I64, I64], values: NDArray[np.float64]
    ) -> None:
        rows, begins, ends = leaves
        *ranges, added = self._mailbox.send(begins, ends, values)
        args = (address_of(scores), address_of(rows), *ranges, added)
        self._launch("leaves", "add_leaf_values", plans.leaf_grid(begins, ends), _THREADS, *args)

    @_on_device
    def add_tree(self, scores: Any, matrix: CudaMatrix, tree: Tree, subset: Any) -> None:
        n_rows = matrix.n_rows if subset is None else len(subset)
        if n_rows == 0:
            return
        splits = plans.binned_splits(tree, matrix.mapper.missing_bin)
        nodes, values = self._mailbox.send(splits, tree.leaf_value)
        columns = (address_of(matrix.columns), matrix.columns.shape[1])
        walk = (*columns, nodes, tree.n_splits, values, address_of(subset), n_rows)
        self._launch(
            "leaves", "add_tree", (-(-n_rows // _THREADS), 1), _THREADS, address_of(scores), *walk
        )
