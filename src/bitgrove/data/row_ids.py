"""Global row ids: what rounding noise and samples are drawn by, so that no rank count changes them.

Owns the numbering. A rank's rows are one run of ids, or several when its shard was joined from
pieces that are not neighbours in the whole table (partitions of a Dask collection).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.errors import DataError, everywhere

if TYPE_CHECKING:
    from bitgrove.distributed.comm import Comm


class RowRun(NamedTuple):
    """The local rows [begin, end) have the ids first, first + 1, ..."""

    begin: int
    end: int
    first: int

    @property
    def rows(self) -> slice:
        return slice(self.begin, self.end)


RowRuns = Sequence[RowRun]


def one_run(n_rows: int, first: int = 0) -> RowRuns:
    return [RowRun(0, n_rows, first)]


def number_rows(
    comm: Comm, n_rows: int, pieces: Sequence[tuple[int, int]] | None
) -> tuple[RowRuns, int]:
    """(the runs of this rank's rows, rows on all ranks).

    pieces: (position in the whole table, number of rows) of each piece of the shard, in row order;
    None: the shard is one piece, at the position of its rank.
    """
    mine = [(comm.rank, n_rows)] if pieces is None else pieces
    mine = [(position, size) for position, size in mine if size]  # an empty piece takes no position
    everyone = np.concatenate(comm.allgather(np.array(mine, dtype=np.int64).ravel())).reshape(-1, 2)
    everyone = everyone[np.argsort(everyone[:, 0], kind="stable")]
    _check_positions(everyone[:, 0])
    starts = np.cumsum(everyone[:, 1]) - everyone[:, 1]
    first_id = dict(zip(everyone[:, 0].tolist(), starts.tolist(), strict=True))
    runs: list[RowRun] = []
    begin = 0
    for position, size in mine:
        run = RowRun(begin, begin + size, first_id[position])
        if runs and run.first - runs[-1].first == run.begin - runs[-1].begin:
            runs[-1] = RowRun(runs[-1].begin, run.end, runs[-1].first)  # neighbours
        else:
            runs.append(run)
        begin += size
    return runs or one_run(0), int(everyone[:, 1].sum())


def _check_positions(positions: NDArray[np.int64]) -> None:
    """Two pieces at one place would share ids: their rows would be rounded with the same noise."""
    taken_twice = positions[1:][positions[1:] == positions[:-1]]
    if len(taken_twice):
        raise everywhere(DataError, f"two pieces of the table have position {taken_twice[0]}")


def row_ids(runs: RowRuns) -> NDArray[np.uint64]:
    """The id of every row."""
    ids = [np.arange(r.first, r.first + r.end - r.begin, dtype=np.uint64) for r in runs]
    return np.concatenate([np.zeros(0, dtype=np.uint64), *ids])
