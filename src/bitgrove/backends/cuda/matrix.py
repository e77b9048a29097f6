"""Binned rows where the kernels of a GPU read them.

Owns Place (bins of some rows) and CudaMatrix (a table's bins in at most two places). Rows that have
no room on the device lie in pinned memory of the host, which kernels read in place: only rows that
they ask for travel, while other blocks are at work.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends.cuda.memory import address_of
from bitgrove.data.binning import BinMapper
from bitgrove.kernels.plans import BINS_PLACE, Records, records


@dataclass(eq=False)
class Place:
    """Row-major tiles, and columns where a partition has them to read; both of uint8."""

    n_rows: int
    tiles: Any = None
    columns: Any = None


@dataclass(eq=False)
class CudaMatrix:
    """here: on the device. there: on the host. places: both as kernels take them, one argument."""

    n_rows: int
    mapper: BinMapper
    missing: NDArray[np.uint8]
    here: Place
    there: Place
    places: Records = field(init=False)

    def __post_init__(self) -> None:
        self.place(self.here, self.there)

    def place(self, here: Place, there: Place) -> None:
        self.here, self.there = both = (here, there)
        self.places = records(
            BINS_PLACE, 2, tiles=[address_of(p.tiles) for p in both],
            columns=[address_of(p.columns) for p in both], n_rows=[p.n_rows for p in both],
        )  # fmt: skip

    @property
    def n_slot_bins(self) -> int:
        return int(self.mapper.bin_offset[-1])

    def prepare(self, mapper: BinMapper, alone: bool = False) -> None:
        self.mapper = mapper
