"""Values to bins on the GPU, from columns on the host or on the device.

Receives columns (views of one table, or each on its own) and a BinMapper; fills the tiles and the
columns of a CudaMatrix. Host columns that are views of one row-major table are sent as blocks of
whole rows, others one by one; device columns are read where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.backends.cuda.device import Device
from bitgrove.data.binning import BinMapper

Array = NDArray[Any]
_BIN_ROWS: int = _core.constants["BIN_ROWS"]
_CHUNK_BYTES = 256 << 20


def bin_on_device(
    columns: Sequence[Any],
    mapper: BinMapper,
    tiles: Any,
    binned: Any,
    device: Device,
) -> NDArray[np.uint8]:
    """Fills tiles and binned; returns whether each feature has a missing value."""
    memory, (n_features, n_rows) = device.memory, binned.shape
    values, offset = memory.upload(mapper.edge_values), memory.upload(mapper.edge_offset)
    missing = memory.zeros(n_features, np.int32)
    edges = (values.data.ptr, offset.data.ptr)
    out = (tiles.data.ptr, binned.data.ptr, n_rows, n_features, n_rows, missing.data.ptr)

    def run(block: Any, strides: tuple[int, int], first_row: int, first_feature: int) -> None:
        """Bins a block of values on the device; strides of rows and features, in elements."""
        n, n_here = block.shape
        kernel = "bin_float64" if block.dtype == np.float64 else "bin_float32"
        where = (block.data.ptr, *strides, n, first_row, first_feature)
        grid = (-(-n // _BIN_ROWS), n_here)
        device.launch("binning", kernel, grid, *where, *edges, *out)

    table = _row_major_table(columns)
    if table is not None and n_features <= 65535:  # the limit of a grid's second axis
        step = max(1, _CHUNK_BYTES // (n_features * table.itemsize))
        for first in range(0, n_rows, step):
            block = memory.upload(np.ascontiguousarray(table[first : first + step]))
            run(block, (n_features, 1), first, 0)
    else:
        for feature, column in enumerate(columns):
            on_device = hasattr(column, "__cuda_array_interface__")
            block = column if on_device else memory.upload(np.ascontiguousarray(column))
            run(block[:, None], (block.strides[0] // block.itemsize, 0), 0, feature)
    return np.asarray(missing.get() != 0).astype(np.uint8)


def _row_major_table(columns: Sequence[Any]) -> Array | None:
    """The host table (n_rows, n_features) that these columns are views of, if there is one."""
    first = columns[0]
    if not all(isinstance(column, np.ndarray) for column in columns):
        return None
    places = [int(column.__array_interface__["data"][0]) for column in columns]
    width = len(columns) * first.itemsize
    in_rows = first.strides[0] >= width and all(
        column.dtype == first.dtype
        and column.strides == first.strides
        and place == places[0] + feature * first.itemsize
        for feature, (column, place) in enumerate(zip(columns, places, strict=True))
    )
    if not in_rows:
        return None
    strides = (first.strides[0], first.itemsize)
    return np.lib.stride_tricks.as_strided(first, (len(first), len(columns)), strides)
