"""Growing one tree: exact best-first, in frontier rounds.

A node's best split depends on its own rows only, so the leaf-wise tree does not depend on the order
in which gains become known. Each round replays best-first over the known gains, and expands, as one
batch, the first nodes the replay took whose children are not known yet. When none are left, the
replay is the exact leaf-wise tree (the choice of alpha changes the time, never the tree).

Receives binned rows and quantized gradients on a backend; returns a GrownTree: the splits taken, in
order, and the row range of every leaf.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends.base import Backend, BinnedMatrix
from bitgrove.distributed.comm import Comm, feature_block
from bitgrove.histograms import BatchPlan, HistogramPool, WidthPlan
from bitgrove.params import TrainParams
from bitgrove.quantize import QuantizedGradients
from bitgrove.splits import GainRules, SplitInfos, best_of_ranks, no_splits

I64 = NDArray[np.int64]


def replay_best_first(
    gains: list[float], first_child: list[int], n_splits: int
) -> tuple[list[int], list[int]]:
    """(nodes split by best-first growth, those among them whose children are not known).

    first_child[n] is n's left child, the right one follows it; -1: not known. Of equal gains the
    node that became known first in the replay goes first, so the order does not depend on rounds.
    """
    taken: list[int] = []
    pending: list[int] = []
    heap = [(-gains[0], 0, 0)] if gains[0] > 0.0 else []
    n_pushed = 0
    while heap and len(taken) < n_splits:
        node = heappop(heap)[2]
        taken.append(node)
        child = first_child[node]
        if child < 0:
            pending.append(node)
            continue
        for c in (child, child + 1):
            if gains[c] > 0.0:
                n_pushed += 1
                heappush(heap, (-gains[c], n_pushed, c))
    return taken, pending


@dataclass(frozen=True, eq=False)
class GrownTree:
    """Splits in best-first order and leaves with their row ranges; sums are integers."""

    splits: SplitInfos
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    split_rows: I64
    split_hess: I64
    left_rows: I64
    leaf_begin: I64
    leaf_end: I64
    leaf_rows: I64
    leaf_sums: I64  # (n_leaves, 2)
    n_rounds: int


class NodeTable:
    """Nodes in order of discovery. begin and end are this rank's rows, n_rows counts all ranks'."""

    def __init__(self, capacity: int) -> None:
        self.n_nodes = 0
        self.begin, self.end, self.n_rows, self.depth, self.width = np.zeros(
            (5, capacity), np.int64
        )
        self.sums = np.zeros((capacity, 2), dtype=np.int64)
        self.split = no_splits(capacity)
        # Python lists for the replay, which visits nodes one by one.
        self.gains: list[float] = []
        self.first_child: list[int] = []

    def add(self, n_new: int) -> I64:
        """Ids of n_new fresh nodes; grows the arrays if needed."""
        first, last = self.n_nodes, self.n_nodes + n_new
        while last > len(self.begin):
            for name in ("begin", "end", "n_rows", "depth", "width", "sums", "split"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros_like(old)]))
        self.n_nodes = last
        self.gains.extend([-math.inf] * n_new)
        self.first_child.extend([-1] * n_new)
        return np.arange(first, last)

    def record(self, nodes: I64, splits: SplitInfos) -> None:
        self.split[nodes] = splits
        for node, gain in zip(nodes.tolist(), splits["gain"].tolist(), strict=True):
            self.gains[node] = gain


class Grower:
    """The state of one tree while it grows."""

    def __init__(
        self,
        backend: Backend,
        matrix: BinnedMatrix,
        pool: HistogramPool,
        params: TrainParams,
        comm: Comm,
    ) -> None:
        self.backend, self.matrix, self.pool = backend, matrix, pool
        self.params, self.comm = params, comm
        n_features = matrix.mapper.n_features
        self.features = feature_block(comm, n_features)
        offset = matrix.mapper.bin_offset
        blocks = [feature_block(comm, n_features, rank) for rank in range(comm.size)]
        self.rank_bins = [(int(offset[first]), int(offset[last])) for first, last in blocks]

    def grow(
        self, quantized: QuantizedGradients, rows: Any, allowed: NDArray[np.uint8]
    ) -> GrownTree:
        """Grows a tree on the listed rows, using the allowed features."""
        self.quantized, self.rows, self.allowed = quantized, rows, allowed
        self.rules = GainRules.of(self.params, quantized)
        self.widths = WidthPlan(quantized)
        self.nodes = NodeTable(4 * self.params.num_leaves)
        self.pool.reset()
        self._add_root()
        n_splits = self.params.num_leaves - 1
        n_rounds = 0
        while True:
            n_rounds += 1
            taken, pending = replay_best_first(self.nodes.gains, self.nodes.first_child, n_splits)
            if not pending:
                return self._finish(taken, n_rounds)
            n_batch = math.ceil(self.params.frontier_alpha * len(pending))
            self._expand(np.array(pending[:n_batch], dtype=np.int64))

    def _add_root(self) -> None:
        sums = np.array([*self.backend.row_sums(self.quantized.packed, self.rows), len(self.rows)])
        grad, hess, n_rows = self.comm.allreduce_sum(sums.astype(np.int64))
        nodes = self.nodes
        root = nodes.add(1)
        nodes.end[0], nodes.n_rows[0] = len(self.rows), n_rows
        nodes.sums[0] = grad, hess
        nodes.width[0] = self.widths.total_width(int(n_rows))
        if self._searchable(root)[0]:
            self._search(self.pool.plan_root())

    def _expand(self, parents: I64) -> None:
        """Divides the parents' rows and finds the children's best splits."""
        children = self._divide(parents)
        searchable = self._searchable(children.ravel()).reshape(-1, 2)
        n_rows = self.nodes.n_rows[children]
        small = (n_rows[:, 0] > n_rows[:, 1]).astype(np.int64)  # of equals the left one
        index = np.arange(len(parents))
        pairs = list(
            zip(
                parents.tolist(),
                children[index, small].tolist(),
                children[index, 1 - small].tolist(),
                searchable[index, small].tolist(),
                searchable[index, 1 - small].tolist(),
                strict=True,
            )
        )
        step = self.pool.pairs_per_batch
        for start in range(0, len(pairs), step):
            self._search(self.pool.plan_batch(pairs[start : start + step]))

    def _divide(self, parents: I64) -> I64:
        """Partitions rows and adds the children, (n, 2): left, right."""
        nodes, split = self.nodes, self.nodes.split[parents]
        missing_bin = self.matrix.mapper.missing_bin[split["feature"]]
        plan = np.stack(
            [
                nodes.begin[parents],
                nodes.end[parents],
                split["feature"],
                split["bin"],
                missing_bin,
                split["default_left"],
            ],
            axis=1,
        ).astype(np.int64)
        n_left = self.backend.partition(self.matrix, self.rows, plan)
        all_left = self.comm.allreduce_sum(n_left)
        children = nodes.add(2 * len(parents)).reshape(-1, 2)
        left, right = children[:, 0], children[:, 1]
        middle = plan[:, 0] + n_left
        nodes.begin[left], nodes.end[left] = plan[:, 0], middle
        nodes.begin[right], nodes.end[right] = middle, plan[:, 1]
        nodes.n_rows[left], nodes.n_rows[right] = all_left, nodes.n_rows[parents] - all_left
        nodes.depth[left] = nodes.depth[right] = nodes.depth[parents] + 1
        left_sums = np.stack([split["left_grad"], split["left_hess"]], axis=1)
        nodes.sums[left], nodes.sums[right] = left_sums, nodes.sums[parents] - left_sums
        flat = children.ravel()
        nodes.width[flat] = [self.widths.total_width(n) for n in nodes.n_rows[flat].tolist()]
        for parent, child in zip(parents.tolist(), left.tolist(), strict=True):
            nodes.first_child[parent] = child
        return children

    def _searchable(self, nodes: I64) -> NDArray[np.bool_]:
        """Whether a node could be split at all: depth, rows and hessian for two children."""
        table = self.nodes
        deep = (self.params.max_depth > 0) & (table.depth[nodes] >= self.params.max_depth)
        hess = table.sums[nodes, 1]
        least = self.rules.min_child_hess(table.n_rows[nodes], hess)
        return np.asarray(~deep & (hess >= 2 * least))

    def _search(self, plan: BatchPlan) -> None:
        """Builds, reduces and subtracts histograms, then searches them."""
        if not plan.builds:
            return
        nodes, pool, packing = self.nodes, self.pool, self.params.packed
        self._build(plan)
        mine = self.rank_bins[self.comm.rank]
        if plan.subtractions:
            steps = [
                (
                    pool.slot_of(large),
                    slot,
                    nodes.width[parent],
                    nodes.width[small],
                    nodes.width[large],
                )
                for (parent, small, large), slot in zip(
                    plan.subtractions, self._built_slots(plan), strict=True
                )
            ]
            self.backend.subtract_histograms(
                pool.storage, np.array(steps, dtype=np.int64), mine, packing
            )
        searched = np.array(plan.searched, dtype=np.int64)
        slots = np.array([pool.slot_of(n) for n in plan.searched], dtype=np.int64)
        hess = nodes.sums[searched, 1]
        least = self.rules.min_child_hess(nodes.n_rows[searched], hess)
        sums = np.column_stack([nodes.sums[searched].astype(np.float64), least])
        found = self.backend.find_splits(
            pool.storage,
            self.matrix.mapper,
            slots,
            nodes.width[searched],
            sums,
            self.features,
            self.allowed,
            self.rules,
            packing,
        )
        nodes.record(searched, best_of_ranks(found, self.comm))
        for node in plan.searched:
            pool.keep(node, nodes.gains[node])
        pool.free(plan.temporary)

    def _built_slots(self, plan: BatchPlan) -> list[int]:
        slot_of = dict(plan.builds)
        return [slot_of[small] for _, small, _ in plan.subtractions]

    def _build(self, plan: BatchPlan) -> None:
        """Histograms of the plan's nodes: local sums, then one reduction over the ranks."""
        nodes, pool = self.nodes, self.pool
        steps = []
        for node, slot in plan.builds:
            begin, end = int(nodes.begin[node]), int(nodes.end[node])
            total = int(nodes.width[node])
            local, block_rows = self.widths.local(end - begin, total)
            steps.append((begin, end, slot, local, total, block_rows))
            pool.widths_used[local] += 1
        table = np.array(steps, dtype=np.int64)
        packing = self.params.packed
        self.backend.build_histograms(
            pool.storage, self.matrix, self.quantized.packed, self.rows, table, packing
        )
        if self.comm.size > 1:
            for width in np.unique(table[:, 4]).tolist():
                self._reduce(table[table[:, 4] == width, 2], width)

    def _reduce(self, slots: I64, width: int) -> None:
        """Sums the slots over ranks; each rank keeps the bins of its own features."""
        storage = self.pool.storage
        packing = self.params.packed
        blocks = [
            self.backend.read_histograms(storage, slots, width, bins, packing)
            for bins in self.rank_bins
        ]
        total = self.comm.reduce_scatter_sum(blocks)
        mine = self.rank_bins[self.comm.rank]
        self.backend.write_histograms(storage, slots, width, mine, total)

    def _finish(self, taken: list[int], n_rounds: int) -> GrownTree:
        """The tree of the splits taken; what was grown beyond it is dropped."""
        nodes = self.nodes
        splits = np.array(taken, dtype=np.int64)
        first = np.array([nodes.first_child[n] for n in taken], dtype=np.int64)
        children = np.stack([first, first + 1], axis=1)
        split_index = np.full(nodes.n_nodes, -1, dtype=np.int64)
        split_index[splits] = np.arange(len(splits))
        flat = children.ravel() if len(taken) else np.zeros(1, dtype=np.int64)
        is_leaf = split_index[flat] < 0
        leaf_number = np.cumsum(is_leaf) - 1
        links = np.where(is_leaf, ~leaf_number, split_index[flat]).astype(np.int32)
        links = links.reshape(-1, 2) if len(taken) else np.zeros((0, 2), dtype=np.int32)
        leaves = flat[is_leaf]
        return GrownTree(
            splits=nodes.split[splits],
            left=np.ascontiguousarray(links[:, 0]),
            right=np.ascontiguousarray(links[:, 1]),
            split_rows=nodes.n_rows[splits],
            split_hess=nodes.sums[splits, 1],
            left_rows=nodes.n_rows[first] if len(taken) else np.zeros(0, dtype=np.int64),
            leaf_begin=np.ascontiguousarray(nodes.begin[leaves]),
            leaf_end=np.ascontiguousarray(nodes.end[leaves]),
            leaf_rows=nodes.n_rows[leaves],
            leaf_sums=nodes.sums[leaves],
            n_rounds=n_rounds,
        )
