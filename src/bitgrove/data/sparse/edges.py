"""Edges of the columns of a sparse table: zeros are counted, not stored.

Receives a SparseTable, the sampled rows and a Comm; returns the edges that the same columns would
have as dense ones, in one array. Values travel column by column: each rank cuts some of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.data.sparse.tables import SparseTable
from bitgrove.distributed.comm import Comm, feature_block

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
# Values of all ranks that are looked at together.
_PART_VALUES = 1 << 20


class Values(NamedTuple):
    """Those of some columns that are not zero, or their edges: column after column."""

    counts: I64  # of each column
    values: F64

    def slice(self, first: int, last: int) -> Values:
        ends = np.concatenate([[0], np.cumsum(self.counts)])
        return Values(self.counts[first:last], self.values[ends[first] : ends[last]])

    def take(self, columns: NDArray[Any]) -> Values:
        """Those of the listed columns."""
        if np.array_equal(columns, np.arange(len(self.counts))):
            return self
        begins, counts = np.cumsum(self.counts) - self.counts, self.counts[columns]
        return Values(counts, self.values[_ranges(begins[columns], counts)])

    @staticmethod
    def joined(parts: Sequence[Values]) -> Values:
        """The columns of all, one after the other."""
        return Values(*(np.concatenate(both) for both in zip(*parts, strict=True)))


def _ranges(begins: I64, counts: I64) -> I64:
    """counts[i] numbers from begins[i] on, for every i."""
    before = np.cumsum(counts) - counts
    return np.repeat(begins - before, counts) + np.arange(int(counts.sum()))


class TableEdges(NamedTuple):
    """Of those features that are columns of a sparse table."""

    features: I64
    edges: Values

    def among(self, others: Mapping[int, F64]) -> Values:
        """With those of all other features."""
        if not others:
            return self.edges
        counts = np.zeros(len(self.features) + len(others), dtype=np.int64)
        counts[self.features] = self.edges.counts
        counts[list(others)] = [len(edges) for edges in others.values()]
        values, begins = np.empty(int(counts.sum())), np.cumsum(counts) - counts
        values[_ranges(begins[self.features], self.edges.counts)] = self.edges.values
        for f, edges in others.items():
            values[begins[f] : begins[f] + len(edges)] = edges
        return Values(counts, values)


NO_TABLE_EDGES = TableEdges(np.zeros(0, np.int64), Values(np.zeros(0, np.int64), np.zeros(0)))


def sparse_edges(
    table: SparseTable, rows: NDArray[np.int32] | None, max_bin: int, n_threads: int, comm: Comm
) -> Values:
    """The edges of every column, from all rows (None) or the listed ones of each rank."""
    marks = None
    if rows is not None:
        marks = np.zeros(table.n_rows, dtype=np.uint8)
        marks[rows] = 1
    n_sampled = table.n_rows if rows is None else len(rows)
    n_all = int(comm.allreduce_sum(np.array([n_sampled], dtype=np.int64))[0])
    counts = table.survey.filled if marks is None else table.core.survey(marks, n_threads)[0]
    edges: list[Values] = []
    for first, last in _parts(comm.allreduce_sum(counts)):
        mine = counts[first:last]
        part = Values(mine, table.core.gather_values(marks, first, mine, n_threads))
        edges.append(_shared(part, n_all, max_bin, n_threads, comm))
    return Values.joined(edges)


def _parts(counts: I64) -> list[tuple[int, int]]:
    """Ranges of columns of about _PART_VALUES values."""
    ends = np.cumsum(counts)
    n_parts = int(ends[-1]) // _PART_VALUES + 1
    cuts = np.searchsorted(ends, ends[-1] * np.arange(1, n_parts) // n_parts)
    borders = np.unique(np.concatenate([[0], cuts, [len(counts)]])).tolist()
    return list(pairwise(borders))


def _shared(part: Values, n_rows: int, max_bin: int, n_threads: int, comm: Comm) -> Values:
    if comm.size == 1:
        return _cut(part, n_rows, max_bin, n_threads)
    blocks = [feature_block(comm, len(part.counts), rank) for rank in range(comm.size)]
    wanted = [part.slice(*block) for block in blocks]
    counts = comm.alltoall([w.counts for w in wanted])
    values = comm.alltoall([w.values for w in wanted])
    mine = _merged([Values(*both) for both in zip(counts, values, strict=True)])
    found = _cut(mine, n_rows, max_bin, n_threads)
    both = zip(comm.allgather(found.counts), comm.allgather(found.values), strict=True)
    return Values.joined([Values(*of_rank) for of_rank in both])


def _merged(parts: Sequence[Values]) -> Values:
    """The values that ranks have of the same columns."""
    owner = np.concatenate([np.repeat(np.arange(len(p.counts)), p.counts) for p in parts])
    order = np.argsort(owner, kind="stable")
    counts = np.sum([p.counts for p in parts], axis=0)
    return Values(counts, np.concatenate([p.values for p in parts])[order])


def _cut(part: Values, n_rows: int, max_bin: int, n_threads: int) -> Values:
    edges, n_edges = _core.cut_columns(part.counts, part.values, n_rows, max_bin, n_threads)
    return Values(n_edges, edges)
