"""Whole tables as bins in host memory: numbers by their edges, categories as their codes.

Receives Columns, or batches of them, and edges; returns columns of bins, rows of one padded array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.data.binned.host import BinWriter, empty_bins, find_edges
from bitgrove.data.binning import Known, fit_edges
from bitgrove.data.levels import missing_code, recoded
from bitgrove.data.row_ids import RowRuns
from bitgrove.data.tables import Columns
from bitgrove.distributed.comm import Comm
from bitgrove.machine.threads import resolve_threads

if TYPE_CHECKING:
    from bitgrove.params import TrainParams

Array = NDArray[Any]
F64 = NDArray[np.float64]
MAX_EDGES = 254  # of a feature: its bins, and the missing one, are bytes


class BinTable:
    """A table as bins: numbers by their edges; categories as their codes, which may be too wide.

    edges: of the columns of numbers; codes: unsigned, of all rows of the categories.
    """

    def __init__(
        self, edges: Mapping[int, F64], codes: Mapping[int, Array], n_rows: int, n_threads: int
    ) -> None:
        self._codes, self._n_rows = codes, n_rows
        any_bin = {f: np.arange(MAX_EDGES, dtype=np.float64) for f in codes}
        mapper = Known(edges=any_bin).mapper(edges)
        self._writer = BinWriter.of(mapper, empty_bins(mapper.n_features, n_rows), n_threads)
        self._unused = np.broadcast_to(np.uint8(0), (n_rows,))

    def write(self, columns: Sequence[Any], first_row: int = 0) -> None:
        """The next rows; what stands in the columns of categories is not looked at."""
        end = first_row + len(columns[0])
        values = list(columns)
        for f, codes in self._codes.items():
            values[f] = (codes if codes.dtype == np.uint8 else self._unused)[first_row:end]
        self._writer.write(values, first_row)

    def columns(self) -> list[Array]:
        """Rows of one padded array, but for the codes that are too wide."""
        wide = {f: codes for f, codes in self._codes.items() if codes.dtype != np.uint8}
        bins = enumerate(self._writer.bins)
        return [wide[f] if f in wide else column[: self._n_rows] for f, column in bins]


def number_edges(table: Columns, params: TrainParams, runs: RowRuns, comm: Comm) -> dict[int, F64]:
    """The edges of the columns that hold numbers."""
    find: Any = partial(find_edges, n_threads=resolve_threads(params.n_jobs))
    known = Known(dict.fromkeys(table.levels, 1))
    mapper = fit_edges(table.values, find, params, runs, comm, known)
    numbers = (f for f in range(len(table.values)) if f not in table.levels)
    return {f: mapper.edges_of(f) for f in numbers}


def as_bins(table: Columns, edges: Mapping[int, F64], n_jobs: int | None) -> Columns:
    """The same rows; the codes of categories are unsigned."""
    codes: dict[int, Array] = {}
    for f, levels in table.levels.items():
        every, missing = np.arange(len(levels)), missing_code(len(levels))
        codes[f] = recoded(table.values[f], every, np.min_scalar_type(missing), missing)
    bins = BinTable(edges, codes, len(table.values[0]), resolve_threads(n_jobs))
    bins.write(table.values)
    return Columns(bins.columns(), table.names, table.levels)
