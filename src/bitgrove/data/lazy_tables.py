"""Tables that are not in memory yet: polars LazyFrames, Arrow readers, scanners and datasets.

Receives whatever the user gave as X; returns a table in memory, or X itself if it is one.
"""

from __future__ import annotations

from typing import Any

from bitgrove.errors import DataTypeError


def collected(X: Any) -> Any:
    """X in memory."""
    module = type(X).__module__.partition(".")[0]
    if module == "polars" and hasattr(X, "collect"):  # a LazyFrame
        return X.collect()
    if module == "pyarrow":
        for method in ("read_all", "to_table"):  # a RecordBatchReader; a Dataset or Scanner
            if hasattr(X, method) and not hasattr(X, "column_names"):
                return getattr(X, method)()
        if hasattr(X, "read_row_group"):
            return X.read()  # a ParquetFile
        return X
    if hasattr(X, "__arrow_c_stream__") and not hasattr(X, "columns"):
        return _from_stream(X)
    return X


def _from_stream(X: Any) -> Any:
    """Any other producer of Arrow's C stream, such as DuckDB's results."""
    try:
        import pyarrow
    except ImportError:
        raise DataTypeError(
            f"X is a {type(X).__name__}; reading it needs pyarrow (pip install pyarrow), "
            "or give a pandas or polars DataFrame"
        ) from None
    return pyarrow.table(X)
