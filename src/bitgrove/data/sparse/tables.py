"""Sparse tables: what is stored stays as it is, what is not stored is zero.

Owns SparseTable, the arrays of a CSR or CSC matrix, and SparseColumns: the columns of one, with
others, such as categories, among them. There is no object for each column until one is asked for,
so nothing here costs time by the number of columns. Rows are taken and joined for all at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.data.device_tables import is_on_gpu, on_host, take_rows
from bitgrove.errors import DataError, HostMemoryError
from bitgrove.machine.memory import free_memory
from bitgrove.machine.threads import resolve_threads

Array = NDArray[Any]
# Types that float32 holds.
_NARROW = ("float16", "int8", "int16", "uint8", "uint16", "bool")
# Values of a table that are turned from columns to rows, or made dense, at a time.
_PART_VALUES = 1 << 22


def sound(matrix: Any) -> Any:
    """The matrix; DataError if its arrays point outside of it, where SciPy would read and write."""
    form, shape, ok = matrix.format, matrix.shape, True
    if form in ("csr", "csc", "bsr"):
        size = getattr(matrix, "blocksize", (1, 1))
        outer, inner = (shape[k] // size[k] for k in ((1, 0) if form == "csc" else (0, 1)))
        starts, at = matrix.indptr, matrix.indices
        ok = len(starts) == outer + 1 and starts[0] == 0 and bool((np.diff(starts) >= 0).all())
        ok = ok and starts[-1] <= len(at) == len(matrix.data) and _below(at[: starts[-1]], inner)
    elif form == "coo" and matrix.ndim == 2:
        ok = len(matrix.row) == len(matrix.col) == len(matrix.data)
        ok = ok and _below(matrix.row, shape[0]) and _below(matrix.col, shape[1])
    if not ok:
        raise DataError(
            f"X is no sound {form.upper()} matrix: pointers or indices lead out of its {shape}"
        )
    return matrix


def _below(indices: Array, n: int) -> bool:
    """Whether all are from 0 to n - 1; a negative one is a large one without its sign."""
    unsigned = indices.view(indices.dtype.str.replace("i", "u"))
    return len(indices) == 0 or int(unsigned.max()) < n


def summed(matrix: Any) -> Any:
    """As CSR or CSC; what is stored twice is summed, in the type that it has, as SciPy does."""
    if matrix.format not in ("csr", "csc"):
        matrix = sound(matrix.tocsr())
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


class Survey(NamedTuple):
    """Of each column: how many values are not zero, and whether some are missing."""

    filled: NDArray[np.int64]
    missing: NDArray[np.uint8]


class SparseTable:
    """matrix: CSR or CSC of float32 or float64, its indices sorted and each there once."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix
        self.n_rows, self.n_columns = (int(n) for n in matrix.shape)
        self.dtype = matrix.dtype

    @staticmethod
    def of(matrix: Any) -> SparseTable:
        """Of a SciPy matrix or array in any format; copied only where it has to be."""
        matrix = summed(matrix)
        if matrix.dtype.name in _NARROW:
            matrix = matrix.astype(np.float32)
        elif matrix.dtype not in (np.float32, np.float64):
            matrix = matrix.astype(np.float64)
        return SparseTable(matrix)

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, self.n_columns

    def __len__(self) -> int:
        return self.n_rows

    @property
    def by_rows(self) -> bool:
        return str(self.matrix.format) == "csr"

    @property
    def n_values(self) -> int:
        return int(self.matrix.nnz)

    @cached_property
    def core(self) -> _core.SparseTable:
        """For the core, which looks at the same memory."""
        m = self.matrix
        shape = (self.n_rows, self.n_columns, self.by_rows)
        return _core.SparseTable(m.indptr, m.indices, m.data, *shape)

    @cached_property
    def survey(self) -> Survey:
        return Survey(*self.core.survey(None, resolve_threads(None)))

    def columns(self) -> SparseColumns:
        return SparseColumns(self, np.arange(self.n_columns, dtype=np.int32), {})

    def column(self, j: int) -> Array:
        """All rows of one column."""
        return np.asarray(self.matrix[:, [j]].toarray()[:, 0])

    def dense(self, order: str = "C") -> Array:
        """As an array; HostMemoryError if there is no room for it."""
        require_room(self.n_rows, self.n_columns, self.dtype.itemsize)
        return np.asarray(self.matrix.toarray(order=order))

    def take(self, rows: Any) -> SparseTable:
        """The listed rows, or a slice of them."""
        return SparseTable.of(self.matrix[rows])

    def parts(self, begin: int, end: int) -> Iterator[tuple[int, SparseTable]]:
        """The rows [begin, end) stored by rows, with the first of each part; as they are if they
        are so already."""
        if self.by_rows:
            yield (
                begin,
                (self if (begin, end) == (0, self.n_rows) else self.take(slice(begin, end))),
            )
            return
        per_row = max(1, self.n_values // max(1, self.n_rows))
        step = max(1, _PART_VALUES // per_row)
        for first in range(begin, end, step):
            taken = self.matrix[first : min(first + step, end)]
            yield first, SparseTable(taken.tocsr())


class SparseColumn:
    """One column of a table. Reading it gives the values of all rows."""

    __slots__ = ("index", "table")

    def __init__(self, table: SparseTable, index: int) -> None:
        self.table, self.index = table, index

    def __len__(self) -> int:
        return self.table.n_rows

    @property
    def dtype(self) -> Any:
        return self.table.dtype

    def __getitem__(self, rows: Any) -> Array:
        return np.asarray(self)[rows]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self.table.column(self.index).astype(dtype or self.dtype, copy=False)

    def is_missing(self) -> bool:
        """Whether no row has a value."""
        filled = int(self.table.survey.filled[self.index])
        return filled == len(self) and bool(np.isnan(np.asarray(self)).all())


class SparseColumns(Sequence[Any]):
    """column_of: of each feature its column in the table, -1 for those that are in `others`."""

    def __init__(
        self, table: SparseTable, column_of: NDArray[np.int32], others: Mapping[int, Any]
    ) -> None:
        self.table, self.column_of, self.others = table, column_of, dict(others)

    def __len__(self) -> int:
        return len(self.column_of)

    def __getitem__(self, f: Any) -> Any:
        if isinstance(f, slice):
            return [self[i] for i in range(*f.indices(len(self)))]
        f = range(len(self))[f]
        column = int(self.column_of[f])
        return self.others[f] if column < 0 else SparseColumn(self.table, column)

    @property
    def sparse(self) -> NDArray[np.int64]:
        """The features that are columns of the table."""
        return np.flatnonzero(self.column_of >= 0)

    def renewed(self, table: SparseTable, others: Sequence[Any]) -> SparseColumns:
        """Columns of another table; others stand where they stood."""
        return SparseColumns(table, self.column_of, dict(zip(self.others, others, strict=True)))

    def changed(self, changes: Mapping[int, Any], more: Sequence[Any]) -> SparseColumns:
        """Other columns in place of some, and more of them behind the last."""
        new = {**changes, **dict(enumerate(more, len(self)))}
        column_of = np.concatenate([self.column_of, np.full(len(more), -1, dtype=np.int32)])
        column_of[list(new)] = -1
        return SparseColumns(self.table, column_of, {**self.others, **new})


def changed_columns(
    columns: Sequence[Any], changes: Mapping[int, Any], more: Sequence[Any] = ()
) -> Sequence[Any]:
    """A list with other columns in place of some, and more of them behind the last."""
    if isinstance(columns, SparseColumns):
        return columns.changed(changes, more)
    return [changes.get(f, column) for f, column in enumerate(columns)] + list(more)


def table_of(columns: Sequence[Any]) -> SparseTable | None:
    """The table that some of the columns are of."""
    return columns.table if isinstance(columns, SparseColumns) else None


def not_sparse(columns: Sequence[Any]) -> Sequence[int]:
    """The columns that are of no sparse table."""
    return sorted(columns.others) if isinstance(columns, SparseColumns) else range(len(columns))


def dense_column(column: Any) -> Any:
    """The column as an array, where it is."""
    return np.asarray(column) if isinstance(column, SparseColumn) else column


def require_room(n_rows: int, n_columns: int, itemsize: int) -> None:
    """HostMemoryError if a sparse table cannot be held as a dense one."""
    needed, free = n_rows * n_columns * itemsize, free_memory()
    if free is not None and needed > free:
        raise HostMemoryError(
            f"this needs a sparse table as a dense one: {n_rows} rows of {n_columns} features are "
            f"{needed / 1e9:.3g} GB, and {free / 1e9:.3g} GB are left. Training and predictions "
            'on device="cpu" keep it sparse; other answers can be had for some rows at a time'
        )


def dense_columns(columns: Sequence[Any]) -> Sequence[Any]:
    """All columns as arrays, for those who need them so."""
    if not isinstance(columns, SparseColumns):
        return columns
    whole, places = columns.table.dense("F"), columns.column_of.tolist()
    return [whole[:, j] if j >= 0 else columns.others[f] for f, j in enumerate(places)]


def take_columns(columns: Sequence[Any], rows: NDArray[Any] | slice) -> Sequence[Any]:
    """The listed rows of all columns."""
    if not isinstance(columns, SparseColumns):
        return [take_rows(column, rows) for column in columns]
    others = [take_rows(column, rows) for column in columns.others.values()]
    return columns.renewed(columns.table.take(rows), others)


def join_columns(parts: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """The columns of several tables, one below the other."""
    first, own = parts[0], [part for part in parts if isinstance(part, SparseColumns)]
    if len(parts) == 1:
        return first
    if len(own) < len(parts) or not isinstance(first, SparseColumns):
        parts = [dense_columns(columns) for columns in parts]
        return [np.concatenate(same) for same in zip(*parts, strict=True)]
    from scipy import sparse

    matrices = [part.table.matrix for part in own]
    joined = SparseTable.of(sparse.vstack(matrices, format=matrices[0].format))
    others = [np.concatenate([dense_column(part[f]) for part in own]) for f in first.others]
    return first.renewed(joined, others)


def row_parts(columns: SparseColumns, begin: int, end: int) -> Iterator[tuple[int, SparseTable]]:
    """The rows [begin, end) of all columns as tables stored by rows, with the first of each."""
    table = columns.table
    whole = np.array_equal(columns.column_of, np.arange(table.n_columns))
    for first, part in table.parts(begin, end):
        yield first, part if whole else _with_others(columns, part, first)


def rows_of(columns: SparseColumns) -> SparseTable:
    """All columns as one table stored by rows."""
    from scipy import sparse

    parts = [part for _, part in row_parts(columns, 0, columns.table.n_rows)]
    if len(parts) == 1:
        return parts[0]
    none = sparse.csr_array((0, len(columns)))
    return SparseTable.of(sparse.vstack([none, *(part.matrix for part in parts)], format="csr"))


def _with_others(columns: SparseColumns, part: SparseTable, first: int) -> SparseTable:
    """Rows of the table, with those columns that are not of it."""
    from scipy import sparse

    there, here = columns.sparse, np.flatnonzero(columns.column_of < 0)
    rows = slice(first, first + part.n_rows)
    given = [on_host(columns.others[f])[rows].astype(np.float64) for f in here.tolist()]
    others = np.stack(given, axis=1) if given else np.zeros((part.n_rows, 0))
    own = part.matrix[:, columns.column_of[there]]
    both = sparse.hstack([own, sparse.csr_array(others)], format="csr")
    order = np.empty(len(columns), dtype=np.int64)
    order[np.concatenate([there, here])] = np.arange(len(columns))
    return SparseTable.of(both[:, order])


def is_sparse(X: Any) -> bool:
    """Whether X is a SciPy matrix or array; those of a GPU are not looked into."""
    return hasattr(X, "toarray") and hasattr(X, "format") and not is_on_gpu(X)


def sparse_series(columns: Sequence[Any]) -> Sequence[Any]:
    """Columns of a data frame, those of pandas' sparse types with zeros between as one table."""
    chosen = [i for i, column in enumerate(columns) if _has_implied_zeros(column)]
    if not chosen:
        return columns
    from scipy import sparse

    arrays = [columns[i].array for i in chosen]
    values = [array.sp_values for array in arrays]
    dtype = np.result_type(*{v.dtype for v in values})
    pointers = np.concatenate([[0], np.cumsum([len(v) for v in values])])
    rows = np.concatenate([array.sp_index.indices for array in arrays])
    shape = (len(columns[0]), len(chosen))
    stored = np.concatenate(values).astype(dtype, copy=False)
    table = SparseTable.of(sparse.csc_array((stored, rows, pointers), shape=shape))
    column_of = np.full(len(columns), -1, dtype=np.int32)
    column_of[chosen] = np.arange(len(chosen))
    others = {f: columns[f] for f in np.flatnonzero(column_of < 0).tolist()}
    return SparseColumns(table, column_of, others)


def _has_implied_zeros(column: Any) -> bool:
    dtype = getattr(column, "dtype", None)
    if isinstance(dtype, np.dtype) or not str(dtype).startswith("Sparse"):
        return False
    is_number = getattr(dtype, "subtype", np.dtype(object)).kind in "biuf"
    return bool(is_number and dtype.fill_value == 0)  # type: ignore[union-attr]
