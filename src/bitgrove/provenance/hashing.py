"""The columns of a Dataset, shown to a RowHasher: from the GPU, too, and codes of categories.

Owns Fingerprinted, the method `fingerprint` of Datasets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.data.device_tables import on_host, take_rows
from bitgrove.data.levels import Levels, code_numbers
from bitgrove.provenance.fingerprint import RowHasher

if TYPE_CHECKING:
    from bitgrove.data.row_ids import RowRuns
    from bitgrove.distributed.comm import Comm

ROWS = "rows"  # where a Dataset keeps the fingerprint of its rows, beside their bins
_SENT_ROWS = 1 << 18  # of a GPU's table that are on the host at a time


class Fingerprinted:
    """A table that can be told from others by the values of its rows."""

    columns: list[Any]
    levels: dict[int, Levels]
    edges: Mapping[int, NDArray[np.float64]]
    binned: dict[Any, Any]

    def fingerprint(self, runs: RowRuns, comm: Comm, n_threads: int) -> str:
        """The sha256 of the values of all ranks' rows; kept beside their bins, but not a shard's.

        runs: the ids of this rank's rows. It is defined in docs/verification.md.
        """
        kept = self.binned if comm.size == 1 else {}
        if ROWS not in kept:
            hasher = self._row_hasher(runs, n_threads)
            kept[ROWS] = hasher.finish(comm, self.levels, self.edges)
        return str(kept[ROWS])

    def _row_hasher(self, runs: RowRuns, n_threads: int) -> RowHasher:
        """It has seen all rows: of categories the codes, of bins their numbers."""
        hasher = RowHasher(len(self.columns), n_threads)
        is_here = all(isinstance(column, np.ndarray) for column in self.columns)
        for run in runs:
            step = max(run.end - run.begin, 1) if is_here else _SENT_ROWS
            for begin in range(run.begin, run.end, step):
                rows = slice(begin, min(begin + step, run.end))
                values = [on_host(take_rows(column, rows)) for column in self.columns]
                for f, levels in self.levels.items():
                    values[f] = code_numbers(values[f], levels)
                hasher.add(values, run.first + begin - run.begin)
        return hasher
