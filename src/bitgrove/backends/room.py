"""Memory of a training: what it takes at least, and whether all ranks of a place have it together.

Owns Needs and share_room. Counted is what every training of this shape takes, so that none that
fits is refused: bins, tiles, what belongs to rows, two histograms. More histograms get a part of
what is left over. Features that could share their bytes of a tile are not counted there: how many
do is known only when they do.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bitgrove import _core
from bitgrove.backends.base import Backend
from bitgrove.data.binning import CHUNK_BYTES
from bitgrove.data.dataset import Dataset
from bitgrove.data.device_tables import on_host
from bitgrove.data.sparse.tables import SparseTable, table_of
from bitgrove.distributed.comm import Comm
from bitgrove.errors import everywhere
from bitgrove.params import TrainParams
from bitgrove.provenance.fingerprint import block_rows

# Of a sparse table: at least; and a part of what its bins take. More saves little time.
_SPARSE_POOL_MB, _SPARSE_POOL_PART = 16, 3
_LOOK_ROWS = 1024
_SHARES_NO_BYTE = 128  # values above which a feature has a byte of the tiles for itself
_SLOTS = 2  # without which no tree grows
_VALUES_PER_BIN = 2  # cpp/sparse/sparse_bins.h: with fewer, splits are found without slots
# cpp/data/edges.cpp: features whose values are sorted at once.
_EDGE_FEATURES = 64
_IN_TRANSIT = 24  # bytes of a value whose edges other ranks find: sent, received, sorted
_EDGE = 8  # of a bin
_PIECE = 24  # of a value in the last rows, which are no whole block of the fingerprint
_STATISTICS = 36  # of a row, while levels become statistics: block, level, group, sums


class Look(NamedTuple):
    """What is known of bins before there are any: bytes of a row of the tiles, bins together."""

    n_apart: int
    n_bins: int
    in_slots: bool = True  # whether histograms have all of them


class Needs(NamedTuple):
    """Of one rank. n_statistics: categories that become numbers, one for each output.

    n_kept: those among them that stay codes as well.
    """

    train: Dataset
    valid: Sequence[Dataset]
    n_outputs: int
    n_statistics: int
    params: TrainParams
    n_ranks: int = 1
    tile_bytes: Callable[[int, int], int] = _core.tile_bytes  # of rows and columns, on the backend
    has_bins: bool = True  # else they, and values that are sorted, can lie elsewhere
    n_kept: int = 0

    def most(self) -> int:
        """Bytes where every feature has all of its bins."""
        n_columns = self._n_columns
        n_bins = n_columns * min(self.params.max_bin + 1, self.train.n_rows + 1)
        return self._bytes(Look(0 if table_of(self.train.columns) else n_columns, n_bins))

    def least(self, shares_bytes: bool, spills_bins: bool = False) -> int:
        """Bytes that are certain, after a look at some rows."""
        look = _look_at(self.train, self.params.max_bin)
        if (table := table_of(self.train.columns)) is not None and self.n_ranks == 1:
            look = look._replace(in_slots=table.n_values >= _VALUES_PER_BIN * look.n_bins)
        if spills_bins:
            return self._replace(has_bins=False)._bytes(look._replace(n_apart=0))
        return self._bytes(look if shares_bytes else look._replace(n_apart=self._n_columns))

    @property
    def _n_columns(self) -> int:
        return self.train.n_features + self.n_statistics * (self.n_outputs - 1) + self.n_kept

    def _bytes(self, look: Look) -> int:
        """At the stage that takes most: edges, statistics, fingerprints, or trees."""
        n_rows, scores = self.train.n_rows, 8 * self.n_outputs
        full = self.params.gradient_bits is None
        trees = n_rows * (scores + (8 if full else 2) + 8)
        trees += _SLOTS * look.n_bins * (8 << full) if look.in_slots else 0
        trees += sum(self._bins_of(other) + scores * other.n_rows for other in self.valid)
        stages, kept = [max(trees, self._piece_bytes())], 0
        if self.has_bins and not self.train.binned:
            kept = self._bins_of(self.train) + _EDGE * look.n_bins
            kept += self.tile_bytes(n_rows, look.n_apart) if look.n_apart else 0
            stages.append(self._edge_bytes() - kept)
        if self.n_statistics:
            columns = scores * self.n_statistics
            stages.append(n_rows * (scores + columns + _STATISTICS) - kept)
        return n_rows * scores + kept + max(stages)

    def _edge_bytes(self) -> int:
        """Values that are sorted at once, or are on their way to the ranks that sort them."""
        rows = self.train
        if rows.edges or rows.device != "cpu" or table_of(rows.columns) is not None:
            return 0
        widths = [getattr(c, "dtype", np.dtype(np.float32)).itemsize for c in rows.columns]
        known = [0 if f in rows.levels else 4 if w == 4 else 8 for f, w in enumerate(widths)]
        sampled = min(rows.n_rows, self.params.bin_sample_rows // self.n_ranks)
        if self.n_ranks == 1:
            return sampled * sum(sorted(known)[-_EDGE_FEATURES:])
        most = self.n_ranks * max(1, CHUNK_BYTES // (8 * max(1, sampled)))
        return sampled * (sum(known) + _IN_TRANSIT * min(len(known), most))

    def _piece_bytes(self) -> int:
        rows = self.train
        if rows.edges or rows.device != "cpu" or table_of(rows.columns) is not None:
            return 0
        return _PIECE * (rows.n_rows % block_rows(rows.n_features)) * rows.n_features

    def _bins_of(self, dataset: Dataset) -> int:
        if dataset.edges or dataset.binned or not self.has_bins:  # they are there, or elsewhere
            return 0
        return dataset.n_bin_bytes() + dataset.n_rows * (self._n_columns - dataset.n_features)


def _look_at(dataset: Dataset, max_bin: int) -> Look:
    if (table := table_of(dataset.columns)) is not None:
        return Look(0, _sparse_bins(table, max_bin))
    step, apart, n_bins = max(1, dataset.n_rows // _LOOK_ROWS), set(), 0
    for column in dataset.columns:
        if not hasattr(column, "dtype"):  # of a stream
            continue
        values, order = np.unique(on_host(column[::step][:_LOOK_ROWS]), return_inverse=True)
        n_bins += min(len(values), max_bin)
        if len(values) > _SHARES_NO_BYTE:
            apart.add(order.tobytes())  # columns of one order share their bytes, too
    return Look(len(apart), n_bins)


def _sparse_bins(table: SparseTable, max_bin: int) -> int:
    """Bins of columns whose stored values differ as much as some of them do; a tenth less."""
    some: Any = table.matrix.data[:: max(1, table.n_values // _LOOK_ROWS)]
    differing = len(np.unique(some)) / max(len(some), 1)
    return int(0.9 * differing * np.minimum(table.survey.filled, max_bin).sum())


def default_pool_mb(backend: Backend, dataset: Dataset) -> int:
    """Of a sparse table, histograms may have as many bins as it has values."""
    if table_of(dataset.columns) is None:
        return backend.pool_mb
    part = (dataset.n_bin_bytes() >> 20) // _SPARSE_POOL_PART
    return min(backend.pool_mb, max(_SPARSE_POOL_MB, part))


def share_room(backend: Backend, needs: Needs, comm: Comm) -> int:
    """MiB for histograms, the same on all ranks: others would plan other messages.

    The backend's error, before anything is allocated, where a rank or a place has too little: else
    the system would end a process when it writes to what it was given.
    """
    room, given = backend.room(), needs.params.histogram_pool_mb
    wanted = given or default_pool_mb(backend, needs.train)
    n_bytes, free = needs.most(), room.free
    if free is not None and comm.size * n_bytes + 2 * (wanted << 20) > free:
        n_bytes = needs.least(backend.shares_bytes, backend.spills_bins)
    if free is not None and n_bytes > free:
        raise room.error(_text(needs, n_bytes, free))
    own = -1 if room.own is None else room.own - n_bytes
    shared = -1 if room.shared is None else room.shared
    facts = np.array([wanted, n_bytes, own, shared, zlib.crc32(room.place.encode())])
    pools = [wanted]
    everyone = np.concatenate(comm.allgather(facts, equal=True)).reshape(comm.size, -1)
    for place in np.unique(everyone[:, -1]):
        here = everyone[everyone[:, -1] == place]
        together, most = int(here[:, 1].sum()), int(here[:, 3].max())
        if 0 <= most < together:
            ranks = f"the {len(here)} ranks of one place need"
            raise everywhere(room.error, f"{ranks} at least {_left(together, most)}")
        spare = [s for s in here[:, 2] if s >= 0] + [(most - together) // len(here)] * (most >= 0)
        pools += [int(here[:, 0].min()), *(max(1, int(s) >> 21) for s in spare if not given)]
    return min(pools)


def _text(needs: Needs, n_bytes: int, free: int) -> str:
    rows, n_outputs = needs.train, needs.n_outputs
    return (
        f"{rows.n_rows} rows of {rows.n_features} features with {n_outputs} outputs need at least "
        f"{_left(n_bytes, free)}"
    )


def _left(needed: int, free: int) -> str:
    return f"{needed / 1e9:.3g} GB more, and {free / 1e9:.3g} GB are left"
