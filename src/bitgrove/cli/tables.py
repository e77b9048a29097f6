"""The columns of Arrow tables, for the command line.

This room owns what columns may hold. It receives Arrow tables and column names
and returns tables of features, label and weight arrays, class codes and query
sizes. Whatever is wrong with a column is a DataError that names it and the row.
Rows are counted from 1, the header not included.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.data.given_values import is_number
from bitgrove.data.levels import slip_among
from bitgrove.data.streams.parquet import arrow as arrow  # others take it from here, too
from bitgrove.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa


def column(table: pa.Table, name: str) -> pa.ChunkedArray:
    """One column by name; categories are returned as their values."""
    if table.schema.get_field_index(name) < 0:
        close = difflib.get_close_matches(name, table.column_names, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {listed(table.column_names)}"
        raise DataError(f"no column {name!r}; {hint}")
    found = table.column(name)
    if arrow().types.is_dictionary(found.type):
        found = found.cast(found.type.value_type)
    return found


def feature_table(
    table: pa.Table, names: Sequence[str], categories: Collection[str] = ()
) -> pa.Table:
    """The named columns, in this order: categories as they are, all others as numbers.

    A missing column, or text in one that is no category, is a DataError."""
    known, categories = set(table.column_names), set(categories)
    missing = [name for name in names if name not in known]
    if missing:
        raise DataError(f"missing columns: {listed(missing)}")
    columns = [
        _as_category(table.column(name), name)
        if name in categories
        else _as_number(column(table, name), name)
        for name in names
    ]
    return arrow().table(columns, names=list(names))


def categories_of(table: pa.Table, names: Sequence[str], listed: Collection[str]) -> list[str]:
    """The named columns that are categories: listed ones, and those of text or of such a type.

    Text that looks like numbers with a slip among them is a DataError, unless it is listed."""
    found, listed = [], set(listed)
    for name in names:
        values = table.column(name)
        if name not in listed and is_text(values.type):
            _check_no_slip(values, name)
        if name in listed or is_text(values.type) or arrow().types.is_dictionary(values.type):
            found.append(name)
    return found


def is_text(kind: pa.DataType) -> bool:
    types = arrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _check_no_slip(values: pa.ChunkedArray, name: str) -> None:
    levels = [value for value in values.unique().to_pylist() if value is not None]
    check_no_slip(levels, name, lambda: _describe_text(values))


def check_no_slip(
    levels: Sequence[str], name: str, describe: Callable[[], str] | None = None
) -> None:
    """DataError if most levels of a text column are numbers."""
    odd = slip_among(levels, 0.5)
    if odd is None:
        return
    what = f"holds text: {odd[:40]!r}" if describe is None else describe()
    raise DataError(
        f"column {name!r} {what}, among numbers; correct it, leave it out with --ignore {name}, "
        f"or take it as a category with --categorical_feature {name}"
    )


def _as_category(values: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    kind = values.type.value_type if arrow().types.is_dictionary(values.type) else values.type
    if "binary" in str(kind):
        raise _not_utf8(name)
    return values if is_text(kind) or kind != values.type else _as_number(values, name)


def _not_utf8(name: str) -> DataError:
    return DataError(
        f"column {name!r} holds text that is not UTF-8; convert the file, for example with "
        "iconv -f latin1 -t utf-8"
    )


def numbers(table: pa.Table, name: str) -> NDArray[np.float64]:
    """A label or weight column as float64; text and missing values are a DataError."""
    values = _complete(column(table, name), name)
    plain = _as_number(values, name, advice="it must hold numbers")
    return np.asarray(plain.to_numpy(), np.float64)


def class_codes(
    table: pa.Table, name: str, classes: NDArray[Any] | None = None
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """(code of each row, sorted classes) of a label column of any kind.

    With `classes` given (those of the training data), any other value is a DataError.
    """
    given = _complete(column(table, name), name)
    if "binary" in str(given.type):
        raise _not_utf8(name)
    values = given.to_numpy()
    if values.dtype == object:
        values = values.astype(str)
    if values.dtype.kind not in "Ubiuf" or (values.dtype.kind == "f" and np.isinf(values).any()):
        raise DataError(f"column {name!r} of type {given.type} cannot hold classes")
    if classes is None:
        found, codes = np.unique(values, return_inverse=True)
        return codes.astype(np.int64), found
    if classes.dtype.kind == "U":
        values = values.astype(str)
    elif values.dtype.kind == "U":
        raise DataError(f"column {name!r} {_describe_text(given)}; the classes are numbers")
    codes = np.minimum(np.searchsorted(classes, values), len(classes) - 1)
    strange = np.flatnonzero(classes[codes] != values)
    if len(strange):
        raise DataError(
            f"row {strange[0] + 1} of {name!r} holds the class {values[strange[0]].item()!r}, "
            f"which the training data does not have"
        )
    return codes.astype(np.int64), classes


def query_ids(table: pa.Table, name: str) -> NDArray[Any]:
    """A column of query ids."""
    values = column(table, name)
    if "binary" in str(values.type):
        raise _not_utf8(name)
    return np.asarray(values.to_numpy())


def group_sizes(table: pa.Table, name: str) -> NDArray[np.int64]:
    """Rows per query, from a column of query ids; a query's rows must be contiguous."""
    _complete(column(table, name), name)
    ids = query_ids(table, name)
    starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    first, count = np.unique(ids[starts].astype(str), return_counts=True)
    if count.max() > 1:
        raise DataError(
            f"rows of a query must be contiguous, but {first[count.argmax()].item()!r} in column "
            f"{name!r} appears in {count.max()} separate places; sort the rows by {name!r}"
        )
    return np.diff(np.append(starts, len(ids))).astype(np.int64)


def named(table: pa.Table, given: Sequence[str] | None) -> list[str]:
    """Column names out of comma-separated lists; each must exist."""
    names: list[str] = []
    for text in given or []:
        # A name may itself hold a comma: then it must be given alone.
        names += [text] if table.schema.get_field_index(text) >= 0 else text.split(",")
    for name in names:
        column(table, name)
    return list(dict.fromkeys(names))


def listed(names: Sequence[str], most: int = 8) -> str:
    """Names quoted for a message, the tail of a long list counted."""
    text = ", ".join(repr(name) for name in names[:most])
    return text + (f" and {len(names) - most} more" if len(names) > most else "")


def _complete(values: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """The values, which must not be missing."""
    types = arrow().types
    mask = values.is_null(nan_is_null=types.is_floating(values.type)).to_numpy()
    if mask.any():
        raise DataError(f"column {name!r} has no value in row {mask.argmax() + 1}")
    return values


def _as_number(values: pa.ChunkedArray, name: str, advice: str | None = None) -> pa.ChunkedArray:
    """Integers and floats as they are; truth values, decimals and empty columns as numbers."""
    types = arrow().types
    kind = values.type
    if types.is_integer(kind) or types.is_float32(kind) or types.is_float64(kind):
        return values
    if types.is_boolean(kind):
        return values.cast("uint8")
    if types.is_null(kind) or types.is_decimal(kind) or types.is_float16(kind):
        return values.cast("float64")
    if "binary" in str(kind):
        raise _not_utf8(name)
    advice = advice or f"a number is needed; leave the column out with --ignore {name}"
    raise DataError(f"column {name!r} {_describe_text(values)}; {advice}")


def _describe_text(values: pa.ChunkedArray) -> str:
    """What keeps a column from being numeric, with the row that shows it."""
    if is_text(values.type):
        for row, value in enumerate(values.to_pylist(), start=1):
            if value is not None and not is_number(value):
                return f"holds text: {value[:40]!r} in row {row}"
    return f"is of type {values.type}"
