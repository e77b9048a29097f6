"""All rows of a set in the order of their predictions, sorted on the GPU.

Owns sort_and_sum: an exact radix sort of 64-bit keys and the sums of whole weights over it. Scratch
memory is kept between rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bitgrove import _core
from bitgrove.backends.cuda.device import Device
from bitgrove.backends.cuda.memory import address_of

_DIGITS, _VALUES, _TILE_ROWS = 8, 256, int(_core.SORT_ROWS)


def sort_and_sum(device: Device, prediction: Any, sides: Sequence[Any], sums: int) -> None:
    """Adds N_ORDER_SUMS numbers at the address `sums`.

    prediction: its first column counts; sides: whole weights of positives and of negatives.
    """
    n_rows = len(prediction)
    if n_rows == 0:
        return
    memory, launch, rows_grid = device.memory, device.launch, device.grid(n_rows)
    keys, rows = (
        [address_of(memory.scratch(f"order {what} {i}", n_rows, dtype)) for i in (0, 1)]
        for what, dtype in (("keys", np.uint64), ("rows", np.uint32))
    )
    n_tiles = -(-n_rows // _TILE_ROWS)
    counts, n_taken, words = _zeros(device, n_tiles)
    n_outputs = prediction.strides[0] // prediction.itemsize
    data = (address_of(prediction), n_outputs, n_rows)
    launch("metrics", "order_keys", rows_grid, *data, keys[0], rows[0], counts)
    tiles_grid = (n_tiles, 1)
    for digit in range(_DIGITS):
        source, to = digit % 2, 1 - digit % 2
        how = (n_rows, 8 * digit, counts + 4 * _VALUES * digit)
        tiles = (words + 8 * _VALUES * n_tiles * digit, n_taken + 4 * digit)
        out = (keys[to], rows[to])
        launch("metrics", "sort_digit", tiles_grid, keys[source], rows[source], *how, *tiles, *out)
    until = [address_of(memory.scratch(f"order {i}", n_rows, np.int64)) for i in (0, 1)]
    weights = (rows[0], *map(address_of, sides), n_rows)
    tiles = (words + 8 * _VALUES * n_tiles * _DIGITS, n_taken + 4 * _DIGITS)
    launch("metrics", "order_prefixes", tiles_grid, *weights, *tiles, *until)
    launch("metrics", "order_sums", rows_grid, keys[0], *until, n_rows, sums)


def _zeros(device: Device, n_tiles: int) -> tuple[int, int, int]:
    """Addresses of counts of digits, of tiles that are taken, and of the words of tiles."""
    n_words = _DIGITS * _VALUES * n_tiles + 2 * n_tiles
    n_counts = _DIGITS * _VALUES + 2 * _DIGITS  # more than one for each pass, and even
    array = device.memory.scratch("order zeros", 8 * n_words + 4 * n_counts, np.uint8)
    array.data.memset_async(0, array.nbytes, device.cupy.cuda.get_current_stream())
    words = address_of(array)
    counts = words + 8 * n_words
    return counts, counts + 4 * _DIGITS * _VALUES, words
