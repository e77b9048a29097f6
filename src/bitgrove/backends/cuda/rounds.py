"""Rounds of a tree on the GPU: what the core's launcher (cpp/cuda_rounds.cpp) needs to know.

Owns the buffers that every round uses again and the choice of kernels. Receives arrays of a tree;
returns a _core.DeviceRounds, which does single verbs or all rounds of the tree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.backends.base import TreeWork
from bitgrove.backends.cuda.memory import DeviceMemory, PinnedMemory, address_of
from bitgrove.backends.cuda.module import Kernels
from bitgrove.data.binning import BinMapper
from bitgrove.training.splits import SPLIT_INFO, GainRules

# These mirror the constants of the kernels.
_THREADS, _PARTITION_THREADS = 256, 512
_PARTITION_ROWS, _FEATURES_PER_BLOCK = 4096, 8
# A node takes 8 numbers of a partition's plan; 7 + 5 of a search's, where it is built and searched.
_PLAN_BYTES_PER_NODE, _PLAN_PADDING = 2 * 12 * 8, 64


class RoundMaker:
    """Makes DeviceRounds from a tree's arrays; all of them share one set of buffers."""

    def __init__(
        self, memory: DeviceMemory, pinned: PinnedMemory, kernels: Kernels, n_processors: int
    ) -> None:
        self._memory, self._pinned, self._kernels = memory, pinned, kernels
        self._n_processors = n_processors
        self._tables: tuple[Any, ...] = (None,)
        self._last: tuple[Any, Any, Any] = (None, None, None)

    def of_tree(self, work: TreeWork, allowed: Any, n_nodes: int, stream: Any) -> Any:
        """Rounds of a whole tree; those of the last tree, if only rows and gradients are others."""
        key = (id(work.pool), id(work.matrix), len(work.rows), work.packed.dtype.itemsize)
        known, rounds, _ = self._last
        if known != key:
            rounds = self.start(n_nodes, stream)
            self.add_matrix(rounds, work.matrix, work.rows)
            self.add_pool(rounds, work.pool)
            self.add_packed(rounds, work.packed)
            self.add_rules(rounds, allowed, work.rules)
            self._last = (key, rounds, (work.pool, work.matrix))  # held: ids stay theirs
        rounds.rows, rounds.packed = address_of(work.rows), address_of(work.packed)
        rounds.allowed = address_of(allowed)
        rounds.set_rules(work.rules.as_tuple())
        return rounds

    def start(self, n_nodes: int, stream: Any) -> Any:
        """Rounds of at most n_nodes nodes; what a verb needs is added by the functions below."""
        self._last = (None, None, None)  # its buffers may be replaced
        rounds = _core.DeviceRounds()
        rounds.stream, rounds.n_processors = stream, self._n_processors
        buffers = rounds.buffers
        buffers.n_nodes = n_nodes
        buffers.plan_bytes = n_nodes * _PLAN_BYTES_PER_NODE + _PLAN_PADDING
        buffers.plan = self._scratch("plan", buffers.plan_bytes, np.uint8)
        left_bytes = -(-n_nodes // 2) * 16
        n_bytes = buffers.plan_bytes + left_bytes + n_nodes * SPLIT_INFO.itemsize
        buffers.host_plan = self._pinned.at_least(n_bytes)
        buffers.host_left = buffers.host_plan + buffers.plan_bytes
        buffers.host_splits = buffers.host_left + left_bytes
        return rounds

    def _scratch(self, name: str, n_items: int, dtype: Any) -> int:
        return address_of(self._memory.scratch(name, n_items, dtype))

    def add_matrix(self, rounds: Any, matrix: Any, rows: Any) -> None:
        """Bins and the row list: for partitions and histograms."""
        self.add_mapper(rounds, matrix.mapper)
        bins, buffers = rounds.matrix, rounds.buffers
        bins.tiles, bins.columns = address_of(matrix.tiles), address_of(matrix.columns)
        bins.n_rows = matrix.n_rows
        rounds.rows = address_of(rows)
        n_nodes = buffers.n_nodes
        buffers.rows = self._scratch("partition", len(rows), np.int32)
        n_blocks = len(rows) // _PARTITION_ROWS + n_nodes
        buffers.counts = self._scratch("partition counts", n_blocks, np.int64)
        buffers.progress = self._scratch("partition progress", n_nodes, np.uint64)
        kernels = rounds.kernels
        for name in ("divide", "place"):
            setattr(kernels, name, self._kernels.get("partition", name, _PARTITION_THREADS))

    def add_mapper(self, rounds: Any, mapper: BinMapper) -> None:
        if self._tables[0] is not mapper:
            tables: tuple[NDArray[Any], ...] = (mapper.bin_offset, mapper.has_missing)
            self._tables = (mapper, *map(self._memory.upload, tables))
        bins = rounds.matrix
        bins.bin_offset, bins.has_missing = map(address_of, self._tables[1:])
        bins.n_features, bins.n_bins = mapper.n_features, int(mapper.bin_offset[-1])

    def add_pool(self, rounds: Any, pool: Any) -> None:
        rounds.pool, rounds.wide = address_of(pool), pool.ndim == 3
        rounds.matrix.n_bins = pool.shape[1]
        kernels = rounds.kernels
        kernels.clear = self._kernels.get("histogram", "clear_slots", _THREADS)
        kernels.subtract = self._kernels.get("histogram", "subtract_slots", _THREADS)

    def add_packed(self, rounds: Any, packed: Any) -> None:
        """Packed gradients: for histograms."""
        rounds.packed, rounds.half_bits = address_of(packed), packed.dtype.itemsize * 4
        kernels = rounds.kernels
        if rounds.half_bits == 32:
            kernels.build = self._kernels.get("histogram", "build_3_32", 1024, 3 << 15)
            return
        for name, words in (("build_narrow", 1), ("build", 2)):
            kernel = f"build_{words}_{rounds.half_bits}"
            setattr(kernels, name, self._kernels.get("histogram", kernel, 512, words << 15))

    def add_rules(self, rounds: Any, allowed: Any, rules: GainRules) -> None:
        """The allowed features, on the device, and the rules of the gain: for the search."""
        rounds.allowed = address_of(allowed)
        rounds.set_rules(rules.as_tuple())
        buffers, n_features = rounds.buffers, rounds.matrix.n_features
        n_found = buffers.n_nodes * -(-n_features // _FEATURES_PER_BLOCK)
        buffers.found = self._scratch("found", n_found * SPLIT_INFO.itemsize, np.uint8)
        buffers.n_done = self._scratch("searches done", buffers.n_nodes, np.uint32)
        kernel = "find_splits_64" if rounds.wide else "find_splits_32"
        rounds.kernels.find = self._kernels.get("split", kernel, _THREADS)
