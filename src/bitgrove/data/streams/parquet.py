"""Parquet files as batches: the features stream, the label and its like are read whole.

Owns the finding and opening of Parquet files. Receives paths or patterns; whatever is wrong with a
file is a DataError that names it.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bitgrove.data.dataset import Dataset
from bitgrove.errors import DataError, DataTypeError

_BATCH_BYTES = 8 << 20  # of values as float64, read together
_BUFFER_BYTES = 1 << 18  # of a column of a file: without buffers, whole row groups are in memory
_LEAST_ROWS = 1024


def arrow() -> Any:
    """The pyarrow package with its csv and parquet modules loaded."""
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("reading tables needs pyarrow: pip install bitgrove[cli]") from error
    return pyarrow


def expand(patterns: Sequence[str]) -> list[str]:
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


def refuse_folder(path: str) -> None:
    if os.path.isdir(path):
        raise DataError(f"{path}: is a directory; name its files, for example '{path}/*.parquet'")


def open_parquet(path: str) -> Any:
    """A ParquetFile."""
    refuse_folder(path)
    # Not read_table(path): that one invents columns out of directories named key=value.
    try:
        return arrow().parquet.ParquetFile(path, buffer_size=_BUFFER_BYTES, pre_buffer=False)
    except (arrow().ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error


class ParquetRows(NamedTuple):
    """The rows [first, last) of some files, one below the other."""

    paths: Sequence[str]
    first: int = 0
    last: int | None = None

    def batches(self, names: Sequence[str]) -> Iterator[Any]:
        """Arrow tables of these columns, a few megabytes each."""
        size = max(_LEAST_ROWS, _BATCH_BYTES // (8 * max(1, len(names))))
        start = 0
        for path in self.paths:
            file = open_parquet(path)
            for group in range(file.num_row_groups):
                n_rows = file.metadata.row_group(group).num_rows
                low, high = (self._within(row, start, n_rows) for row in (self.first, self.last))
                start += n_rows
                if low < high:
                    yield from _row_group(path, file, group, names, size, low, high)
            # Arrow keeps what it frees for its next table; the bins have more need of it.
            arrow().default_memory_pool().release_unused()

    @property
    def n_rows(self) -> int:
        total = sum(open_parquet(path).metadata.num_rows for path in self.paths)
        last = total if self.last is None else min(self.last, total)
        return max(last - self.first, 0)

    def _within(self, row: int | None, start: int, n_rows: int) -> int:
        return n_rows if row is None else min(max(row - start, 0), n_rows)

    def read(self, names: Sequence[str]) -> Any:
        """These columns of all rows, as one Arrow table."""
        pyarrow = arrow()
        schemas = [open_parquet(path).schema_arrow for path in self.paths]
        nothing = [schema.empty_table().select(list(names)) for schema in schemas]
        try:
            parts = [*nothing, *self.batches(names)]
            return pyarrow.concat_tables(parts, promote_options="permissive")
        except pyarrow.ArrowException as error:
            raise DataError(f"the files' columns do not fit together: {error}") from error

    def column_names(self) -> list[str]:
        """Of the first file; all must have the same, in any order."""
        names: list[str] = open_parquet(self.paths[0]).schema_arrow.names
        for path in self.paths[1:]:
            found = set(open_parquet(path).schema_arrow.names)
            if found != set(names):
                missing, extra = sorted(set(names) - found), sorted(found - set(names))
                raise DataError(
                    f"{path}: its columns differ from those of {self.paths[0]}: missing "
                    f"{missing[:5]}, unexpected {extra[:5]}"
                )
        return names


def _row_group(
    path: str, file: Any, group: int, names: Sequence[str], size: int, low: int, high: int
) -> Iterator[Any]:
    pyarrow, start = arrow(), 0
    try:
        batches = file.iter_batches(size, row_groups=[group], columns=list(names))
        for batch in batches:
            first, last = max(low - start, 0), min(high - start, batch.num_rows)
            start += batch.num_rows
            if first < last:
                table = pyarrow.Table.from_batches([batch.slice(first, last - first)])
                yield table.select(list(names))
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error


def from_parquet(
    paths: Any,
    label: str | None = None,
    *,
    weight: str | None = None,
    group: str | None = None,
    init_score: str | None = None,
    ignore: Sequence[str] = (),
    **settings: Any,
) -> Dataset:
    """What Dataset.from_parquet returns, from its arguments."""
    given = list(paths) if isinstance(paths, (list, tuple)) else [paths]
    if not all(isinstance(path, (str, os.PathLike)) for path in given) or not given:
        raise DataTypeError(f"paths: a name, a pattern or a list of them is needed, got {paths!r}")
    rows = ParquetRows(expand([os.fspath(path) for path in given]))
    roles = {"label": label, "weight": weight, "qid": group, "init_score": init_score}
    named = {role: name for role, name in roles.items() if name is not None}
    all_names = rows.column_names()
    if isinstance(ignore, str):
        raise DataError(f"ignore={ignore!r}: a list of columns is needed")
    for role, name in [*named.items(), *(("ignore", name) for name in ignore)]:
        if name not in all_names:
            raise DataError(f"{'group' if role == 'qid' else role}={name!r}: no such column")
    left = [n for n in all_names if n not in {*named.values(), *ignore}]
    table: Any = rows.read([*dict.fromkeys(named.values())]) if named else None
    parts = {role: _per_row(table.column(name), name) for role, name in named.items()}
    return Dataset.from_batches(lambda: rows.batches(left), **parts, **settings)


def _per_row(column: Any, name: str) -> Any:
    if column.null_count:
        raise DataError(f"column {name!r} has no value in {column.null_count} rows")
    return np.asarray(column)
