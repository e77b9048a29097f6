"""Training files over ranks: what the ranks must agree on when each reads its own part.

Receives a rank's Arrow table and a Comm; returns names and classes that are the same on all ranks,
so that the shards in rank order are the table one process would have read.
"""

from __future__ import annotations

import os
import socket
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.cli.tables import listed, query_ids
from bitgrove.distributed.comm import Comm, gather_facts
from bitgrove.errors import DataError
from bitgrove.machine.threads import available_cores

if TYPE_CHECKING:
    import pyarrow as pa


def shared_columns(table: pa.Table, comm: Comm) -> pa.Table:
    """The table with its columns in the order of rank 0; DataError if others are there."""
    names, *_ = gather_facts(comm, table.column_names)
    if set(names) != set(table.column_names):
        missing = sorted(set(names) - set(table.column_names))
        extra = sorted(set(table.column_names) - set(names))
        raise DataError(
            f"the columns differ from those of rank 0: missing {listed(missing) or 'none'}, "
            f"unexpected {listed(extra) or 'none'}"
        )
    return table.select(names)


def shared_names(mine: frozenset[str], comm: Comm) -> frozenset[str]:
    """The names that some rank has."""
    return frozenset(name for names in gather_facts(comm, sorted(mine)) for name in names)


def shared_classes(found: NDArray[Any], comm: Comm) -> NDArray[Any]:
    """The sorted classes of all ranks; `found` are those of this one."""
    if comm.size == 1:
        return found
    everyone = gather_facts(comm, {"dtype": found.dtype.str, "classes": found.tolist()})
    filled = [(rank, f) for rank, f in enumerate(everyone) if f["classes"]]
    if not filled:
        return found
    first, text = filled[0][0], filled[0][1]["dtype"][1] == "U"
    for rank, facts in filled:
        if (facts["dtype"][1] == "U") != text:
            kinds = ("text", "numbers") if text else ("numbers", "text")
            raise DataError(f"label: {kinds[0]} on rank {first} but {kinds[1]} on rank {rank}")
    parts = [np.array(f["classes"], dtype=f["dtype"]) for _, f in filled]
    return np.unique(np.concatenate(parts))


def check_query_borders(table: pa.Table, group: str, comm: Comm) -> None:
    """DataError if the rows of a query lie on two ranks."""
    ids = query_ids(table, group)
    everyone = gather_facts(comm, [str(ids[0]), str(ids[-1])] if len(ids) else None)
    filled = [(rank, ends) for rank, ends in enumerate(everyone) if ends]
    for (rank, (_, last)), (next_rank, (first, _)) in pairwise(filled):
        if last == first:
            raise DataError(
                f"query {last!r} of column {group!r} has rows on rank {rank} and on rank "
                f"{next_rank}; keep each query within one file, or give fewer files than ranks"
            )


def introduce_ranks(comm: Comm, n_rows: int) -> int:
    """Rank 0 says which process is which rank (launchers name processes only); all rows' count."""
    facts = gather_facts(comm, [socket.gethostname(), os.getpid(), n_rows])
    if comm.size > 1 and comm.rank == 0:
        names = ", ".join(f"{rank} = {host}:{pid}" for rank, (host, pid, _) in enumerate(facts))
        print(f"bitgrove: {comm.size} ranks (rank = host:process): {names}", file=sys.stderr)
    return sum(n for _, _, n in facts)


def threads_per_rank(comm: Comm) -> int:
    """This process's cores, divided among the ranks that may run on the same ones."""
    if hasattr(os, "sched_getaffinity"):
        cores = sorted(os.sched_getaffinity(0))
    else:
        cores = list(range(os.cpu_count() or 1))
    place = [socket.gethostname(), cores]
    return max(1, available_cores() // gather_facts(comm, place).count(place))
