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
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.backends.base import Backend, BinnedMatrix, TreeWork, search_in_steps
from bitgrove.distributed.comm import Comm
from bitgrove.distributed.data_parallel import rank_search
from bitgrove.params import TrainParams
from bitgrove.training.histograms import HistogramPool, WidthPlan
from bitgrove.training.quantize import QuantizedGradients
from bitgrove.training.splits import GainRules

I64 = NDArray[np.int64]
Search = Callable[[Any], NDArray[np.uint8]]  # SplitInfos, as bytes, for a plan of the frontier
# Separating zero rows is a pass over all rows: it pays when histograms get this much shorter.
_ZERO_SHARE = 0.125


class GrownTree(NamedTuple):
    """A tree without leaf values: splits in best-first order, leaves with their row ranges."""

    feature: NDArray[np.int32]
    split_bin: NDArray[np.uint8]
    threshold: NDArray[np.float64]
    default_left: NDArray[np.uint8]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    gain: NDArray[np.float64]
    split_rows: I64
    split_hess: NDArray[np.float64]
    leaf_rows: I64
    leaf_begin: I64
    leaf_end: I64
    leaf_sums: I64  # (n_leaves, 2) integers
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
        self,
        quantized: QuantizedGradients,
        rows: Any,
        allowed: NDArray[np.uint8],
        widths: WidthPlan,
    ) -> GrownTree:
        """Grows a tree on the listed rows, using the allowed features."""
        rules = GainRules.of(self.params, quantized)
        work = TreeWork(
            self.pool.storage,
            self.matrix,
            quantized.packed,
            rows,
            allowed,
            rules,
            self.params.packed,
        )
        frontier = self._start(quantized, rows, widths, rules.min_child_hess)
        self._run_rounds(frontier, work)
        mapper = self.matrix.mapper
        cuts = (mapper.cut_values, mapper.cut_offset, mapper.has_missing)
        tree = frontier.finish(*cuts, quantized.hess_scale)
        return GrownTree._make((*tree, frontier.n_rounds, frontier.widths_used))

    def _run_rounds(self, frontier: Any, work: TreeWork) -> None:
        alpha = self.params.frontier_alpha
        if self.comm.size == 1 and self.backend.run_rounds(work, frontier, alpha):
            return
        if self.comm.size == 1:
            find: Search = partial(search_in_steps, self.backend, work)
        else:
            find = rank_search(self.params, self.backend, work, self.comm)
        _search(frontier, find)
        missing_bin = self.matrix.mapper.missing_bin
        while len(plan := frontier.next_batch(alpha, missing_bin)):
            n_left = self.backend.partition(self.matrix, work.rows, plan)
            frontier.divide(n_left, self.comm.allreduce_sum(n_left))
            _search(frontier, find)

    def _start(
        self, quantized: QuantizedGradients, rows: Any, widths: WidthPlan, min_child_hess: float
    ) -> Any:
        """A frontier that knows the root's sums."""
        n_active = len(rows)
        if quantized.zero_rows > _ZERO_SHARE * quantized.n_rows:
            n_active = self.backend.separate_zero_rows(quantized.packed, rows)
        grad, hess = self.backend.row_sums(quantized.packed, rows)
        local = (n_active, len(rows) - n_active)
        sums = self.comm.allreduce_sum(np.array([grad, hess, *local], dtype=np.int64))
        grad, hess, *everywhere = sums.tolist()
        params = self.params
        widths.total_width(sum(everywhere))  # refuses what even 64 bits cannot hold
        frontier = _core.make_frontier(
            self.pool.n_slots,
            params.num_leaves,
            params.max_depth,
            params.min_child_samples,
            min_child_hess,
            widths.limits,
        )
        frontier.start(grad, hess, tuple(everywhere), local)
        return frontier


def _search(frontier: Any, find: Search) -> None:
    """Finds the best splits of the new nodes."""
    while (plan := frontier.next_search()) is not None:
        frontier.record(find(plan))
