"""A channel of NcclComm without NCCL: blocks are summed by the Comm itself, through the host.

So the ways through search, pool and failures can be tested where ranks have no GPU of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.distributed.comm import Comm
from bitgrove.errors import ParameterError

Bins = tuple[int, int]


class StagedChannel:
    """ended: what has_ended() asks after each sum; never true, it is NCCL waiting for a rank."""

    def __init__(self, comm: Comm, ended: Callable[[], bool] = lambda: True) -> None:
        self.comm, self.has_ended = comm, ended
        self.n_sums = self.n_aborts = 0

    def check_pool(self, pool: Any) -> None:
        if pool.storage.dtype != np.int64:
            raise ParameterError("device: histograms are on the CPU")

    def start(self, pool: Any, slots: NDArray[np.int64], rank_bins: Sequence[Bins]) -> None:
        to_host = getattr(pool.storage, "get", lambda: pool.storage)
        blocks = [np.ascontiguousarray(to_host()[slots, a:b]) for a, b in rank_bins]
        self.n_sums += 1
        self.sums = sum(part.reshape(blocks[self.comm.rank].shape) for part in self._deal(blocks))

    def _deal(self, blocks: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        return self.comm.alltoall([block.reshape(-1) for block in blocks])

    def finish(self, pool: Any, slots: NDArray[np.int64], bins: Bins) -> None:
        if isinstance(pool.storage, np.ndarray):
            pool.storage[slots, bins[0] : bins[1]] = self.sums
        else:
            import cupy

            pool.storage[cupy.asarray(slots), bins[0] : bins[1]] = cupy.asarray(self.sums)

    def abort(self) -> None:
        self.n_aborts += 1
