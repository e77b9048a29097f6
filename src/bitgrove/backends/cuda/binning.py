"""Values to bins on the GPU, from columns on the host or on the device.

Receives columns (views of one table, or each on its own) of values, or of bins already (uint8), and
a BinMapper; fills the tiles and the columns of a CudaMatrix. Device columns are read where they
are; host columns are sent block by block, and a block is binned while the next ones are under way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.backends.cuda.device import Device
from bitgrove.backends.cuda.edges import device_columns
from bitgrove.backends.cuda.memory import address_of
from bitgrove.backends.cuda.transfer import BLOCK_BYTES, Sender, rectangles
from bitgrove.data.binning import BinMapper
from bitgrove.kernels.plans import DEVICE_COLUMN, Records

_BIN_ROWS: int = _core.constants["BIN_ROWS"]
_MOST_FEATURES = 65535  # the limit of a grid's second axis


def bin_on_device(
    columns: Sequence[Any],
    mapper: BinMapper,
    tiles: Any,
    binned: Any,
    device: Device,
    sender: Sender,
) -> NDArray[np.uint8]:
    """Fills tiles and binned; returns whether each feature has a missing value."""
    memory, (n_features, n_rows) = device.memory, binned.shape
    values, offset = memory.upload(mapper.edge_values), memory.upload(mapper.edge_offset)
    missing = memory.zeros(n_features, np.int32)
    edges = (address_of(values), address_of(offset))
    sizes = (n_rows, n_features, n_rows)
    out = (address_of(tiles), address_of(binned), *sizes, address_of(missing))

    def run(sources: Records, dtype: Any, rows: slice) -> None:
        """Bins the values of some columns, which are those of the given rows."""
        kernel = f"bin_{np.dtype(dtype).name}"
        (sources_at,) = device.mailbox.send(sources)
        n = rows.stop - rows.start
        for first in range(0, len(sources), _MOST_FEATURES):
            grid = (-(-n // _BIN_ROWS), min(len(sources) - first, _MOST_FEATURES))
            where = (sources_at + first * DEVICE_COLUMN.itemsize, n, rows.start)
            device.launch("binning", kernel, grid, *where, *edges, *out)

    on_host: list[int] = []
    here: dict[Any, list[int]] = {}
    for f, column in enumerate(columns):
        is_host = isinstance(column, np.ndarray)
        (on_host if is_host else here.setdefault(column.dtype, [])).append(f)
    for dtype, features in here.items():
        if features:
            run(device_columns(columns, features), dtype, slice(0, n_rows))
    if on_host:
        room = memory.empty(BLOCK_BYTES, np.uint8)
        for part in rectangles([columns[f] for f in on_host]):
            for block in sender.blocks(part.table, address_of(room), one_room=True):
                sources, rows = part.columns(block)
                sources["feature"] = np.array(on_host)[sources["feature"]]
                run(sources, part.table.dtype, rows)
    return np.asarray(missing.get() != 0).astype(np.uint8)
