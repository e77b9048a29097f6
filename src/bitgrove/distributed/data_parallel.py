"""Searching splits when every rank holds some of the rows.

Owns DataParallel: each rank sums and searches a block of the features, which gives the model of one
machine. Receives the plans of the frontier; returns the best split of each node, the same on all
ranks. The other way, voting, is in voting.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends.base import Backend, TreeWork
from bitgrove.distributed.comm import Comm, feature_block
from bitgrove.distributed.nccl import NcclComm
from bitgrove.distributed.voting import Voting
from bitgrove.params import TrainParams
from bitgrove.training.splits import best_of_ranks

I64 = NDArray[np.int64]
Search = Callable[[Any], NDArray[np.uint8]]


def rank_search(params: TrainParams, backend: Backend, work: TreeWork, comm: Comm) -> Search:
    if params.distributed == "voting":
        return Voting(backend, work, comm, params.top_k)
    return DataParallel(backend, work, comm)


class DataParallel:
    """Per plan one exchange of the built histograms and one all-gather of best splits."""

    def __init__(self, backend: Backend, work: TreeWork, comm: Comm) -> None:
        self.backend, self.work, self.comm = backend, work, comm
        mapper = work.matrix.mapper
        self.features = feature_block(comm, mapper.n_features)
        blocks = [feature_block(comm, mapper.n_features, rank) for rank in range(comm.size)]
        self.rank_bins = mapper.bin_offset[np.array(blocks)]

    def __call__(self, plan: Any) -> NDArray[np.uint8]:
        """Builds histograms of this rank's rows and searches the sums of this rank's features."""
        work, backend = self.work, self.backend
        builds, subtractions = plan.builds, plan.subtractions
        backend.build_histograms(
            work.pool, work.matrix, work.packed, work.rows, builds, work.packing
        )
        self._reduce(builds[:, [2, 4]])
        if len(subtractions):
            first, last = self.rank_bins[self.comm.rank].tolist()
            backend.subtract_histograms(work.pool, subtractions, (first, last), work.packing)
        found = backend.find_splits(
            work.pool, work.matrix.mapper, plan.slots, plan.widths, plan.sums, self.features,
            work.allowed, work.rules, work.packing,
        )  # fmt: skip
        return best_of_ranks(found, self.comm).view(np.uint8)

    def _reduce(self, built: I64) -> None:
        """Sums slots (of the given widths) over ranks, in the bins of this rank's features."""
        work, rank, size = self.work, self.comm.rank, self.comm.size
        if isinstance(self.comm, NcclComm):
            self.comm.sum_histograms(work.pool, built[:, 0], self.rank_bins.tolist())
            return
        blocks = np.hstack([np.tile(built, (size, 1)), np.repeat(self.rank_bins, len(built), 0)])
        owner = np.repeat(np.arange(size), len(built))[:, None]
        others = owner[:, 0] != rank
        messages = self.backend.pack_messages(
            work.pool, np.hstack([owner, blocks])[others], size, work.packing
        )
        came = list(enumerate(self.comm.alltoall(messages)))
        del came[rank]
        self.backend.add_messages(work.pool, blocks[~others], (0, len(built)), came, work.packing)
