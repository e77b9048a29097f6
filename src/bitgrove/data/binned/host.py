"""Bins in host memory, made by the core.

Receives columns (values, or bins already) and a BinMapper; returns edges, and bins in padded
columns, as the CPU backend keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.data.binning import BinMapper
from bitgrove.machine.simd import simd_level

F64 = NDArray[np.float64]
Bins = NDArray[np.uint8]
# The partition kernel gathers 32 bits at a time.
COLUMN_PADDING = 3


def find_edges(
    columns: Sequence[NDArray[Any]], rows: NDArray[np.int32] | None, max_bin: int, n_threads: int
) -> list[F64]:
    """At most max_bin - 1 increasing edges of each column, from all or the listed rows."""
    if not columns:
        return []
    how = (len(columns[0]), rows, max_bin, n_threads)
    found, n_edges = _core.find_edges(list(columns), *how)
    return [edges[:n] for edges, n in zip(found, n_edges, strict=True)]


def empty_bins(n_features: int, n_rows: int) -> Bins:
    """To be written to; the padding is zero."""
    bins = np.empty((n_features, n_rows + COLUMN_PADDING), dtype=np.uint8)
    bins[:, n_rows:] = 0
    return bins


class BinWriter(NamedTuple):
    """Writes bins by a mapper's edges; missing: whether each feature had a missing value."""

    mapper: BinMapper
    bins: Bins
    missing: NDArray[np.uint8]
    n_threads: int
    simd: int

    @staticmethod
    def of(mapper: BinMapper, bins: Bins, n_threads: int, simd: int | None = None) -> BinWriter:
        missing = np.zeros(mapper.n_features, dtype=np.uint8)
        return BinWriter(mapper, bins, missing, n_threads, simd_level() if simd is None else simd)

    def write(self, columns: Sequence[NDArray[Any]], first_row: int = 0) -> None:
        """The bins of the columns' values, from this row on."""
        edges = (self.mapper.edge_values, self.mapper.edge_offset)
        n_rows, how = len(columns[0]), (self.n_threads, self.simd, first_row)
        _core.bin_columns(list(columns), *edges, self.bins, self.missing, n_rows, *how)


def whole_bins(columns: Sequence[NDArray[Any]]) -> Bins | None:
    """The padded bins that the columns are the rows of, if they are: nothing is to be copied."""
    n_rows = len(columns[0])
    whole = columns[0].base
    shape = (len(columns), n_rows + COLUMN_PADDING)
    if not isinstance(whole, np.ndarray) or whole.shape != shape or whole.dtype != np.uint8:
        return None
    rows = zip(columns, whole, strict=True)
    return whole if all(_same_memory(column, row[:n_rows]) for column, row in rows) else None


def _same_memory(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return one.dtype == other.dtype and one.__array_interface__ == other.__array_interface__
