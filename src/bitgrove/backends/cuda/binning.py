"""Values to bins on the GPU, from columns on the host or on the device.

Receives columns (views of one table, or each on its own) of values, or of bins already (uint8), and
a BinMapper; returns a CudaMatrix. Device columns are read where they are; host columns are sent
block by block, and a block is binned while the next ones are under way. Rows that shall lie on the
host are binned on the device, part by part, and copied back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.backends.cuda.device import Device, blocks_of
from bitgrove.backends.cuda.edges import device_columns
from bitgrove.backends.cuda.matrix import CudaMatrix, Place
from bitgrove.backends.cuda.memory import address_of, pinned_bytes
from bitgrove.backends.cuda.transfer import BLOCK_BYTES, Sender, rectangles
from bitgrove.data.binning import BinMapper
from bitgrove.kernels.plans import DEVICE_COLUMN, Records

_BIN_ROWS: int = _core.constants["BIN_ROWS"]
_MOST_FEATURES = 65535  # the limit of a grid's second axis
_PART_BYTES = 64 << 20  # of bins on their way to the host
_TILE = 32  # features, and most bytes of a row


class Binner:
    """Fills places with the bins of one mapper; missing: the features that had missing values."""

    def __init__(self, mapper: BinMapper, device: Device, sender: Sender) -> None:
        self._device, self._sender = device, sender
        self._edges = tuple(map(device.memory.upload, (mapper.edge_values, mapper.edge_offset)))
        self.n_features = mapper.n_features
        self.missing = device.memory.zeros(self.n_features, np.int32)

    def fill(self, columns: Sequence[Any], place: Place) -> None:
        """The place is on the device, and its tiles are zeros."""
        on_host: list[int] = []
        here: dict[Any, list[int]] = {}
        for f, column in enumerate(columns):
            is_host = isinstance(column, np.ndarray)
            (on_host if is_host else here.setdefault(column.dtype, [])).append(f)
        for dtype, features in here.items():
            if features:
                everything = slice(0, place.n_rows)
                self._run(place, device_columns(columns, features), dtype, everything)
        if on_host:
            room = self._device.memory.empty(BLOCK_BYTES, np.uint8)
            for part in rectangles([columns[f] for f in on_host]):
                for block in self._sender.blocks(part.table, address_of(room), one_room=True):
                    sources, rows = part.columns(block)
                    sources["feature"] = np.array(on_host)[sources["feature"]]
                    self._run(place, sources, part.table.dtype, rows)

    def _run(self, place: Place, sources: Records, dtype: Any, rows: slice) -> None:
        """Bins the values of some columns, which are those of the given rows."""
        device, n = self._device, rows.stop - rows.start
        edges = map(address_of, self._edges)
        out = (address_of(place.tiles), place.n_rows, self.n_features, address_of(self.missing))
        how = (n, rows.start, *edges, *out)
        (sources_at,) = device.mailbox.send(sources)
        for first in range(0, len(sources), _MOST_FEATURES):
            grid = (-(-n // _BIN_ROWS), min(len(sources) - first, _MOST_FEATURES))
            at = sources_at + first * DEVICE_COLUMN.itemsize
            device.launch("binning", f"bin_{np.dtype(dtype).name}", grid, at, *how)


def bin_on_device(
    columns: Sequence[Any], mapper: BinMapper, n_here: int, device: Device, sender: Sender
) -> CudaMatrix:
    """The first n_here rows on the device, the others on the host."""
    n_rows, binner = len(columns[0]), Binner(mapper, device, sender)
    here, there = Place(n_here), Place(n_rows - n_here)
    here.tiles = device.memory.zeros(_core.tile_bytes(n_here, len(columns)), np.uint8)
    binner.fill([column[:n_here] for column in columns], here)
    if there.n_rows:
        _fill_on_host(binner, [column[n_here:] for column in columns], there, device)
    missing = np.asarray(binner.missing.get() != 0).astype(np.uint8)
    return CudaMatrix(n_rows, mapper, missing, here, there)


def _fill_on_host(binner: Binner, columns: Sequence[Any], there: Place, device: Device) -> None:
    n_features = len(columns)
    there.tiles = pinned_bytes(device.cupy, _core.tile_bytes(there.n_rows, n_features))
    for rows in _parts(there.n_rows, n_features):
        part = Place(rows.stop - rows.start)
        part.tiles = device.memory.zeros(_core.tile_bytes(part.n_rows, n_features), np.uint8)
        binner.fill([column[rows] for column in columns], part)
        for first in range(0, n_features, _TILE):  # a tile after the other
            step = _core.tile_bytes(1, min(_TILE, n_features - first))
            to = address_of(there.tiles, first * there.n_rows + rows.start * step)
            device.stream.download(
                to, address_of(part.tiles, first * part.n_rows), part.n_rows * step
            )


def add_columns(matrix: CudaMatrix, room: int, device: Device) -> None:
    """Columns beside the tiles: on the device if they have room there, and on the host."""
    n_features, here, there = matrix.mapper.n_features, matrix.here, matrix.there
    if here.columns is None and here.n_rows * n_features <= room:
        columns = device.memory.empty((n_features, here.n_rows), np.uint8)
        _take_columns(here, slice(0, here.n_rows), columns, device)
        here = replace(here, columns=columns)
    if there.columns is None and there.n_rows:
        there = replace(there, columns=_columns_on_host(there, n_features, device))
    matrix.place(here, there)


def _columns_on_host(place: Place, n_features: int, device: Device) -> NDArray[np.uint8]:
    columns = pinned_bytes(device.cupy, n_features * place.n_rows)
    for rows in _parts(place.n_rows, n_features):
        n = rows.stop - rows.start
        part = device.memory.empty((n_features, n), np.uint8)
        _take_columns(place, rows, part, device)
        for f in range(n_features):
            to = address_of(columns, f * place.n_rows + rows.start)
            device.stream.download(to, address_of(part, f * n), n)
    return columns.reshape(n_features, place.n_rows)


def _take_columns(place: Place, rows: slice, columns: Any, device: Device) -> None:
    n_features, n = columns.shape
    source = (address_of(place.tiles), place.n_rows, n_features, rows.start, n)
    grid = (blocks_of(n), -(-n_features // _TILE))
    device.launch("binning", "columns_of_tiles", grid, *source, address_of(columns))


def _parts(n_rows: int, n_features: int) -> Iterator[slice]:
    """Rows that go to the host together."""
    step = max(1, _PART_BYTES // _core.tile_bytes(1, n_features))
    for first in range(0, n_rows, step):
        yield slice(first, min(first + step, n_rows))
