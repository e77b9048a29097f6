"""The sample of rows that edges are found from, taken while the rows come by.

Owns RowSample: the very rows that data/binning.py takes of a table in memory, chosen by the hash of
their ids. How many rows will come need not be known: the limit of the hashes falls as they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.arithmetic.exact_math import row_hash
from bitgrove.data.binning import sample_key, sample_limit

Rows = NDArray[np.int64]
_NOTHING = np.zeros(0)


class Draw(NamedTuple):
    """size: rows of the sample, about; first: the id of this rank's first row."""

    seed: int
    size: int
    first: int = 0


class RowSample:
    """rows: the numbers of those that are kept; columns: their values."""

    def __init__(self, draw: Draw, n_total: int | None = None) -> None:
        """n_total: rows of all ranks, where that is known."""
        self.draw, self._n_total = draw, n_total
        self._key = sample_key(draw.seed)
        self.n_rows = 0  # that came by
        self.rows: Rows = np.zeros(0, dtype=np.int64)
        self.columns: list[NDArray[Any]] = []
        self._parts: list[tuple[Rows, list[NDArray[Any]]]] = []

    def add(self, columns: Sequence[NDArray[Any]]) -> None:
        """Looks at the next rows."""
        begin, n = self.n_rows, len(columns[0])
        self.n_rows += n
        limit = self._limit(self.n_rows if self._n_total is None else self._n_total)
        if limit is None:
            rows = np.arange(n, dtype=np.int32)
        else:
            rows = np.empty(n, dtype=np.int32)
            first = self.draw.first + begin
            rows = rows[: _core.select_rows(self._key, first, limit, rows)]
        self._parts.append((rows.astype(np.int64) + begin, [column[rows] for column in columns]))
        if sum(len(part[0]) for part in self._parts) > 2 * self.draw.size:
            self._settle(limit)

    def finish(self, n_total: int, n_columns: int) -> RowSample:
        """All rows came by, so many of all ranks."""
        if self._parts or len(self.rows):
            self._settle(self._limit(n_total))
        self.columns = self.columns or [np.zeros(0) for _ in range(n_columns)]
        return self

    def serves(self, draw: Draw, n_total: int) -> bool:
        """Whether these are the rows that another draw, of so many rows of all ranks, takes."""
        if sample_limit(draw.size, n_total) is None:
            return len(self.rows) == self.n_rows
        return draw == self.draw

    def without(self, features: set[int]) -> None:
        """Forgets the values of these columns."""
        empty = np.zeros(0, dtype=np.float32)
        self.columns = [empty if f in features else c for f, c in enumerate(self.columns)]

    def _limit(self, n_total: int) -> int | None:
        return sample_limit(self.draw.size, n_total)

    def _settle(self, limit: int | None) -> None:
        """One array for each column, of the rows that are still in."""
        if len(self.rows) or self.columns:
            self._parts.insert(0, (self.rows, self.columns))
        rows = np.concatenate([part[0] for part in self._parts])
        chosen: Any = slice(None)
        if limit is not None:
            ids = rows.astype(np.uint64) + np.uint64(self.draw.first)
            chosen = row_hash(self._key, ids) < np.uint64(limit)
        values, self.columns = [part[1] for part in self._parts], []
        for f in range(len(values[0])):  # one after the other: only one is there twice
            self.columns.append(np.concatenate([columns[f] for columns in values])[chosen])
            for columns in values:
                columns[f] = _NOTHING
        self.rows, self._parts = rows[chosen], []
