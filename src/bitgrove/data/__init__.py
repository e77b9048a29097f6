"""From any table to bins: columns, row ids, samples, edges.

Receives what users hold (arrays, data frames, arrays on a GPU); returns Datasets, and the
BinMapper that backends bin them with.
"""

from bitgrove.data.dataset import Dataset

__all__ = ["Dataset"]
