"""Edges of the columns of a sparse table: zeros are counted, not stored.

Receives a SparseTable, the sampled rows and a Comm; returns the edges that the same columns would
have as dense ones. Values travel column by column: each rank cuts some of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.data.sparse.tables import SparseTable
from bitgrove.distributed.comm import Comm, feature_block

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
# Values of all ranks that are looked at together.
_PART_VALUES = 1 << 21


class Values(NamedTuple):
    """Those of some columns that are not zero, column after column."""

    counts: I64  # of each column
    values: F64

    def slice(self, first: int, last: int) -> Values:
        ends = np.concatenate([[0], np.cumsum(self.counts)])
        return Values(self.counts[first:last], self.values[ends[first] : ends[last]])


def sparse_edges(
    table: SparseTable, rows: NDArray[np.int32] | None, max_bin: int, n_threads: int, comm: Comm
) -> list[F64]:
    """The edges of every column, from all rows (None) or the listed ones of each rank."""
    marks = None
    if rows is not None:
        marks = np.zeros(table.n_rows, dtype=np.uint8)
        marks[rows] = 1
    n_sampled = table.n_rows if rows is None else len(rows)
    n_all = int(comm.allreduce_sum(np.array([n_sampled], dtype=np.int64))[0])
    counts = table.core.count_values(marks, n_threads)
    edges: list[F64] = []
    for first, last in _parts(comm.allreduce_sum(counts)):
        mine = counts[first:last]
        part = Values(mine, table.core.gather_values(marks, first, mine, n_threads))
        edges += _shared(part, n_all, max_bin, n_threads, comm)
    return edges


def _parts(counts: I64) -> list[tuple[int, int]]:
    """Ranges of columns of about _PART_VALUES values."""
    ends = np.cumsum(counts)
    n_parts = int(ends[-1]) // _PART_VALUES + 1
    cuts = np.searchsorted(ends, ends[-1] * np.arange(1, n_parts) // n_parts)
    borders = np.unique(np.concatenate([[0], cuts, [len(counts)]])).tolist()
    return list(pairwise(borders))


def _shared(part: Values, n_rows: int, max_bin: int, n_threads: int, comm: Comm) -> list[F64]:
    if comm.size == 1:
        return _cut(part, n_rows, max_bin, n_threads)
    blocks = [feature_block(comm, len(part.counts), rank) for rank in range(comm.size)]
    wanted = [part.slice(*block) for block in blocks]
    counts = comm.alltoall([w.counts for w in wanted])
    values = comm.alltoall([w.values for w in wanted])
    mine = _merged([Values(*both) for both in zip(counts, values, strict=True)])
    found = _cut(mine, n_rows, max_bin, n_threads)
    sent = comm.allgather(np.array([len(e) for e in found], dtype=np.int64))
    joined = comm.allgather(np.concatenate([np.zeros(0), *found]))
    return [e for n, e in zip(sent, joined, strict=True) for e in _divided(e, n)]


def _merged(parts: Sequence[Values]) -> Values:
    """The values that ranks have of the same columns."""
    owner = np.concatenate([np.repeat(np.arange(len(p.counts)), p.counts) for p in parts])
    order = np.argsort(owner, kind="stable")
    counts = np.sum([p.counts for p in parts], axis=0)
    return Values(counts, np.concatenate([p.values for p in parts])[order])


def _cut(part: Values, n_rows: int, max_bin: int, n_threads: int) -> list[F64]:
    edges, n_edges = _core.cut_columns(part.counts, part.values, n_rows, max_bin, n_threads)
    return _divided(edges, n_edges)


def _divided(values: F64, counts: I64) -> list[F64]:
    ends = np.cumsum(counts).tolist()
    return [values[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
