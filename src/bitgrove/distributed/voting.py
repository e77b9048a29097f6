"""Voting-parallel search (PV-Tree, Meng et al., NeurIPS 2016).

Owns Voting: ranks vote for the features that look best on their own rows, and only the histograms
of the elected ones travel. Fewer bytes, and possibly another model than that of one machine: it
depends on the number of ranks and on how rows are dealt, but on nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends.base import Backend, TreeWork
from bitgrove.distributed.comm import Comm
from bitgrove.training.splits import SplitInfos, best_of_ranks, no_splits


class Voting:
    """Per plan an all-gather of votes, an exchange of elected features, one of best splits.

    The pool keeps this rank's own histograms; sums over ranks live in a second, small pool.
    """

    def __init__(self, backend: Backend, work: TreeWork, comm: Comm, top_k: int) -> None:
        self.backend, self.work, self.comm, self.top_k = backend, work, comm, top_k
        self.mapper = work.matrix.mapper
        self.n_bins = int(self.mapper.bin_offset[-1])
        self.scratch: tuple[int, Any] | None = None

    def __call__(self, plan: Any) -> NDArray[np.uint8]:
        work, backend = self.work, self.backend
        backend.build_histograms(
            work.pool, work.matrix, work.packed, work.rows, plan.builds, work.packing
        )
        if len(plan.subtractions):
            backend.subtract_histograms(
                work.pool, plan.subtractions, (0, self.n_bins), work.packing
            )
        elected = self._elect(plan)
        return best_of_ranks(self._search_sums(plan, elected), self.comm).view(np.uint8)

    def _elect(self, plan: Any) -> list[NDArray[np.int64]]:
        """Each node's 2 * top_k features with most votes; of equals the lowest ones."""
        n_nodes, n_features = len(plan.slots), self.mapper.n_features
        gains = np.full((n_features, n_nodes), -np.inf)
        sums = self._own_sums(plan)
        for feature in np.flatnonzero(self.work.allowed):
            gains[feature] = self._find(plan, sums, (int(feature), int(feature) + 1))["gain"]
        best = np.argsort(-gains, axis=0, kind="stable")[: self.top_k].T
        votes = np.where(np.take_along_axis(gains, best.T, axis=0).T > 0.0, best, -1)
        everyone = np.stack(self.comm.allgather(votes.astype(np.int32), equal=True))
        elected = []
        for node in everyone.reshape(self.comm.size, n_nodes, -1).transpose(1, 0, 2):
            counts = np.bincount(node[node >= 0].astype(np.int64), minlength=n_features)
            order = np.argsort(-counts, kind="stable")[: 2 * self.top_k]
            elected.append(np.sort(order[counts[order] > 0]))
        return elected

    def _own_sums(self, plan: Any) -> NDArray[np.float64]:
        """Grad, hess and least hessian of a child, as this rank's rows alone show them."""
        work, first = self.work, (0, int(self.mapper.bin_offset[1]))
        sums = np.empty((len(plan.slots), 3))
        for i, (slot, width) in enumerate(zip(plan.slots, plan.widths, strict=True)):
            bins = self.backend.histogram_sums(work.pool, slot, width, first, work.packing)
            sums[i, :2] = bins.sum(axis=0)
        sums[:, 2] = np.maximum(plan.sums[:, 2] / self.comm.size, 1.0)
        return sums

    def _find(self, plan: Any, sums: Any, features: tuple[int, int]) -> SplitInfos:
        work = self.work
        return self.backend.find_splits(
            work.pool, self.mapper, plan.slots, plan.widths, sums, features, work.allowed,
            work.rules, work.packing,
        )  # fmt: skip

    def _search_sums(self, plan: Any, elected: list[NDArray[np.int64]]) -> SplitInfos:
        """Sums elected features over ranks, each rank its share of them, and searches those."""
        work, backend, comm = self.work, self.backend, self.comm
        shares = [np.array_split(features, comm.size) for features in elected]
        sent = [
            (rank, slot, width, *self.mapper.bin_offset[[f, f + 1]])
            for rank in range(comm.size)
            for slot, width, share in zip(plan.slots, plan.widths, shares, strict=True)
            for f in share[rank]
        ]
        steps = np.array(sent, dtype=np.int64).reshape(-1, 5)
        came = comm.alltoall(backend.pack_messages(work.pool, steps, comm.size, work.packing))
        mine = steps[steps[:, 0] == comm.rank, 1:]
        mine[:, 0] = 0  # the only slot
        found, last = no_splits(len(plan.slots)), 0
        for i, share in enumerate(shares):
            first, last = last, last + len(share[comm.rank])
            if first < last:
                pool = self._empty_slot(int(plan.widths[i]))
                backend.add_messages(pool, mine, (first, last), list(enumerate(came)), work.packing)
                allowed = np.zeros_like(work.allowed)
                allowed[share[comm.rank]] = 1
                found[i] = backend.find_splits(
                    pool, self.mapper, mine[:1, 0], plan.widths[i : i + 1], plan.sums[i : i + 1],
                    (0, self.mapper.n_features), allowed, work.rules, work.packing,
                )[0]  # fmt: skip
        return found

    def _empty_slot(self, width: int) -> Any:
        """A pool of one slot, emptied as a node without rows is."""
        if self.scratch is None or self.scratch[0] < width:
            self.scratch = (width, self.backend.new_pool(1, self.n_bins, max(32, width)))
        work, plan = self.work, np.array([[0, 0, 0, width, width, 1]])
        self.backend.build_histograms(
            self.scratch[1], work.matrix, work.packed, work.rows, plan, work.packing
        )
        return self.scratch[1]
