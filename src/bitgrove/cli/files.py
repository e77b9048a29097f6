"""CSV and Parquet files as Arrow tables, for the command line.

This room owns reading and writing of table files. It receives paths and returns
Arrow tables; what is in their columns is tables.py. Whatever is wrong with a
file is a DataError that names it.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.cli.tables import column, is_text, listed
from bitgrove.data.streams.parquet import (
    ParquetRows,
    arrow,
    expand,
    open_parquet,
    refuse_folder,
)
from bitgrove.errors import DataError
from bitgrove.machine.files import replacing

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = ".csv, .csv.gz, .tsv, .parquet or .pq"
_HEAD = 1 << 16  # bytes in which a header is looked for
# What pandas calls the index it writes to Parquet, and to CSV: a row number, not a feature.
_PANDAS_INDEX = re.compile(r"__index_level_\d+__|")


@dataclass(frozen=True)
class Reading:
    """How files are read.

    delimiter: of CSV files; None: by their name. part: (i, n), the i-th of n parts of the rows.
    group: the column of query ids, which no part cuts through. text: columns that are text,
    whatever a CSV file's values look like.
    """

    delimiter: str | None = None
    part: tuple[int, int] = (0, 1)
    group: str | None = None
    text: frozenset[str] = frozenset()


_AS_IT_IS = Reading()


def read_table(patterns: Sequence[str], how: Reading = _AS_IT_IS) -> pa.Table:
    """All files the patterns name, one below the other, with the columns of the first file.

    Of several parts: whole files if there are at least as many, else a range of rows.
    """
    paths = expand(patterns)
    index, n_parts = how.part
    if len(paths) >= n_parts:
        share = slice(len(paths) * index // n_parts, len(paths) * (index + 1) // n_parts)
        whole = _joined(paths[share], _read_files(paths[share], how))
    else:
        whole = _row_range(paths, how)
    if n_parts == 1 and whole.num_rows == 0:
        raise DataError(f"{', '.join(paths)}: no rows")
    return whole


def _read_files(paths: Sequence[str], how: Reading) -> list[pa.Table]:
    """Their tables; what is text in one of them is text in all, even if it looks like numbers."""
    tables = [_read_file(path, how.delimiter, how.text) for path in paths]
    text = how.text.union(*map(text_columns, tables))
    return [
        table if text <= text_columns(table) | how.text else _read_file(path, how.delimiter, text)
        for path, table in zip(paths, tables, strict=True)
    ]


def text_columns(table: pa.Table) -> frozenset[str]:
    return frozenset(field.name for field in table.schema if is_text(field.type))


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


def _row_range(paths: Sequence[str], how: Reading) -> pa.Table:
    """The rows of one part; of Parquet files only the row groups that hold some are read."""
    found = parquet_rows(paths, how)
    if found is not None:
        rows, head = found
        return rows.read(head.column_names)
    whole = _joined(paths, _read_files(paths, how))
    ids = column(whole, how.group).to_numpy() if how.group else None
    first, last = _range_of(how.part, whole.num_rows, ids)
    return whole.slice(first, last - first)


def parquet_rows(patterns: Sequence[str], how: Reading) -> tuple[ParquetRows, pa.Table] | None:
    """This part of the files' rows, and an empty table of their columns; None if some are CSV."""
    paths = expand(patterns)
    if not all(_is_parquet(path) for path in paths):
        return None
    index, n_parts = how.part
    of_files = len(paths) >= n_parts
    if of_files:
        paths = paths[len(paths) * index // n_parts : len(paths) * (index + 1) // n_parts]
    heads = [_named_columns(path, open_parquet(path).schema_arrow.empty_table()) for path in paths]
    head, rows = _joined(paths, heads), ParquetRows(paths)
    if not of_files:
        ids = column(rows.read([how.group]), how.group).to_numpy() if how.group else None
        rows = ParquetRows(paths, *_range_of(how.part, rows.n_rows, ids))
    if n_parts == 1 and rows.n_rows == 0:
        raise DataError(f"{', '.join(paths)}: no rows")
    return rows, head


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
    if target.exists() and any(target.samefile(name) for name in expand(list(inputs))):
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


def _read_file(
    path: str,
    delimiter: str | None,
    text: frozenset[str],
) -> pa.Table:
    """The file's table without the index of pandas."""
    pyarrow = arrow()
    refuse_folder(path)
    read = _reader_of(path, delimiter, text)
    try:
        _refuse_utf16(path)
        table = read()
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, pyarrow.ArrowInvalid) and delimiter is None and os.path.isfile(path):
            _refuse_one_column(path, [_first_line(path)])
        raise DataError(f"{path}: cannot be read: {error}") from error
    named = _named_columns(path, table)
    if delimiter is None and not _is_parquet(path):
        _refuse_one_column(path, named.column_names)
    return named


def _refuse_utf16(path: str) -> None:
    """Arrow would count columns in the halves of its letters."""
    if not os.path.isfile(path):  # a pipe is read once
        return
    with open(path, "rb") as file:
        if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            raise DataError(
                f"{path}: cannot be read: it looks like UTF-16 text; convert the file, for "
                "example with iconv -f utf-16 -t utf-8"
            )


def _first_line(path: str) -> str:
    """Of a text file, as far as it can be read."""
    with contextlib.suppress(OSError), arrow().input_stream(path) as file:
        return str(file.read(_HEAD).partition(b"\n")[0], "utf-8", "replace").strip()
    return ""


def _refuse_one_column(path: str, names: Sequence[str]) -> None:
    """A whole header as one name: the columns are separated by something else."""
    name = names[0] if len(names) == 1 and _delimiter_of(path) not in names[0] else ""
    for separator, typed in {";": "';'", "\t": "$'\\t'", "|": "'|'", ",": ","}.items():
        if separator in name:
            raise DataError(
                f"{path}: has one column, {name[:60]!r}; if {separator!r} separates its columns, "
                f"say so: --delimiter {typed}"
            )


def _named_columns(path: str, table: pa.Table) -> pa.Table:
    """The table without the index of pandas; DataError if two columns have one name."""
    try:
        all_names = table.column_names
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    kept = [i for i, name in enumerate(all_names) if not _PANDAS_INDEX.fullmatch(name)]
    names = [all_names[i] for i in kept]
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise DataError(f"{path}: more than one column is called {listed(twice)}")
    return table.select(kept)


def _is_parquet(path: str) -> bool:
    return path.lower().endswith((".parquet", ".pq"))


def _reader_of(path: str, delimiter: str | None, text: frozenset[str]) -> Callable[[], Any]:
    pyarrow = arrow()
    lower = path.lower()
    if _is_parquet(path):
        return lambda: open_parquet(path).read()
    if lower.endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt")):
        separator = _delimiter_of(path) if delimiter is None else delimiter
        if len(separator) != 1 or not separator.isascii():
            raise DataError(f"the delimiter must be one ASCII character, got {separator!r}")
        parse = pyarrow.csv.ParseOptions(delimiter=separator)
        types = dict.fromkeys(text, pyarrow.string())
        convert = pyarrow.csv.ConvertOptions(strings_can_be_null=True, column_types=types)
        return lambda: pyarrow.csv.read_csv(path, parse_options=parse, convert_options=convert)
    raise DataError(f"{path}: unknown kind of file; the name must end in {FORMATS}")


def _delimiter_of(path: str) -> str:
    return "\t" if path.lower().endswith((".tsv", ".tsv.gz")) else ","
