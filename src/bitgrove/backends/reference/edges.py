"""Bin edges in plain NumPy: the oracle of cpp/data/edges.cpp."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


def find_edges(column: NDArray[Any], max_bin: int) -> F64:
    """At most max_bin - 1 increasing edges between the distinct values; NaN is ignored."""
    values = column.astype(np.float64)
    values = values[~np.isnan(values)] + 0.0  # one zero, not two
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= max_bin:
        ends = np.arange(max(len(distinct) - 1, 0))
    else:
        ends = _bin_ends(counts, max_bin)
    low, high = distinct[ends], distinct[ends + 1]
    with np.errstate(invalid="ignore"):  # between two infinities
        middle = low * 0.5 + high * 0.5
        return np.where((low <= middle) & (middle < high), middle, low)


def _bin_ends(counts: I64, max_bin: int) -> I64:
    """The values after which a bin ends: heavy ones have a bin each, the rest equal shares."""
    n_rows = int(counts.sum())
    heavy = counts * max_bin >= n_rows
    light = np.where(heavy, 0, counts)
    n_groups = max_bin - int(heavy.sum())
    while n_groups > 0 and light.sum() > 0:
        is_end = _group_begins(light, n_groups) | heavy[:-1] | heavy[1:]
        excess = int(is_end.sum()) + 1 - max_bin
        if excess <= 0:
            return np.flatnonzero(is_end)
        n_groups -= excess
    return np.flatnonzero(_group_begins(counts, max_bin))


def _group_begins(counts: I64, n_groups: int) -> NDArray[np.bool_]:
    """Whether another of n_groups equal shares of the rows begins after each value."""
    group = np.cumsum(counts)[:-1] * n_groups // int(counts.sum())
    return np.diff(group, prepend=0) != 0
