"""The records that cross to the core and the kernels, as NumPy dtypes.

Owns their names in Python; they are declared once, with their meaning, in kernels/shared/plans.h.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core

Records = NDArray[np.void]

ROW_COUNTS: np.dtype[np.void] = _core.dtypes["RowCounts"]
GRADIENT_SUMS: np.dtype[np.void] = _core.dtypes["GradientSums"]
ROW_TOTALS: np.dtype[np.void] = _core.dtypes["RowTotals"]
DIVISION: np.dtype[np.void] = _core.dtypes["Division"]
BUILD: np.dtype[np.void] = _core.dtypes["Build"]
SUBTRACTION: np.dtype[np.void] = _core.dtypes["Subtraction"]
SEARCH_NODE: np.dtype[np.void] = _core.dtypes["SearchNode"]
SPLIT_INFO: np.dtype[np.void] = _core.dtypes["SplitInfo"]
HISTOGRAM_PART: np.dtype[np.void] = _core.dtypes["HistogramPart"]
BINNED_SPLIT: np.dtype[np.void] = _core.dtypes["BinnedSplit"]
FOREST_SPLIT: np.dtype[np.void] = _core.dtypes["ForestSplit"]


def records(dtype: np.dtype[np.void], n_records: int, **fields: object) -> Records:
    """New records with the given fields; the others are zero."""
    made = np.zeros(n_records, dtype=dtype)
    for name, values in fields.items():
        made[name] = values
    return made


def no_splits(n_nodes: int) -> Records:
    """What a search returns for nodes that have no split."""
    return records(SPLIT_INFO, n_nodes, gain=-np.inf, feature=-1)
