"""Bins of tables that are sparse, or of which some columns are, in host memory.

Receives columns, some of them of a SparseTable, and a BinMapper; returns lists of the stored values
and dense columns of the rest, or dense columns of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.data.binned.host import BinWriter, empty_bins
from bitgrove.data.binning import BinMapper
from bitgrove.data.sparse.tables import SparseColumn, require_room, table_of

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
    columns: Sequence[Any], mapper: BinMapper, n_threads: int, share: float = _DENSE_SHARE
) -> SparseBinned:
    """share: of rows that are not zero for a feature to become a dense column."""
    table = table_of(columns)
    assert table is not None
    feature_of = np.full(table.n_columns, -1, dtype=np.int32)
    given: list[int] = []
    for f, column in enumerate(columns):
        if isinstance(column, SparseColumn):
            feature_of[column.index] = f
        else:
            given.append(f)
    used = np.flatnonzero(feature_of >= 0)
    filled = feature_of[used[table.filled[used] >= share * table.n_rows]]
    dense = np.concatenate([np.array(given, dtype=np.int64), np.sort(filled)])
    column_of = np.full(len(columns), -1, dtype=np.int32)
    column_of[dense] = np.arange(len(dense))
    bins = empty_bins(len(dense), table.n_rows)
    missing = np.zeros(len(columns), dtype=np.uint8)
    if given:
        writer = BinWriter.of(mapper.part(given), bins[: len(given)], n_threads)
        writer.write([columns[f] for f in given])
        missing[given] = writer.missing
    edges = (mapper.edge_values, mapper.edge_offset)
    lists = _core.SparseBins(table.core, feature_of, column_of, *edges, bins, missing, n_threads)
    return SparseBinned(bins, column_of, lists, missing)


def with_dense_bins(columns: Sequence[Any], mapper: BinMapper, n_threads: int) -> Sequence[Any]:
    """The columns with bins (uint8) in place of those that are sparse, for a backend without
    lists."""
    table = table_of(columns)
    if table is None:
        return columns
    require_room(table.n_rows, len(columns), 1)
    only = [i for i, column in enumerate(columns) if isinstance(column, SparseColumn)]
    binned = bin_sparse([columns[i] for i in only], mapper.part(only), n_threads, share=0.0)
    found = list(columns)
    for f, bins in zip(only, binned.columns, strict=True):
        found[f] = bins[: table.n_rows]
    return found
