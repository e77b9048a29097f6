"""Binned rows on the GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.data.binning import BinMapper


@dataclass(eq=False)
class CudaMatrix:
    """Bins twice: row-major tiles for histograms, columns for partition and validation."""

    n_rows: int
    mapper: BinMapper
    missing: NDArray[np.uint8]
    tiles: Any
    columns: Any

    def prepare(self, mapper: BinMapper) -> None:
        self.mapper = mapper
