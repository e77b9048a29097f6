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

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.backends.base import Backend, BinnedMatrix, TreeWork, search_in_steps
from bitgrove.distributed.comm import Comm
from bitgrove.distributed.search import rank_search
from bitgrove.histograms import HistogramPool, WidthPlan
from bitgrove.params import TrainParams
from bitgrove.quantize import QuantizedGradients
from bitgrove.splits import SPLIT_INFO, GainRules, SplitInfos

I64 = NDArray[np.int64]
Search = Callable[[Any], NDArray[np.uint8]]  # SplitInfos, as bytes, for a plan of the frontier
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
        if self.comm.size == 1:
            self.find: Search = partial(search_in_steps, self.backend, work)
        else:
            self.find = rank_search(self.params, self.backend, work, self.comm)
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
        while (plan := frontier.next_search()) is not None:
            frontier.record(self.find(plan))


def _grown_tree(frontier: Any) -> GrownTree:
    splits, *fields = frontier.finish()
    rounds = (frontier.n_rounds, frontier.widths_used)
    return GrownTree(*(splits.view(SPLIT_INFO), *fields, *rounds))
