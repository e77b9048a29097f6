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
from bitgrove.distributed.comm import Array, Comm, feature_block
from bitgrove.distributed.voting import Voting
from bitgrove.params import TrainParams
from bitgrove.splits import best_of_ranks

I64 = NDArray[np.int64]
Search = Callable[[Any], NDArray[np.uint8]]


def rank_search(params: TrainParams, backend: Backend, work: TreeWork, comm: Comm) -> Search:
    if params.distributed == "voting":
        return Voting(backend, work, comm, params.top_k)
    return DataParallel(backend, work, comm)


class DataParallel:
    """Per plan one reduce-scatter of the built histograms and one all-gather of best splits."""

    def __init__(self, backend: Backend, work: TreeWork, comm: Comm) -> None:
        self.backend, self.work, self.comm = backend, work, comm
        mapper = work.matrix.mapper
        self.features = feature_block(comm, mapper.n_features)
        blocks = [feature_block(comm, mapper.n_features, rank) for rank in range(comm.size)]
        offset = mapper.bin_offset
        self.rank_bins = [(int(offset[first]), int(offset[last])) for first, last in blocks]

    def __call__(self, plan: Any) -> NDArray[np.uint8]:
        """Builds histograms of this rank's rows and searches the sums of this rank's features."""
        work, backend = self.work, self.backend
        backend.build_histograms(
            work.pool, work.matrix, work.packed, work.rows, plan.builds, work.packing
        )
        self._reduce(plan.builds)
        if len(plan.subtractions):
            mine = self.rank_bins[self.comm.rank]
            backend.subtract_histograms(work.pool, plan.subtractions, mine, work.packing)
        found = backend.find_splits(
            work.pool, work.matrix.mapper, plan.slots, plan.widths, plan.sums, self.features,
            work.allowed, work.rules, work.packing,
        )  # fmt: skip
        return best_of_ranks(found, self.comm).view(np.uint8)

    def _reduce(self, builds: I64) -> None:
        """Sums the built histograms over ranks; each rank keeps the bins of its own features."""
        widths = np.unique(builds[:, 4]).tolist()
        slots = [builds[builds[:, 4] == width, 2] for width in widths]
        blocks = [
            [self._read(s, width, bins) for s, width in zip(slots, widths, strict=True)]
            for bins in self.rank_bins
        ]
        mine = blocks[self.comm.rank]
        if _one_message(blocks, slots, self.rank_bins):
            words = self.comm.reduce_scatter_sum([_as_words(parts) for parts in blocks])
            ends = np.cumsum([part.nbytes // 4 for part in mine])
            sums = [
                w.view(part.dtype) for w, part in zip(np.split(words, ends), mine, strict=False)
            ]
        else:
            sums = [self.comm.reduce_scatter_sum(parts) for parts in zip(*blocks, strict=True)]
        for s, width, total in zip(slots, widths, sums, strict=True):
            self.backend.write_histograms(
                self.work.pool, s, width, self.rank_bins[self.comm.rank], total
            )

    def _read(self, slots: I64, width: int, bins: tuple[int, int]) -> Array:
        return self.backend.read_histograms(self.work.pool, slots, width, bins, self.work.packing)


def _one_message(blocks: Any, slots: list[I64], rank_bins: list[tuple[int, int]]) -> bool:
    """Whether both halves share an integer everywhere: then nothing carries out of 32 bits.

    A 16+16 integer is one such word. Of a 32+32 integer the lower half, a sum of hessians that was
    proven to fit, never carries, so that its two words add up by themselves.
    """
    return all(
        part.size == len(s) * (last - first) and part.dtype.itemsize in (4, 8)
        for parts, (first, last) in zip(blocks, rank_bins, strict=True)
        for part, s in zip(parts, slots, strict=True)
    )


def _as_words(parts: list[Array]) -> NDArray[np.uint32]:
    return np.concatenate(
        [np.ascontiguousarray(part).reshape(-1).view(np.uint32) for part in parts]
    )
