"""Bins of tables that are sparse, or of which some columns are, in host memory.

Receives SparseColumns and a BinMapper; returns lists of the stored values and dense columns of the
rest, or dense columns of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.data.binned.host import BinWriter, empty_bins
from bitgrove.data.binning import BinMapper
from bitgrove.data.sparse.tables import SparseColumns, require_room

I32 = NDArray[np.int32]
# A column of a training set takes two bytes per row, a value in lists about six; and additions into
# dense columns are faster. The share of rows that are not zero from which on a feature becomes one.
_DENSE_SHARE = 0.2


class SparseBinned(NamedTuple):
    """column_of: of each feature its row in `columns`, -1 where it is in `lists`."""

    columns: NDArray[np.uint8]  # padded, as of host.empty_bins
    column_of: I32
    lists: _core.SparseBins
    missing: NDArray[np.uint8]


def bin_sparse(
    columns: SparseColumns, mapper: BinMapper, n_threads: int, share: float = _DENSE_SHARE
) -> SparseBinned:
    """share: of rows that are not zero for a feature to become a dense column."""
    table, own, given = columns.table, columns.sparse, sorted(columns.others)
    feature_of = np.full(table.n_columns, -1, dtype=np.int32)
    feature_of[columns.column_of[own]] = own
    filled = own[table.survey.filled[columns.column_of[own]] >= share * table.n_rows]
    dense = np.concatenate([np.array(given, dtype=np.int64), filled])
    column_of = np.full(len(columns), -1, dtype=np.int32)
    column_of[dense] = np.arange(len(dense))
    bins = empty_bins(len(dense), table.n_rows)
    missing = np.zeros(len(columns), dtype=np.uint8)
    missing[own] = table.survey.missing[columns.column_of[own]]
    if given:
        writer = BinWriter.of(mapper.part(given), bins[: len(given)], n_threads)
        writer.write([columns.others[f] for f in given])
        missing[given] = writer.missing
    edges = (mapper.edge_values, mapper.edge_offset)
    lists = _core.SparseBins(table.core, feature_of, column_of, *edges, bins, missing, n_threads)
    return SparseBinned(bins, column_of, lists, missing)


def with_dense_bins(columns: Sequence[Any], mapper: BinMapper, n_threads: int) -> Sequence[Any]:
    """The columns with bins (uint8) in place of those that are sparse, for a backend without
    lists."""
    if not isinstance(columns, SparseColumns):
        return columns
    table, own = columns.table, columns.sparse
    require_room(table.n_rows, len(columns), 1)
    alone = SparseColumns(table, columns.column_of[own], {})
    binned = bin_sparse(alone, mapper.part(own.tolist()), n_threads, share=0.0)
    found = dict(zip(own.tolist(), binned.columns, strict=True))
    return [
        found[f][: table.n_rows] if f in found else columns.others[f] for f in range(len(columns))
    ]
