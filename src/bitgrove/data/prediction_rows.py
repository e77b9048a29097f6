"""The rows of a table as a forest reads them.

Receives any table, the names of the model's features and its Encoder; returns one table of numbers,
its columns checked against those of the training and its categories encoded. A sparse one stays
sparse, its values stored by rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bitgrove.data.categories import CategoryChoice
from bitgrove.data.device_tables import device_table, is_on_gpu
from bitgrove.data.encoder import Encoder
from bitgrove.data.sparse.tables import SparseColumns, SparseTable, is_sparse, rows_of
from bitgrove.data.tables import (
    collected,
    column_names,
    default_names,
    name_difference,
    sparse_rows,
    to_columns,
)
from bitgrove.errors import DataError


def rows_for_prediction(
    X: Any, feature_names: list[str], encoder: Encoder | None = None, dense: bool = False
) -> Any:
    """X as a C-contiguous float32/float64 table, its columns checked against the model's.

    On a GPU it may have any strides. A sparse X is a SparseTable, or, for those who cannot read
    one, dense.
    """
    X = X if isinstance(X, np.ndarray) else collected(X)
    names = None if is_on_gpu(X) else column_names(X)
    n_features = len(feature_names)
    if names is not None and names != feature_names:
        nameless = feature_names == default_names(n_features)
        # Such a model takes columns of any name, but those called f0, f1, ... must be in order.
        if not nameless or set(names) & set(feature_names):
            raise DataError(name_difference(names, feature_names))
    if encoder is None and is_on_gpu(X):
        table = device_table(X)
    elif encoder is None and _is_table(X):
        table = np.ascontiguousarray(X)
        table = table if table.flags.aligned else table.copy()  # a view of raw bytes
    elif encoder is None and is_sparse(X):
        table = sparse_rows(X)
    else:
        table = _encoded(X, feature_names, encoder or Encoder(n_features))
    n_expected = n_features if encoder is None else encoder.n_columns
    if table.shape[1] != n_expected:
        raise DataError(f"X has {table.shape[1]} features, but the model expects {n_features}")
    return table.dense() if dense and isinstance(table, SparseTable) else table


def _is_table(X: Any) -> bool:
    is_array = type(X) in (np.ndarray, np.memmap) and X.ndim == 2
    return is_array and X.dtype in (np.float32, np.float64)


def _encoded(X: Any, feature_names: list[str], encoder: Encoder) -> Any:
    n_features = len(feature_names)
    listed = tuple(f for f in encoder.levels if f < _width(X, n_features))
    columns, _, levels = to_columns(X, CategoryChoice(listed), feature_names)
    if len(columns) != n_features:
        raise DataError(f"X has {len(columns)} features, but the model expects {n_features}")
    encoded = encoder.encode(columns, levels, feature_names)
    return rows_of(encoded) if isinstance(encoded, SparseColumns) else encoder.table(encoded)


def _width(X: Any, otherwise: int) -> int:
    shape: tuple[int, ...] = getattr(X, "shape", ())
    return int(shape[1]) if len(shape) == 2 else otherwise
