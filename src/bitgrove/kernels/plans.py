"""The records that cross to the core and the kernels, as NumPy dtypes.

Owns their names in Python; they are declared once, with their meaning, in kernels/shared/plans.h.
"""

from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core

Records = NDArray[np.void]

_DTYPES: dict[str, np.dtype[np.void]] = _core.dtypes()
ROW_COUNTS = _DTYPES["RowCounts"]
GRADIENT_SUMS = _DTYPES["GradientSums"]
ROW_TOTALS = _DTYPES["RowTotals"]
MAGNITUDES = _DTYPES["Magnitudes"]
DIVISION = _DTYPES["Division"]
BUILD = _DTYPES["Build"]
SUBTRACTION = _DTYPES["Subtraction"]
SEARCH_NODE = _DTYPES["SearchNode"]
SPLIT_INFO = _DTYPES["SplitInfo"]
GROWN_SPLIT = _DTYPES["GrownSplit"]
HISTOGRAM_PART = _DTYPES["HistogramPart"]
BINNED_SPLIT = _DTYPES["BinnedSplit"]
FOREST_SPLIT = _DTYPES["ForestSplit"]
SHAP_STEP = _DTYPES["ShapStep"]
SHAP_FACTOR = _DTYPES["ShapFactor"]
DEVICE_COLUMN = _DTYPES["DeviceColumn"]
BINS_PLACE = _DTYPES["BinsPlace"]

SUBSET: int = _core.constants["SUBSET"]  # `bin` of a split by a set of bins
# What the bins of a column are.
NUMBERS: int = _core.constants["NUMBERS"]
LEVELS: int = _core.constants["LEVELS"]
DRAWN: int = _core.constants["DRAWN"]
MAGNITUDE_SHIFT: int = _core.constants["MAGNITUDE_SHIFT"]
MAGNITUDE_BUCKETS: int = _core.constants["MAGNITUDE_BUCKETS"]
SQUARED_ERROR_UNITS: int = _core.constants["SQUARED_ERROR_UNITS"]
# Types of packed rows, by the bits of a half.
ROW_TYPES = {8: np.int16, 16: np.int32, 32: np.int64}


def records(dtype: np.dtype[np.void], n_records: int, **fields: object) -> Records:
    """New records with the given fields; the others are zero."""
    made = np.zeros(n_records, dtype=dtype)
    for name, values in fields.items():
        made[name] = values
    return made


def fields_of(record: np.void) -> Any:
    """The fields of one record by their names, as Python's numbers."""
    return _tuple_of(record.dtype)(*record.item())


@cache
def _tuple_of(dtype: np.dtype[np.void]) -> Any:
    assert dtype.names is not None
    return namedtuple("Fields", dtype.names)


def no_splits(n_nodes: int) -> Records:
    """What a search returns for nodes that have no split."""
    return records(SPLIT_INFO, n_nodes, gain=-np.inf, feature=-1)
