"""Numbers that come with a table, or as one: arrays, labels, weights and query sizes, checked.

Receives what the user gave for each; returns NumPy arrays, or an error that names it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.limits import MAX_MAGNITUDE, MIN_WEIGHT
from bitgrove.data.device_tables import on_host
from bitgrove.errors import DataError, DataTypeError


def not_masked(what: str, values: Any) -> Any:
    """The values themselves. NumPy and scikit-learn would read what a mask hides."""
    if isinstance(values, np.ma.MaskedArray):
        raise DataTypeError(f"{what} is a masked array; fill it, with NaN for missing values")
    return values


def as_array(what: str, values: Any) -> NDArray[Any]:
    not_masked(what, values)
    try:
        return np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise DataError(f"{what} is not a table of numbers: {error}") from None


def as_numbers(what: str, array: Any) -> Any:
    """The array (also a sparse one) if it holds real numbers; objects as float64."""
    kind = array.dtype.kind
    if kind == "c":
        raise DataError(f"Complex data not supported: {what}")
    if kind in "Mm":
        raise DataTypeError(f"{what} has type {array.dtype}; numbers are needed (convert it)")
    # NumPy would read "1.5" as a number: text is refused whatever it says.
    if kind in "UST" or (kind == "O" and any(isinstance(x, str | bytes) for x in array.flat)):
        raise DataError(f"{what} must hold numbers, not text")
    if kind != "O":
        return array
    try:
        return array.astype(np.float64)
    except TypeError as error:
        raise DataTypeError(f"{what} must hold numbers: {error}") from None
    except ValueError as error:  # members that are arrays
        raise DataError(f"{what} must hold numbers: {error}") from None


def _vector(values: Any, n_rows: int, name: str) -> NDArray[np.float64]:
    found = _columns(values, n_rows, name)
    if found.ndim != 1:
        raise DataError(f"{name} must be one-dimensional, got shape {found.shape}")
    return found


def _columns(values: Any, n_rows: int, name: str) -> NDArray[np.float64]:
    """One number per row, or several: (n_rows,) or (n_rows, n_columns)."""
    array = as_array(name, on_host(values))
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim not in (1, 2) or 0 in array.shape[1:]:
        raise DataError(f"{name} must have one or two dimensions, got shape {array.shape}")
    if len(array) != n_rows:
        raise DataError(f"{name} has {len(array)} entries but X has {n_rows} rows")
    found: NDArray[np.float64] = as_numbers(name, array).astype(np.float64)
    if not np.isfinite(found).all():
        where = np.argwhere(~np.isfinite(found))[0]
        raise DataError(f"{name} contains NaN or infinity (row {where[0]}: {found[tuple(where)]})")
    largest = float(max(found.max(initial=0.0), -found.min(initial=0.0)))
    if largest > MAX_MAGNITUDE:
        raise DataError(f"{name} holds {largest:g}; magnitudes above 1e38 are not supported")
    return found


def checked_label(label: Any, n_rows: int) -> NDArray[np.float64]:
    return _columns(label, n_rows, "label")


def checked_scores(init_score: Any, n_rows: int) -> NDArray[np.float64]:
    return _columns(init_score, n_rows, "init_score")


def checked_weight(weight: Any, n_rows: int) -> NDArray[np.float32]:
    vector = _vector(weight, n_rows, "weight")
    if (vector < 0).any():
        raise DataError(f"weight must not be negative, got {vector.min():g}")
    return np.where(vector < MIN_WEIGHT, 0.0, vector).astype(np.float32)


def checked_group(group: Any, n_rows: int) -> NDArray[np.int64]:
    sizes = np.asarray(on_host(group))
    if n_rows == 0 and sizes.shape == (0,):
        return np.zeros(0, dtype=np.int64)
    if sizes.ndim != 1 or len(sizes) == 0 or sizes.dtype.kind not in "iu":
        raise DataError("group must be a list of whole numbers: the rows of each query, in order")
    if (sizes <= 0).any():
        raise DataError(f"group sizes must be positive, got {int(sizes.min())}")
    total = sum(sizes.tolist())  # of Python's integers: cannot wrap around
    if total != n_rows:
        raise DataError(f"group sizes add up to {total} but there are {n_rows} rows")
    return sizes.astype(np.int64)
