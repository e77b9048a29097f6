"""Bin edges on the GPU, of columns that lie there.

Receives CuPy columns and the rows of the sample; returns the edges that the reference finds, bit
for bit: the kernels sort keys of the values and cut by the rule of kernels/shared/cuts.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.backends.cuda.device import Device
from bitgrove.backends.cuda.memory import address_of
from bitgrove.kernels.plans import DEVICE_COLUMN, Records, records

F64 = NDArray[np.float64]
_C = _core.constants
_MOST_BYTES = 1 << 30  # of keys that are sorted at once
_BLOCKS_PER_FEATURE = 64


def device_columns(columns: Sequence[Any], features: Sequence[int]) -> Records:
    """CuPy columns as the kernels read them."""
    found = records(DEVICE_COLUMN, len(features), feature=features)
    found["address"] = [columns[f].data.ptr for f in features]
    found["stride"] = [columns[f].strides[0] // columns[f].itemsize for f in features]
    return found


def edge_bytes(n_sampled: int, n_features: int) -> int:
    """Memory of the device that finding edges takes, at most."""
    return min(_MOST_BYTES, 16 * n_sampled * n_features) + 16 * n_sampled


def find_on_device(
    columns: Sequence[Any], rows: NDArray[np.int32] | None, max_bin: int, device: Device
) -> list[F64]:
    """The edges of each column."""
    found: list[F64] = [np.zeros(0)] * len(columns)
    listed = None if rows is None else device.memory.upload(rows)
    n = len(columns[0]) if rows is None else len(rows)
    for dtype in (np.float32, np.float64):
        features = [f for f, column in enumerate(columns) if column.dtype == dtype]
        step = min(65535, max(1, _MOST_BYTES // max(1, 2 * n * np.dtype(dtype).itemsize)))
        for first in range(0, len(features), step):
            part = features[first : first + step]
            edges = _edges_of(device_columns(columns, part), dtype, listed, n, max_bin, device)
            for f, its_edges in zip(part, edges, strict=True):
                found[f] = its_edges
    return found


def _edges_of(
    columns: Records, dtype: Any, listed: Any, n: int, max_bin: int, device: Device
) -> list[F64]:
    """Of columns of one type, whose keys fit on the device together."""
    memory, n_columns, bits = device.memory, len(columns), 8 * np.dtype(dtype).itemsize
    key_type = np.uint32 if bits == 32 else np.uint64
    keys, other = (memory.empty((n_columns, n), key_type) for _ in range(2))
    edges = memory.empty((n_columns, max_bin - 1), np.float64)
    n_edges = memory.empty(n_columns, np.int64)
    (columns_at,) = device.mailbox.send(columns)
    grid = (max(1, min(-(-n // _C["THREADS"]), _BLOCKS_PER_FEATURE)), n_columns)
    device.launch("edges", f"take_keys_{bits}", grid, columns_at, address_of(listed), n,
                  address_of(keys))  # fmt: skip
    device.launch("edges", f"find_edges_{bits}", (n_columns, 1), address_of(keys),
                  address_of(other), n, max_bin, address_of(edges), address_of(n_edges),
                  threads=_C["EDGE_THREADS"])  # fmt: skip
    found, counts = edges.get(), n_edges.get()
    return [np.ascontiguousarray(row[:count]) for row, count in zip(found, counts, strict=True)]
