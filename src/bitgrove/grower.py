"""Growing one tree: exact best-first, in frontier rounds.

A node's best split depends on its own rows only, so the leaf-wise tree does not depend on the order
in which gains become known. Each round replays best-first over the known gains, and expands, as one
batch, the first nodes the replay took whose children are not known yet. When none are left, the
replay is the exact leaf-wise tree (the choice of alpha changes the time, never the tree).

The bookkeeping (nodes, the replay, which histogram is in which slot) is cpp/frontier.cpp, told here
what the backend found; it is the same for every backend and every rank.

Receives binned rows and quantized gradients on a backend; returns a GrownTree: the splits taken, in
order, and the row range of every leaf.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.backends.base import Backend, BinnedMatrix, TreeWork
from bitgrove.distributed.comm import Comm, feature_block
from bitgrove.histograms import HistogramPool, WidthPlan
from bitgrove.params import TrainParams
from bitgrove.quantize import QuantizedGradients
from bitgrove.splits import SPLIT_INFO, GainRules, SplitInfos, best_of_ranks

I64 = NDArray[np.int64]
# Separating zero rows is a pass over all rows: it pays when histograms get this much shorter.
_ZERO_SHARE = 0.125


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
    widths_used: list[int]  # histograms built with accumulators of 8, 16, 32, 64 bits


class Grower:
    """Grows trees on one binned matrix."""

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
        mapper = matrix.mapper
        self.features = feature_block(comm, mapper.n_features)
        blocks = [feature_block(comm, mapper.n_features, rank) for rank in range(comm.size)]
        offset = mapper.bin_offset
        self.rank_bins = [(int(offset[first]), int(offset[last])) for first, last in blocks]

    def grow(
        self, quantized: QuantizedGradients, rows: Any, allowed: NDArray[np.uint8]
    ) -> GrownTree:
        """Grows a tree on the listed rows, using the allowed features."""
        self.quantized, self.rows, self.allowed = quantized, rows, allowed
        self.rules = GainRules.of(self.params, quantized)
        work = TreeWork(
            self.pool.storage,
            self.matrix,
            quantized.packed,
            rows,
            allowed,
            self.rules,
            self.params.packed,
        )
        frontier, alpha = self._start(), self.params.frontier_alpha
        if self.comm.size == 1 and self.backend.run_rounds(work, frontier, alpha):
            return _grown_tree(frontier)
        self.find_here = self.backend.searcher(work)
        self._search(frontier)
        missing_bin = self.matrix.mapper.missing_bin
        while len(plan := frontier.next_batch(alpha, missing_bin)):
            n_left = self.backend.partition(self.matrix, rows, plan)
            frontier.divide(n_left, self.comm.allreduce_sum(n_left))
            self._search(frontier)
        return _grown_tree(frontier)

    def _start(self) -> Any:
        """A frontier that knows the root's sums."""
        quantized, rows = self.quantized, self.rows
        n_active = len(rows)
        if quantized.zero_rows > _ZERO_SHARE * quantized.n_rows:
            n_active = self.backend.separate_zero_rows(quantized.packed, rows)
        grad, hess = self.backend.row_sums(quantized.packed, rows)
        local = (n_active, len(rows) - n_active)
        sums = self.comm.allreduce_sum(np.array([grad, hess, *local], dtype=np.int64))
        grad, hess, *everywhere = sums.tolist()
        params, widths = self.params, WidthPlan(self.quantized)
        widths.total_width(sum(everywhere))  # refuses what even 64 bits cannot hold
        frontier = _core.make_frontier(
            self.pool.n_slots,
            params.num_leaves,
            params.max_depth,
            params.min_child_samples,
            self.rules.min_child_hess,
            widths.limits,
        )
        frontier.start(grad, hess, tuple(everywhere), local)
        return frontier

    def _search(self, frontier: Any) -> None:
        """Finds the best splits of the new nodes."""
        find = self.find_here if self.comm.size == 1 else self._find_with_ranks
        while (plan := frontier.next_search()) is not None:
            frontier.record(find(plan))

    def _find_with_ranks(self, plan: Any) -> NDArray[np.uint8]:
        """Builds histograms of this rank's rows and searches the sums of this rank's features."""
        storage, packing = self.pool.storage, self.params.packed
        self.backend.build_histograms(
            storage, self.matrix, self.quantized.packed, self.rows, plan.builds, packing
        )
        self._reduce(plan.builds)
        if len(plan.subtractions):
            mine = self.rank_bins[self.comm.rank]
            self.backend.subtract_histograms(storage, plan.subtractions, mine, packing)
        found = self.backend.find_splits(
            storage,
            self.matrix.mapper,
            plan.slots,
            plan.widths,
            plan.sums,
            self.features,
            self.allowed,
            self.rules,
            packing,
        )
        return best_of_ranks(found, self.comm).view(np.uint8)

    def _reduce(self, builds: I64) -> None:
        """Sums the built histograms over ranks; each rank keeps the bins of its own features."""
        storage, packing = self.pool.storage, self.params.packed
        mine = self.rank_bins[self.comm.rank]
        for width in np.unique(builds[:, 4]).tolist():
            slots = builds[builds[:, 4] == width, 2]
            blocks = [
                self.backend.read_histograms(storage, slots, width, bins, packing)
                for bins in self.rank_bins
            ]
            total = self.comm.reduce_scatter_sum(blocks)
            self.backend.write_histograms(storage, slots, width, mine, total)


def _grown_tree(frontier: Any) -> GrownTree:
    splits, *fields = frontier.finish()
    rounds = (frontier.n_rounds, frontier.widths_used)
    return GrownTree(*(splits.view(SPLIT_INFO), *fields, *rounds))
