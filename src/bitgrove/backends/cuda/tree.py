"""One tree on the GPU: its pool, its rounds and its leaves.

Owns CudaPool (histograms of one width, 32 + 32 or 64 + 64 bits, and the core's CudaTree with the
buffers that every tree uses again) and CudaTreeWork.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.backends.base import RootSums, TreeInputs
from bitgrove.backends.core_tree import CoreTree
from bitgrove.backends.cuda.device import Device, blocks_of, on_device
from bitgrove.backends.cuda.matrix import CudaMatrix
from bitgrove.backends.cuda.memory import PinnedMemory, address_of
from bitgrove.backends.host_slots import HostSlots
from bitgrove.backends.told import Told
from bitgrove.constraints.rules import SplitRules
from bitgrove.kernels.plans import (
    BUILD,
    DIVISION,
    GRADIENT_SUMS,
    SEARCH_NODE,
    SPLIT_INFO,
    Records,
)
from bitgrove.model.tree import Tree

I64 = NDArray[np.int64]
_INT64 = np.dtype(np.int64)
U32 = NDArray[np.uint32]
_C = _core.constants
# A round sends divisions, or builds and searches; each kind with one number per node beside it.
_PLAN_BYTES_PER_NODE = max(DIVISION.itemsize, BUILD.itemsize + SEARCH_NODE.itemsize) + 2 * 8
_PLAN_PADDING = 256
_LEAF_KERNELS = ("mark_leaves", "leaf_sums", "add_leaf_values")
# A number each way of a leaf's rows, or its value; the least room is that of a short plan.
_PLAN_BYTES_PER_LEAF, _LEAST_LEAVES = 8, 512


class CudaPool:
    """storage: (n_slots, n_bins) of 32 + 32 bits packed, or (n_slots, n_bins, 2) of 64 bits."""

    def __init__(
        self, device: Device, matrix: CudaMatrix, n_slots: int, half_bits: int, num_leaves: int
    ) -> None:
        self.device, self.matrix, self.n_slots = device, matrix, n_slots
        self.half_bits = 32 if half_bits <= 32 else 64
        n_bins = int(matrix.mapper.bin_offset[-1])
        shape = (n_slots, n_bins) if self.half_bits == 32 else (n_slots, n_bins, 2)
        self.storage = device.memory.empty(shape, np.int64)
        self._allowed: tuple[bytes, Any] = (b"", None)  # on the host, on the device
        self._packed: Any = None
        self.tree = tree = _core.CudaTree()
        tree.stream, tree.n_processors = device.stream, device.n_processors
        tree.pool, tree.wide = address_of(self.storage), self.half_bits == 64
        tree.n_slots = n_slots
        self._n_nodes, self._has_room = max(n_slots, num_leaves), False
        self._num_leaves, self._most_leaves = num_leaves, 0
        self._add_matrix(tree.matrix)
        self._add_buffers(tree.buffers)
        self._add_kernels(tree.kernels)
        self._rules: SplitRules | None = None
        if num_leaves <= _C["MOST_AHEAD_LEAVES"] and _core.has_graphs():
            self._add_ahead(num_leaves)

    def _add_matrix(self, bins: Any) -> None:
        matrix, mapper, upload = self.matrix, self.matrix.mapper, self.device.memory.upload
        tables = (mapper.bin_offset, mapper.has_missing, mapper.kinds)
        self._tables = tuple(upload(table) for table in tables)
        bins.place_bins(matrix.places)
        bins.bin_offset, bins.has_missing, bins.kinds = map(address_of, self._tables)
        bins.n_features = mapper.n_features
        bins.n_bins = int(mapper.bin_offset[-1])

    def _add_buffers(self, buffers: Any) -> None:
        """Room for rounds of at most n_nodes nodes, and what they share."""
        memory, n_rows, n_nodes = self.device.memory, self.matrix.n_rows, self._n_nodes
        n_blocks = n_rows // _C["PARTITION_ROWS"] + n_nodes
        n_found = n_nodes * -(-self.matrix.mapper.n_features // _C["FEATURES_PER_BLOCK"])
        self._buffers = {
            "rows": memory.zeros(n_rows, np.int32),
            "counts": memory.zeros(n_blocks, np.int64),
            "progress": memory.zeros(n_nodes, np.uint64),
            "found": memory.zeros(n_found * SPLIT_INFO.itemsize, np.uint8),
            "n_done": memory.zeros(n_nodes, np.uint32),
        }
        for name, array in self._buffers.items():
            setattr(buffers, name, address_of(array))
        buffers.n_nodes = n_nodes
        self._add_plan(buffers, n_nodes * _PLAN_BYTES_PER_NODE + _PLAN_PADDING)

    def _add_plan(self, buffers: Any, plan_bytes: int) -> None:
        """Room for what a round sends, and for what it brings back."""
        n_nodes, left_bytes = self._n_nodes, -(-self._n_nodes // 2) * 16
        plan_bytes = -(-plan_bytes // 16) * 16  # records follow it
        device = self.device
        plan, pinned = device.memory.zeros(plan_bytes, np.uint8), PinnedMemory(device.cupy)
        self.plan_room = (plan, pinned)
        host_plan = pinned.at_least(plan_bytes + left_bytes + n_nodes * SPLIT_INFO.itemsize)
        buffers.use_plan(address_of(plan), host_plan, plan_bytes)
        buffers.host_left = host_plan + plan_bytes
        buffers.host_splits = buffers.host_left + left_bytes

    def _add_ahead(self, num_leaves: int) -> None:
        """Memory and kernels of trees that grow without waiting for the host."""
        device_bytes, host_bytes = _core.ahead_room(num_leaves)
        self._ahead = self.device.memory.zeros(device_bytes, np.uint8)
        self._ahead_told = PinnedMemory(self.device.cupy)
        self._missing_bin = self.device.memory.upload(self.matrix.mapper.missing_bin)
        get = self.device.kernels.get
        kernels = [
            get("ahead", "start_ahead", _C["THREADS"]),
            get("ahead", "choose_nodes", _C["AHEAD_THREADS"]),
            get("ahead", "place_and_plan", _C["PARTITION_THREADS"]),
        ]
        places = (address_of(self._ahead), self._ahead_told.at_least(host_bytes))
        more = (address_of(self._missing_bin), self.device.launches_early)
        self.tree.use_ahead(_core.AheadGrowth(kernels, num_leaves, *places, *more))

    def make_room_for_features(self) -> None:
        """For plans in which each node has a row of allowed features."""
        if not self._has_room:
            row_bytes = _PLAN_BYTES_PER_NODE + self.matrix.mapper.n_features
            self._add_plan(self.tree.buffers, self._n_nodes * row_bytes + _PLAN_PADDING)
            self._has_room = True

    def _add_kernels(self, kernels: Any) -> None:
        get, threads = self.device.kernels.get, _C["THREADS"]
        for name in ("divide", "place"):
            setattr(kernels, name, get("partition", name, _C["PARTITION_THREADS"]))
        kernels.clear = get("histogram", "clear_slots", threads)
        kernels.subtract = get("histogram", "subtract_slots", threads)
        self._use_search("split")

    def _use_search(self, file: str) -> None:
        find = "find_mixed_splits" if self.matrix.mapper.kinds.any() else "find_splits"
        kernel = self.device.kernels.get(file, f"{find}_{self.half_bits}", _C["THREADS"])
        self.tree.kernels.find = kernel

    def use_rules(self, rules: SplitRules | None) -> None:
        """The kernel that keeps a training's rules, and their arrays on the device."""
        if rules is self._rules:
            return
        self._rules, known = rules, _core.DeviceRules()
        if rules is not None:
            arrays = (rules.direction, rules.contribution)
            self._rule_arrays = tuple(self.device.memory.upload(array) for array in arrays)
            known.direction, known.contribution = map(address_of, self._rule_arrays)
            known.path_smooth, known.extra_trees = rules.path_smooth, int(rules.extra_trees)
        self.tree.split_rules = known
        self._use_search("split" if rules is None else "ruled_split")

    def use_packed(self, packed: Any) -> None:
        """The packed rows of a tree, and the kernels for their width."""
        if packed is self._packed:
            return
        tree, get, word = self.tree, self.device.kernels.get, _C["WORD_BYTES"]
        self._packed, tree.packed_rows = packed, address_of(packed)
        half_bits = packed.dtype.itemsize * 4
        if tree.half_bits == half_bits and tree.kernels.build.is_set:
            return
        tree.half_bits = half_bits
        if half_bits == 32:
            threads = _C["WIDE_BUILD_THREADS"]
            tree.kernels.build = get("histogram", "build_3_32", threads, 3 * word)
            return
        threads = _C["BUILD_THREADS"]
        narrow = get("histogram", f"build_1_{half_bits}", threads, word)
        tree.kernels.build_narrow = narrow
        tree.kernels.build = get("histogram", f"build_2_{half_bits}", threads, 2 * word)

    def allow(self, allowed: NDArray[np.uint8]) -> Any:
        """The allowed features on the device; most trees have those of the tree before."""
        known, on_device = self._allowed
        wanted = allowed.tobytes()
        if known != wanted:
            on_device = self.device.memory.upload(allowed)
            self._allowed = (wanted, on_device)
        return on_device

    def leaves_for(self, n_leaves: int) -> _core.CudaLeaves:
        """For trees of that many leaves."""
        if n_leaves > self._most_leaves:
            self._add_leaves(max(n_leaves, self._num_leaves, _LEAST_LEAVES))
        return self._leaves

    def _add_leaves(self, most_leaves: int) -> None:
        device, n_rows = self.device, self.matrix.n_rows
        number = np.dtype(np.uint16 if most_leaves < 2**16 else np.uint32)
        names = (f"{name}_{8 * number.itemsize}" for name in _LEAF_KERNELS)
        kernels = [device.kernels.get("leaves", name, _C["THREADS"]) for name in names]
        device.answers.make_room(GRADIENT_SUMS.itemsize // 8 * most_leaves)
        leaves = _core.CudaLeaves(device.stream, kernels, device.answers.core)
        n_bytes = 2 * _PLAN_BYTES_PER_LEAF * most_leaves + _PLAN_PADDING
        self._leaf_plan = device.memory.empty(n_bytes, np.uint8)
        self._leaf_pinned = PinnedMemory(device.cupy)
        self._leaf_of = device.memory.empty(n_rows, number)
        leaves.use_rooms(address_of(self._leaf_plan), self._leaf_pinned.at_least(n_bytes), n_bytes)
        leaves.leaf_of, leaves.number_bytes = address_of(self._leaf_of), number.itemsize
        leaves.n_rows, leaves.n_processors = n_rows, device.n_processors
        self._most_leaves, self._leaves = most_leaves, leaves

    @on_device
    def on_host(self, slots: I64) -> HostSlots:
        with self.device.memory.in_use():
            copies: I64 = self.device.cupy.asnumpy(self.storage[self.device.cupy.asarray(slots)])
        memory = copies.reshape(len(slots), -1).view(np.uint8)
        return HostSlots(memory, width=self.half_bits, slots=slots)

    @on_device
    def put_back(self, host: HostSlots) -> None:
        cupy, shape = self.device.cupy, (-1, *self.storage.shape[1:])
        with self.device.memory.in_use():
            sums = cupy.asarray(host.memory.view(np.int64).reshape(shape))
            self.storage[cupy.asarray(host.slots)] = sums


class CudaTreeWork(CoreTree):
    """The verbs of the core's CudaTree, with the device current, and the leaves' kernels."""

    pool: CudaPool

    def __init__(self, pool: CudaPool, inputs: TreeInputs) -> None:
        self.pool, self.device, self._inputs = pool, pool.device, inputs
        packed, rows = inputs.packed, inputs.rows
        sums = packed.totals if len(rows) == pool.matrix.n_rows else self._row_sums()
        self.root = RootSums(int(sums["grad"][0]), int(sums["hess"][0]), len(rows), 0)
        self._verbs = self._verbs_on(pool, inputs.limits_features)
        self._plan_room = pool.plan_room  # theirs, also when the pool has made a larger one

    def _here(self) -> AbstractContextManager[None]:
        return nullcontext() if self.device.is_current() else self.device.in_use()

    def _verbs_on(self, pool: Any, by_node: bool) -> _core.CudaTree:
        """A copy of its own: the pool's next tree must not move this one's rows."""
        self._allowed = pool.allow(self._inputs.allowed)
        pool.use_packed(self._inputs.packed.values)
        pool.use_rules(self._inputs.split_rules)
        if by_node:
            pool.make_room_for_features()
        tree: _core.CudaTree = pool.tree.copy()
        tree.rows, tree.n_listed = address_of(self._inputs.rows), len(self._inputs.rows)
        tree.allowed = address_of(self._allowed)
        tree.rules = _core.GainRules(*self._inputs.rules)
        return tree

    def begin(self, frontier: Any, alpha: float) -> None:
        with self._here():
            self._verbs.begin(frontier, alpha)

    def _row_sums(self) -> Records:
        device, packed, rows = self.device, self._inputs.packed.values, self._inputs.rows
        kernel, grid = f"sum_rows_{packed.dtype.itemsize * 4}", device.grid(len(rows))
        answer = device.answers.expect(GRADIENT_SUMS.itemsize, grid[0])
        data = (address_of(packed), address_of(rows), len(rows))
        device.launch("quantize", kernel, grid, *data, answer)
        return answer.read(GRADIENT_SUMS, 1)

    @on_device
    def set_leaves(self, begins: I64, ends: I64) -> None:
        """Gives each row the number of its leaf."""
        self._begins, self._ends = begins, ends
        self._leaves = self.pool.leaves_for(len(begins))
        self._leaves.mark(address_of(self._inputs.rows), begins, ends)

    @on_device
    def leaf_sums(self, grad: Any, hess: Any, units: tuple[float, float]) -> Told:
        n_leaves, answers = len(self._begins), self.device.answers
        answers.make_room(GRADIENT_SUMS.itemsize // 8 * n_leaves)
        self._leaves.sum(address_of(grad), address_of(hess), *units)
        return answers.telling(GRADIENT_SUMS, n_leaves)

    @on_device
    def leaf_digits(self, keys: Any, weights: Any, prefixes: U32, shift: int) -> I64:
        device, (n_leaves, n_parts) = self.device, self._leaves.parts
        *ranges, digits = device.mailbox.send(self._begins, self._ends, prefixes)
        answer = device.answers.expect(8 * 256 * n_leaves, n_leaves * n_parts)
        rows = (address_of(self._inputs.rows), *ranges)
        data = (address_of(keys), address_of(weights), digits, shift, answer)
        device.launch("leaves", "leaf_digits", self._leaves.parts, *rows, *data)
        counts: I64 = answer.read(_INT64, 256 * n_leaves)
        return counts.reshape(n_leaves, 256)

    @on_device
    def next_keys(self, keys: Any, lower: U32) -> U32:
        none = np.full(len(self._begins), 0xFFFFFFFF, dtype=np.uint32)
        *ranges, low, found = self.device.mailbox.send(self._begins, self._ends, lower, none)
        rows = (address_of(self._inputs.rows), *ranges)
        data = (address_of(keys), low, found)
        self.device.launch("leaves", "next_keys", self._leaves.parts, *rows, *data)
        return self.device.mailbox.fetch(found, none.shape, np.uint32)

    @on_device
    def add_tree(self, scores: Any, tree: Tree) -> None:
        device, rows, n_rows = self.device, self._inputs.rows, len(scores)
        self._leaves.add(address_of(scores), tree.leaf_value)
        if len(rows) < n_rows:
            with device.memory.in_use():
                out = device.cupy.ones(n_rows, dtype=np.uint8)
                out[rows] = 0
                left_out = device.cupy.flatnonzero(out).astype(np.int32)
            walk_tree(device, scores, self.pool.matrix, tree, left_out)


def walk_tree(device: Device, scores: Any, matrix: CudaMatrix, tree: Tree, rows: Any) -> None:
    """Adds a tree to the scores of binned rows: all (None), or the listed ones."""
    n_rows = matrix.n_rows if rows is None else len(rows)
    if n_rows == 0:
        return
    splits = tree.binned_splits(matrix.mapper.missing_bin)
    nodes, sets, values = device.mailbox.send(splits, tree.left_bins, tree.leaf_value)
    bins = (matrix.places, matrix.mapper.n_features)
    walk = (*bins, nodes, sets, tree.n_splits, values, address_of(rows), n_rows)
    device.launch("leaves", "add_tree", (blocks_of(n_rows), 1), address_of(scores), *walk)
