"""Data-parallel training: every rank holds some of the rows.

Owns DataParallel: ranks sum their histograms, each those of a block of the features, and search
what they summed. That gives the model of one machine. The other way, voting, is in voting.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bitgrove.distributed.comm import Comm, feature_block, sum_records
from bitgrove.kernels.plans import SPLIT_INFO, Records

if TYPE_CHECKING:
    from bitgrove.backends.base import HistogramPool, SearchPlan, TreeWork
    from bitgrove.data.binning import BinMapper


class DataParallel:
    """Per plan one exchange of the built histograms and one all-gather of best splits."""

    def __init__(self, comm: Comm, mapper: BinMapper) -> None:
        self.comm = comm
        blocks = [feature_block(comm, mapper.n_features, rank) for rank in range(comm.size)]
        self.features = blocks[comm.rank]
        self.rank_bins = mapper.bin_offset[np.array(blocks)]

    def sum_counts(self, counts: Records) -> Records:
        return sum_records(self.comm, counts)

    def sum_built(self, pool: HistogramPool, builds: Records) -> tuple[int, int]:
        if len(builds):  # none where nodes are only searched again
            self.comm.sum_histograms(pool, builds, self.rank_bins)
        first, last = self.rank_bins[self.comm.rank].tolist()
        return first, last

    def choose(self, plan: SearchPlan, work: TreeWork) -> Records:
        found = work.find(plan.nodes, self.features, allowed=plan.allowed)
        return best_of_ranks(found, self.comm)


def best_of_ranks(found: Records, comm: Comm) -> Records:
    """The best split of each node over all ranks.

    Ties: lowest feature, then lowest bin, then missing-left. Rank r owns lower features than rank
    r + 1, so of equal gains the lowest rank's is taken.
    """
    raw = comm.allgather(found.view(np.uint8), equal=True)
    everyone = np.concatenate(raw).view(SPLIT_INFO).reshape(comm.size, len(found))
    winner = np.argmax(everyone["gain"], axis=0)  # argmax takes the first of equals
    return np.asarray(everyone[winner, np.arange(len(found))])
