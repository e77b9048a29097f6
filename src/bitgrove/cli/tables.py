"""CSV and Parquet files as Arrow tables, for the command line.

This room owns reading, checking and writing of table files. It receives paths
and column names and returns Arrow tables of numeric features, label and weight
arrays, class codes and query sizes. Whatever is wrong with a file is a
DataError that names the file, the column or the row. Rows are counted from 1,
the header not included.
"""

from __future__ import annotations

import difflib
import glob
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.errors import DataError
from bitgrove.machine.files import replacing

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = ".csv, .csv.gz, .tsv, .parquet or .pq"
# What pandas calls the index it writes to Parquet, and to CSV: a row number, not a feature.
_PANDAS_INDEX = re.compile(r"__index_level_\d+__|")


def arrow() -> Any:
    """The pyarrow package with its csv and parquet modules loaded."""
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("reading tables needs pyarrow: pip install bitgrove[cli]") from error
    return pyarrow


def read_table(
    patterns: Sequence[str],
    delimiter: str | None = None,
    part: tuple[int, int] = (0, 1),
    group: str | None = None,
) -> pa.Table:
    """All files the patterns name, one below the other, with the columns of the first file.

    With part (i, n) the i-th of n parts of that: whole files if there are at least n, else a range
    of rows, which does not cut through a query if `group` names the column of query ids.
    """
    paths = _expand(patterns)
    index, n_parts = part
    if len(paths) >= n_parts:
        share = slice(len(paths) * index // n_parts, len(paths) * (index + 1) // n_parts)
        whole = _joined(paths[share], [_read_file(path, delimiter) for path in paths[share]])
    else:
        whole = _row_range(paths, delimiter, part, group)
    if n_parts == 1 and whole.num_rows == 0:
        raise DataError(f"{', '.join(paths)}: no rows")
    return whole


def _joined(paths: Sequence[str], tables: Sequence[pa.Table]) -> pa.Table:
    pyarrow = arrow()
    names = tables[0].column_names
    for path, table in zip(paths, tables, strict=True):
        if set(table.column_names) != set(names):
            missing = sorted(set(names) - set(table.column_names))
            extra = sorted(set(table.column_names) - set(names))
            raise DataError(
                f"{path}: its columns differ from those of {paths[0]}"
                + (f"; missing: {listed(missing)}" if missing else "")
                + (f"; unexpected: {listed(extra)}" if extra else "")
            )
    try:
        return pyarrow.concat_tables(
            [table.select(names) for table in tables], promote_options="permissive"
        )
    except pyarrow.ArrowException as error:
        raise DataError(f"the files' columns do not fit together: {error}") from error


def _row_range(
    paths: Sequence[str], delimiter: str | None, part: tuple[int, int], group: str | None
) -> pa.Table:
    """The rows of one part; of Parquet files only the row groups that hold some are read."""
    if not all(_is_parquet(path) for path in paths):
        whole = _joined(paths, [_read_file(path, delimiter) for path in paths])
        ids = column(whole, group).to_numpy() if group else None
        first, last = _range_of(part, whole.num_rows, ids)
        return whole.slice(first, last - first)
    counts = [_parquet(path).metadata.num_rows for path in paths]
    ids = None
    if group:
        only = [column(_parquet(path).read([group]), group).to_numpy() for path in paths]
        ids = np.concatenate(only)
    first, last = _range_of(part, sum(counts), ids)
    tables, start = [], 0
    for path, n_rows in zip(paths, counts, strict=True):
        low, high = (min(max(row - start, 0), n_rows) for row in (first, last))
        tables.append(_read_file(path, delimiter, (low, high)))
        start += n_rows
    return _joined(paths, tables)


def _range_of(part: tuple[int, int], n_rows: int, ids: NDArray[Any] | None) -> tuple[int, int]:
    index, n_parts = part
    borders = [n_rows * i // n_parts for i in (index, index + 1)]
    if ids is not None:  # on to the start of the next query
        starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1], [True]]))
        borders = [int(starts[np.searchsorted(starts, border)]) for border in borders]
    return borders[0], borders[1]


def check_output(path: str, inputs: Iterable[str] = (), formats: Iterable[str] = ()) -> None:
    """Refuse an output path that could not be written, or that is an input, before any work."""
    target = Path(path)
    if formats and not any(path.lower().endswith(suffix) for suffix in formats):
        raise DataError(f"{path}: the name of the output must end in {' or '.join(formats)}")
    if target.is_dir():
        raise DataError(f"{path}: is a directory")
    if target.exists() and not target.is_file():
        raise DataError(f"{path}: is not a regular file")
    if not target.parent.is_dir():
        raise DataError(f"{path}: the directory {target.parent} does not exist")
    if not os.access(target.parent, os.W_OK):
        raise DataError(f"{path}: the directory {target.parent} is not writable")
    if target.exists() and any(target.samefile(name) for name in _expand(list(inputs))):
        raise DataError(f"{path}: is also an input; give another name")


def write_table(columns: dict[str, Any], path: str) -> None:
    """Write the columns as Parquet or CSV by extension: the whole file or none of it."""
    pyarrow = arrow()
    table = pyarrow.table(columns)
    with replacing(path) as file:
        if path.lower().endswith((".parquet", ".pq")):
            pyarrow.parquet.write_table(table, file)
        else:
            options = pyarrow.csv.WriteOptions(delimiter=_delimiter_of(path))
            pyarrow.csv.write_csv(table, file, options)


def column(table: pa.Table, name: str) -> pa.ChunkedArray:
    """One column by name; categories are returned as their values."""
    if name not in table.column_names:
        close = difflib.get_close_matches(name, table.column_names, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {listed(table.column_names)}"
        raise DataError(f"no column {name!r}; {hint}")
    found = table.column(name)
    if arrow().types.is_dictionary(found.type):
        found = found.cast(found.type.value_type)
    return found


def feature_table(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """The named columns, in this order, as numbers; a missing or text column is a DataError."""
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise DataError(f"missing columns: {listed(missing)}")
    columns = [_as_number(column(table, name), name) for name in names]
    return arrow().table(columns, names=list(names))


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
        raise DataError(
            f"column {name!r} holds text that is not UTF-8; convert the file, for example with "
            "iconv -f latin1 -t utf-8"
        )
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


def group_sizes(table: pa.Table, name: str) -> NDArray[np.int64]:
    """Rows per query, from a column of query ids; a query's rows must be contiguous."""
    ids = _complete(column(table, name), name).to_numpy()
    starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    first, count = np.unique(ids[starts].astype(str), return_counts=True)
    if count.max() > 1:
        raise DataError(
            f"rows of a query must be contiguous, but {first[count.argmax()].item()!r} in column "
            f"{name!r} appears in {count.max()} separate places; sort the rows by {name!r}"
        )
    return np.diff(np.append(starts, len(ids))).astype(np.int64)


def listed(names: Sequence[str], most: int = 8) -> str:
    """Names quoted for a message, the tail of a long list counted."""
    text = ", ".join(repr(name) for name in names[:most])
    return text + (f" and {len(names) - most} more" if len(names) > most else "")


def _expand(patterns: Sequence[str]) -> list[str]:
    """Paths in the order given, a pattern's matches sorted, each path once."""
    paths: list[str] = []
    for pattern in patterns:
        if os.path.exists(pattern):
            paths.append(pattern)
        elif not glob.has_magic(pattern):
            raise DataError(f"{pattern}: no such file")
        elif not (found := sorted(glob.glob(pattern, recursive=True))):
            raise DataError(f"no file matches {pattern!r}")
        else:
            paths += found
    return list(dict.fromkeys(paths))


def _read_file(path: str, delimiter: str | None, rows: tuple[int, int] | None = None) -> pa.Table:
    """The file's table without the index of pandas; `rows` (Parquet only): those alone."""
    pyarrow = arrow()
    if os.path.isdir(path):
        raise DataError(f"{path}: is a directory; name its files, for example '{path}/*.parquet'")
    try:
        table = _parquet_rows(path, *rows) if rows else _reader_of(path, delimiter)()
        all_names = table.column_names
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    kept = [i for i, name in enumerate(all_names) if not _PANDAS_INDEX.fullmatch(name)]
    names = [all_names[i] for i in kept]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"{path}: more than one column is called {listed(twice)}")
    return table.select(kept)


def _is_parquet(path: str) -> bool:
    return path.lower().endswith((".parquet", ".pq"))


def _parquet(path: str) -> Any:
    # Not read_table(path): that one invents columns out of directories named key=value.
    try:
        return arrow().parquet.ParquetFile(path)
    except (arrow().ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error


def _parquet_rows(path: str, first: int, last: int) -> pa.Table:
    needed: list[int] = []
    file, start, skipped = _parquet(path), 0, 0
    for i in range(file.num_row_groups):
        end = start + file.metadata.row_group(i).num_rows
        if start < last and end > first:
            skipped = skipped if needed else start
            needed.append(i)
        start = end
    return file.read_row_groups(needed).slice(first - skipped if needed else 0, last - first)


def _reader_of(path: str, delimiter: str | None) -> Callable[[], Any]:
    pyarrow = arrow()
    lower = path.lower()
    if _is_parquet(path):
        return lambda: _parquet(path).read()
    if lower.endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt")):
        separator = delimiter or _delimiter_of(path)
        if len(separator) != 1 or not separator.isascii():
            raise DataError(f"the delimiter must be one ASCII character, got {separator!r}")
        parse = pyarrow.csv.ParseOptions(delimiter=separator)
        convert = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
        return lambda: pyarrow.csv.read_csv(path, parse_options=parse, convert_options=convert)
    raise DataError(f"{path}: unknown kind of file; the name must end in {FORMATS}")


def _delimiter_of(path: str) -> str:
    return "\t" if path.lower().endswith((".tsv", ".tsv.gz")) else ","


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
    advice = advice or f"features must be numbers; leave it out with --ignore {name}"
    raise DataError(f"column {name!r} {_describe_text(values)}; {advice}")


def _describe_text(values: pa.ChunkedArray) -> str:
    """What keeps a column from being numeric, with the row that shows it."""
    types = arrow().types
    if types.is_string(values.type) or types.is_large_string(values.type):
        for row, value in enumerate(values.to_pylist(), start=1):
            if value is not None and not _is_number(value):
                return f"holds text: {value[:40]!r} in row {row}"
    return f"is of type {values.type}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
