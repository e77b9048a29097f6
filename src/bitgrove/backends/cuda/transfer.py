"""Tables of the host on their way to a GPU: through pinned buffers, filled by all threads.

Owns the rectangles of memory that columns lie in (a row-major table, a column-major one, a column
on its own) and Sender, which copies a rectangle block by block: while one block travels, the next
one is copied into another buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.backends.cuda.device import Device
from bitgrove.backends.cuda.memory import PinnedMemory, address_of
from bitgrove.kernels.plans import DEVICE_COLUMN, Records, records

Array = NDArray[Any]
BLOCK_BYTES = 8 << 20  # of a table that travel together
_BUFFERS = 3
# A row-major rectangle is sent whole if at least this part of it is wanted.
_LEAST_WANTED = 0.5


class Block(NamedTuple):
    """A part of a rectangle on the device: its values follow each other from the address on."""

    address: int
    lines: slice  # of the rectangle's first axis
    values: slice  # of its second

    @property
    def width(self) -> int:
        return int(self.values.stop - self.values.start)


class Rectangle(NamedTuple):
    """Columns that lie in one piece of host memory.

    table: a view of two axes, the second contiguous. by_rows: its lines are rows, and feature
    features[i] is at places[i] of each; else its lines are the features themselves. owners: the
    columns, whose memory it is.
    """

    table: Array
    features: list[int]
    places: list[int]
    by_rows: bool
    owners: list[Array]

    def columns(self, block: Block) -> tuple[Records, slice]:
        """The features that a block holds, as the kernels read them, and of which rows."""
        item = self.table.itemsize
        if self.by_rows:
            addresses = block.address + item * np.array(self.places)
            found = {"address": addresses, "stride": block.width, "feature": self.features}
            return records(DEVICE_COLUMN, len(self.features), **found), block.lines
        features = self.features[block.lines]
        addresses = block.address + item * block.width * np.arange(len(features))
        found = {"address": addresses, "stride": 1, "feature": features}
        return records(DEVICE_COLUMN, len(features), **found), block.values


def rectangles(columns: Sequence[Array]) -> list[Rectangle]:
    """The pieces of memory that host columns of one length lie in."""
    in_rows: dict[tuple[Any, int], list[int]] = {}
    alone: dict[Any, list[int]] = {}
    kept = [_readable(column) for column in columns]
    for f, column in enumerate(kept):
        if len(column) > 1 and column.strides[0] > column.itemsize:
            in_rows.setdefault((column.dtype, column.strides[0]), []).append(f)
        else:
            alone.setdefault(column.dtype, []).append(f)
    found = []
    for features in in_rows.values():
        for group in _groups(kept, features):
            rectangle = _row_major(kept, group)
            if rectangle is None:
                for f in group:
                    kept[f] = np.ascontiguousarray(kept[f])
                    alone.setdefault(kept[f].dtype, []).append(f)
            else:
                found.append(rectangle)
    for features in alone.values():
        found += _column_major(kept, features)
    return found


def _readable(column: Array) -> Array:
    """Rows ahead of each other by whole values; a copy where they are not."""
    step = column.strides[0]
    return column if step > 0 and step % column.itemsize == 0 else np.ascontiguousarray(column)


def _address(column: Array) -> int:
    return int(column.__array_interface__["data"][0])


def _groups(columns: list[Array], features: list[int]) -> Iterator[list[int]]:
    """Features of one stride whose first values lie within one row."""
    ordered = sorted(features, key=lambda f: _address(columns[f]))
    group = ordered[:1]
    for f in ordered[1:]:
        end = _address(columns[f]) + columns[f].itemsize
        if end - _address(columns[group[0]]) <= columns[f].strides[0]:
            group.append(f)
        else:
            yield group
            group = [f]
    yield group


def _row_major(columns: list[Array], group: list[int]) -> Rectangle | None:
    """The rows from the group's first column to its last; None if too little of them is wanted."""
    first = columns[group[0]]
    places = [(_address(columns[f]) - _address(first)) // first.itemsize for f in group]
    width = places[-1] + 1
    too_wide = width == 1 or width * first.itemsize > BLOCK_BYTES
    if too_wide or len(set(places)) < _LEAST_WANTED * width:
        return None
    strides = (first.strides[0], first.itemsize)
    table = np.lib.stride_tricks.as_strided(first, (len(first), width), strides, writeable=False)
    return Rectangle(table, group, places, True, [columns[f] for f in group])


def _column_major(columns: list[Array], features: list[int]) -> Iterator[Rectangle]:
    """Contiguous columns, together where they are equally far from each other."""
    ordered = sorted(features, key=lambda f: _address(columns[f]))
    starts = [_address(columns[f]) for f in ordered]
    begin = 0
    while begin < len(ordered):
        first, end, step = columns[ordered[begin]], begin + 1, 0
        if end < len(ordered) and starts[end] - starts[begin] >= first.nbytes > 0:
            step = starts[end] - starts[begin]
            while end < len(ordered) and starts[end] - starts[end - 1] == step:
                end += 1
        shape, strides = (end - begin, len(first)), (step or first.nbytes, first.itemsize)
        table = np.lib.stride_tricks.as_strided(first, shape, strides, writeable=False)
        features = ordered[begin:end]
        places, owners = list(range(end - begin)), [columns[f] for f in features]
        yield Rectangle(table, features, places, False, owners)
        begin = end


class Sender:
    """Copies rectangles to a device, by so many threads of the host."""

    def __init__(self, device: Device, n_threads: int) -> None:
        self._device, self._n_threads = device, n_threads
        cuda = device.cupy.cuda
        # Pinned memory, and the event after its last use.
        self._buffers = [
            (PinnedMemory(device.cupy), cuda.Event(disable_timing=True)) for _ in range(_BUFFERS)
        ]
        self._turn = 0

    def blocks(self, table: Array, to: int, one_room: bool = False) -> Iterator[Block]:
        """Sends a table of the host; every block is under way when it is handed out.

        to: a device address with room for the table; with one_room for a block, which the next one
        overwrites after the work on it that was launched meanwhile.
        """
        n_lines, width = table.shape
        item = table.itemsize
        n_lines_each = max(1, BLOCK_BYTES // max(1, width * item))
        n_values_each = min(width, BLOCK_BYTES // item)
        for line in range(0, n_lines, n_lines_each):
            lines = slice(line, min(line + n_lines_each, n_lines))
            for value in range(0, width, max(1, n_values_each)):
                values = slice(value, min(value + n_values_each, width))
                address = to if one_room else to + item * (line * width + value)
                self._send(table[lines, values], address)
                yield Block(address, lines, values)

    def _send(self, part: Array, address: int) -> None:
        n_bytes = part.size * part.itemsize
        if n_bytes == 0:
            return
        pinned, event = self._buffers[self._turn]
        self._turn = (self._turn + 1) % _BUFFERS
        event.synchronize()
        at = pinned.at_least(1 << (n_bytes - 1).bit_length())
        _core.copy_rows(part, at, self._n_threads)
        self._device.stream.upload(address, at, n_bytes)
        event.record(self._device.cupy.cuda.Stream.null)

    def table(self, table: Array) -> Any:
        """A host table, its second axis contiguous, as a CuPy array that is on its way."""
        sent = self._device.memory.empty(table.shape, table.dtype)
        for _ in self.blocks(table, address_of(sent)):
            pass
        return sent

    def columns(self, columns: Sequence[Array]) -> list[Any]:
        """Host columns as CuPy arrays, views of tables that lie on the device as on the host."""
        found: list[Any] = [None] * len(columns)
        for part in rectangles(columns):
            table = self.table(part.table)
            for f, place in zip(part.features, part.places, strict=True):
                found[f] = table[:, place] if part.by_rows else table[place]
        return found
