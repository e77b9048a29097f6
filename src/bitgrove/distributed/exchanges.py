"""The ways in which ranks train one tree together, by the parameter `distributed`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bitgrove.distributed.comm import Comm
from bitgrove.distributed.data_parallel import DataParallel
from bitgrove.distributed.voting import Voting

if TYPE_CHECKING:
    from bitgrove.backends.base import Backend, BinnedMatrix, Exchange
    from bitgrove.params import TrainParams


def make_exchange(
    params: TrainParams, backend: Backend, matrix: BinnedMatrix, comm: Comm
) -> Exchange:
    if params.distributed == "voting":
        return Voting(comm, backend, matrix, params.top_k)
    return DataParallel(comm, matrix.mapper)


def caveat(params: TrainParams, n_ranks: int) -> str | None:
    """What a user of this way should know about the model; None if it is that of one process."""
    if params.distributed == "voting":
        return f"voting over {n_ranks} ranks: the model may depend on their number"
    return None
