"""What comes with a table, or as one: arrays, labels, weights, query sizes, names, checked.

Receives what the user gave for each; returns NumPy arrays and text, or an error that names it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.limits import MAX_MAGNITUDE, MIN_WEIGHT
from bitgrove.data.device_tables import on_host
from bitgrove.errors import DataError, DataTypeError

_MISSING = {"None", "nan", "NaT", "<NA>"}  # names that may be of what is missing


def not_masked(what: str, values: Any) -> Any:
    """The values themselves. NumPy and scikit-learn would read what a mask hides."""
    if isinstance(values, np.ma.MaskedArray):
        raise DataTypeError(f"{what} is a masked array; fill it, with NaN for missing values")
    return values


def as_stored(values: Any) -> Any:
    """Whole numbers and flags of pandas' nullable types as NumPy holds them, if none is missing.

    scikit-learn would make floats of them, where large ids are the same. A frame of one column is
    that column.
    """
    if getattr(values, "ndim", 0) == 2 and values.shape[1] == 1 and hasattr(values, "iloc"):
        values = values.iloc[:, 0]
    stored = getattr(getattr(values, "dtype", None), "numpy_dtype", None)
    if stored is None or stored.kind not in "biu" or values.isna().any():
        return values
    series = getattr(values, "array", values)
    return series.to_numpy(dtype=stored)


def is_missing(value: Any) -> bool:
    """Whether a member of an array of objects is None, NaN, NA or NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # NA compares to NA
        return True
    return bool(value != value)


def plain_names(names: Iterable[Any]) -> list[str]:
    """Names of columns as text; DataError for one that is missing."""
    plain = [str(name) for name in names]
    if not _MISSING.isdisjoint(plain) and any(map(is_missing, names)):
        raise DataError("X has a column without a name (None or NaN): a name is text or a number")
    return plain


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


def refuse_text(what: str, table: Any) -> None:
    """DataError with the first text of a table of objects that is no number, and its column."""
    if getattr(getattr(table, "dtype", None), "kind", "") not in ("O", "U", "S", "T"):
        return
    for place, value in np.ndenumerate(table):
        if isinstance(value, str | bytes) and not is_number(value):
            raise DataError(
                f"{what} holds text: {value[:40]!r} in column {place[-1]}; numbers are needed "
                f"(encode the column, or list it: categorical_features=[{place[-1]}])"
            )


def is_number(text: str | bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


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


# Rows that are looked at together.
_BLOCK_ROWS = 1 << 16


def narrowest(values: NDArray[Any]) -> NDArray[Any]:
    """The same numbers as bytes or float32 where those are exactly these, to the sign of a zero."""
    if values.dtype != np.float64:
        return values
    for dtype in (np.uint8, np.float32):
        narrow = np.empty(values.shape, dtype)
        if all(_copied(values[i : i + _BLOCK_ROWS], narrow[i : i + _BLOCK_ROWS])
               for i in range(0, len(values), _BLOCK_ROWS)):  # fmt: skip
            return narrow
    return values


def _copied(values: NDArray[np.float64], narrow: NDArray[Any]) -> bool:
    """Whether nothing was lost on the way."""
    with np.errstate(invalid="ignore", over="ignore"):
        narrow[...] = values
    return widened(narrow).tobytes() == values.tobytes()


def widened(values: NDArray[Any]) -> NDArray[np.float64]:
    """The numbers as float64; the same array if they are."""
    return values.astype(np.float64, copy=False)


def checked_label(label: Any, n_rows: int) -> NDArray[np.float64]:
    return _columns(label, n_rows, "label")


def checked_scores(init_score: Any, n_rows: int) -> NDArray[np.float64]:
    return _columns(init_score, n_rows, "init_score")


def checked_weight(weight: Any, n_rows: int, group: Any = None) -> NDArray[np.float32]:
    """Per row; XGBoost's are per query where there are such."""
    if group is not None and np.shape(weight) == (len(group),) != (n_rows,):
        raise DataError(
            f"weight has {len(group)} entries, one per query; give one per row: "
            "np.repeat(weight, rows of each query)"
        )
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


class NamedParts:
    """The parts of a Dataset by the methods that LightGBM and XGBoost have for them."""

    narrow_label: NDArray[Any] | None  # label, in the narrowest type that holds it
    weight: NDArray[np.float32] | None
    group: NDArray[np.int64] | None
    init_score: NDArray[np.float64] | None

    @property
    def n_rows(self) -> int:
        raise NotImplementedError

    @property
    def n_features(self) -> int:
        raise NotImplementedError

    @property
    def label(self) -> NDArray[np.float64] | None:
        """One number per row, or several columns of them. Kept narrow, they are shown as a copy.

        Nobody writes to that by mistake: it is read-only. set_label() takes other labels.
        """
        if self.narrow_label is None or self.narrow_label.dtype == np.float64:
            return self.narrow_label
        shown = widened(self.narrow_label)
        shown.flags.writeable = False
        return shown

    @label.setter
    def label(self, label: NDArray[Any] | None) -> None:
        self.narrow_label = None if label is None else narrowest(label)

    def get_label(self) -> NDArray[np.float64] | None:
        """`label`."""
        return self.label

    def get_weight(self) -> NDArray[np.float32] | None:
        """`weight`."""
        return self.weight

    def get_group(self) -> NDArray[np.int64] | None:
        """`group`: the rows of each query."""
        return self.group

    def get_init_score(self) -> NDArray[np.float64] | None:
        """`init_score`."""
        return self.init_score

    def set_label(self, label: Any) -> Any:
        """Another label for the same rows; returns the Dataset."""
        self.label = checked_label(label, self.n_rows)
        return self

    def set_weight(self, weight: Any) -> Any:
        """Other weights for the same rows, or None; returns the Dataset."""
        self.weight = None if weight is None else checked_weight(weight, self.n_rows, self.group)
        return self

    def set_group(self, group: Any) -> Any:
        """Other queries for the same rows, or None; returns the Dataset."""
        self.group = None if group is None else checked_group(group, self.n_rows)
        return self

    def set_init_score(self, init_score: Any) -> Any:
        """Other scores to start from, or None; returns the Dataset."""
        given = init_score
        self.init_score = None if given is None else checked_scores(given, self.n_rows)
        return self

    def num_data(self) -> int:
        """`n_rows`."""
        return self.n_rows

    def num_feature(self) -> int:
        """`n_features`."""
        return self.n_features

    num_row, num_col = num_data, num_feature
