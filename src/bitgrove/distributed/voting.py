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
from bitgrove.distributed.comm import Array, Comm
from bitgrove.splits import SplitInfos, best_of_ranks, no_splits


class Voting:
    """Per plan an all-gather of votes, a reduce-scatter of elected features, one of best splits.

    The pool keeps this rank's own histograms; sums over ranks live in a second, small pool.
    """

    def __init__(self, backend: Backend, work: TreeWork, comm: Comm, top_k: int) -> None:
        self.backend, self.work, self.comm, self.top_k = backend, work, comm, top_k
        self.mapper = work.matrix.mapper
        self.n_bins = int(self.mapper.bin_offset[-1])
        self.scratch: Any = None

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
        share = np.maximum(plan.sums[:, 2] / self.comm.size, 1.0)
        first = (0, int(self.mapper.bin_offset[1]))
        sums = np.empty((len(plan.slots), 3))
        for i, (slot, width) in enumerate(zip(plan.slots, plan.widths, strict=True)):
            part = self._read(self.work.pool, slot, width, first)
            sums[i, :2] = _halves(part, int(width), first[1]).sum(axis=0)
        sums[:, 2] = share
        return sums

    def _find(self, plan: Any, sums: Any, features: tuple[int, int]) -> SplitInfos:
        work = self.work
        return self.backend.find_splits(
            work.pool, self.mapper, plan.slots, plan.widths, sums, features, work.allowed,
            work.rules, work.packing,
        )  # fmt: skip

    def _read(self, pool: Any, slot: int, width: int, bins: tuple[int, int]) -> Array:
        slots = np.array([slot], dtype=np.int64)
        return self.backend.read_histograms(pool, slots, int(width), bins, self.work.packing)

    def _search_sums(self, plan: Any, elected: list[NDArray[np.int64]]) -> SplitInfos:
        """Sums elected features over ranks, each rank its share of them, and searches those."""
        work, comm, offset = self.work, self.comm, self.mapper.bin_offset
        wide = max(32, int(plan.widths.max()))
        if self.scratch is None or self.scratch[0] < wide:
            self.scratch = (wide, self.backend.new_pool(1, self.n_bins, wide))
        pool, slot = self.scratch[1], np.zeros(1, dtype=np.int64)
        found = no_splits(len(plan.slots))
        for width in np.unique(plan.widths).tolist():
            nodes = [i for i in range(len(elected)) if plan.widths[i] == width]
            owners = [np.array_split(elected[i], comm.size) for i in nodes]
            parts: list[list[Array]] = [[] for _ in range(comm.size)]
            for i, shares in zip(nodes, owners, strict=True):
                whole = self._read(work.pool, plan.slots[i], width, (0, self.n_bins))
                bins = whole.reshape(self.n_bins, -1)
                for rank, share in enumerate(shares):
                    parts[rank] += [bins[offset[f] : offset[f + 1]] for f in share]
                empty = bins[:0]
            total = comm.reduce_scatter_sum([np.concatenate([empty, *p]) for p in parts])
            start = 0
            for i, shares in zip(nodes, owners, strict=True):
                allowed = np.zeros_like(work.allowed)
                for f in shares[comm.rank]:
                    n = int(offset[f + 1] - offset[f])
                    place = (int(offset[f]), int(offset[f + 1]))
                    message = np.ascontiguousarray(total[start : start + n])
                    self.backend.write_histograms(pool, slot, width, place, message)
                    allowed[f], start = 1, start + n
                if allowed.any():
                    found[i] = self.backend.find_splits(
                        pool, self.mapper, slot, plan.widths[i : i + 1], plan.sums[i : i + 1],
                        (0, self.mapper.n_features), allowed, work.rules, work.packing,
                    )[0]  # fmt: skip
        return found


def _halves(message: Array, width: int, n_bins: int) -> NDArray[np.float64]:
    """(n_bins, 2) sums of gradient and hessian out of a message of read_histograms."""
    flat = np.ascontiguousarray(message).reshape(-1)
    if len(flat) == 2 * n_bins:  # the halves are apart
        pairs = flat.reshape(n_bins, 2).astype(np.int64)
        mask = (1 << width) - 1 if width < 64 else -1  # hessians are unsigned
        return np.stack([pairs[:, 0], pairs[:, 1] & mask], axis=1).astype(np.float64)
    whole = flat.astype(np.int64)
    return np.stack([whole >> width, whole & ((1 << width) - 1)], axis=1).astype(np.float64)
