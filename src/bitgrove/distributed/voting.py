"""Voting-parallel search (PV-Tree, Meng et al., NeurIPS 2016).

Owns Voting: ranks vote for the features that look best on their own rows, and only the histograms
of the elected ones travel. Fewer bytes, and possibly another model than that of one machine: it
depends on the number of ranks and on how rows are dealt, but on nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.distributed.comm import Comm, sum_records
from bitgrove.distributed.data_parallel import best_of_ranks
from bitgrove.distributed.messages import Messages, add_to_host, pack_messages
from bitgrove.kernels.plans import HISTOGRAM_PART, Records, no_splits

if TYPE_CHECKING:
    from bitgrove.backends.base import Backend, BinnedMatrix, HistogramPool, SearchPlan, TreeWork

I64 = NDArray[np.int64]


class Voting:
    """Per plan an all-gather of votes, an exchange of elected features, one of best splits.

    The pool keeps this rank's own histograms; sums over ranks live in a second one, of one slot.
    """

    def __init__(self, comm: Comm, backend: Backend, matrix: BinnedMatrix, top_k: int) -> None:
        self.comm, self.backend, self.matrix, self.top_k = comm, backend, matrix, top_k
        self.mapper = matrix.mapper
        self.scratch: Any = None

    def sum_counts(self, counts: Records) -> Records:
        return sum_records(self.comm, counts)

    def sum_built(self, pool: HistogramPool, builds: Records) -> tuple[int, int]:
        return 0, int(self.mapper.bin_offset[-1])  # nothing is summed before the vote

    def choose(self, plan: SearchPlan, work: TreeWork) -> Records:
        elected = self._elect(plan, work)
        return best_of_ranks(self._search_sums(plan.nodes, work, elected), self.comm)

    def _elect(self, plan: SearchPlan, work: TreeWork) -> list[I64]:
        """Each node's 2 * top_k features with most votes; of equals the lowest ones."""
        nodes = plan.nodes
        n_nodes, n_features = len(nodes), self.mapper.n_features
        gains = np.full((n_features, n_nodes), -np.inf)
        own = self._own_sums(nodes, work)
        for feature in range(n_features):  # those not allowed have no gain
            found = work.find(own, (feature, feature + 1), allowed=plan.allowed)
            gains[feature] = found["gain"]
        best = np.argsort(-gains, axis=0, kind="stable")[: self.top_k].T
        votes = np.where(np.take_along_axis(gains, best.T, axis=0).T > 0.0, best, -1)
        everyone = np.stack(self.comm.allgather(votes.astype(np.int32), equal=True))
        elected = []
        for node in everyone.reshape(self.comm.size, n_nodes, -1).transpose(1, 0, 2):
            counts = np.bincount(node[node >= 0].astype(np.int64), minlength=n_features)
            order = np.argsort(-counts, kind="stable")[: 2 * self.top_k]
            elected.append(np.sort(order[counts[order] > 0]))
        return elected

    def _own_sums(self, nodes: Records, work: TreeWork) -> Records:
        """The nodes as this rank's rows alone show them."""
        own, n_bins = nodes.copy(), int(self.mapper.bin_offset[1])  # every row is in feature 0
        host = work.pool.on_host(np.unique(nodes["slot"]))
        for node in own:
            node["grad"], node["hess"] = host.sums(int(node["slot"]), int(node["width"]), n_bins)
        own["min_hess"] = np.maximum(nodes["min_hess"] / self.comm.size, 1.0)
        return own

    def _search_sums(self, nodes: Records, work: TreeWork, elected: list[I64]) -> Records:
        """Sums elected features over ranks, each rank its share of them, and searches those."""
        comm = self.comm
        shares = [np.array_split(features, comm.size) for features in elected]
        parts = self._parts(nodes, shares)
        came = list(enumerate(comm.alltoall(pack_messages(work.pool, parts, comm.size))))
        mine = parts[parts["message"] == comm.rank]
        mine["slot"] = 0  # the only one of the second pool
        found, last = no_splits(len(nodes)), 0
        for i, share in enumerate(shares):
            first, last = last, last + len(share[comm.rank])
            if first < last:
                pool = self._summed(mine, came, (first, last))
                allowed = np.zeros((1, self.mapper.n_features), dtype=np.uint8)
                allowed[0, share[comm.rank]] = 1
                node = nodes[i : i + 1].copy()
                node["slot"] = 0
                everything = (0, self.mapper.n_features)
                found[i] = work.find(node, everything, pool, allowed)[0]
        return found

    def _parts(self, nodes: Records, shares: list[list[I64]]) -> Records:
        """What goes to each rank: its share of every node's elected features."""
        parts = [
            (*self.mapper.bin_offset[[f, f + 1]], node["slot"], node["width"], rank, 0)
            for rank in range(self.comm.size)
            for node, share in zip(nodes, shares, strict=True)
            for f in share[rank]
        ]
        return np.array(parts, dtype=HISTOGRAM_PART)

    def _summed(self, parts: Records, came: Messages, added: tuple[int, int]) -> Any:
        """The second pool, with the sums of one node's features."""
        half_bits = max(32, int(parts["width"].max()))
        if self.scratch is None or self.scratch.half_bits < half_bits:
            self.scratch = self.backend.new_pool(self.matrix, 1, half_bits)
        host = self.scratch.on_host(np.zeros(1, dtype=np.int64))
        host.memory[:] = 0
        add_to_host(host, parts, came, added)
        self.scratch.put_back(host)
        return self.scratch
