"""Any table becomes columns.

Receives NumPy arrays, lists, pandas, polars, Arrow or SciPy sparse tables, also those that are not
in memory yet (polars LazyFrames, Arrow readers, scanners and datasets), and arrays on a GPU;
returns one-dimensional float32/float64 columns (views where the layout allows) with their names,
categories as the codes of their levels. Columns on a GPU stay there, sparse ones stay sparse.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bitgrove.data.categories import BY_TYPE, CategoryChoice
from bitgrove.data.device_tables import beside, device_table, is_on_gpu, on_host
from bitgrove.data.given_values import as_array, as_numbers, plain_names
from bitgrove.data.levels import Coded, Levels, is_category_type, read_levels
from bitgrove.data.sparse.tables import (
    SparseTable,
    changed_columns,
    dense_column,
    is_sparse,
    not_sparse,
    sound,
    sparse_series,
    summed,
)
from bitgrove.errors import DataError, DataTypeError, Problems

Column = NDArray[Any]
# Parts of the names of column types that are not numbers, or not real ones.
_NO_NUMBERS = (
    "cat", "dict", "str", "utf", "enum", "date", "time", "duration", "complex", "binary",
    "period", "interval", "list", "map", "union", "int128",
)  # fmt: skip
# Of a data frame that is cheaper to copy as a whole than to take apart.
_FEW_ROWS = 1000
# What polars and Arrow call numbers that NumPy has, too.
_NUMBERS = (
    "bool", "boolean", "float16", "halffloat", "float32", "float", "float64", "double",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)  # fmt: skip
# Rows are numbered by int32 in the partition.
MAX_ROWS = 2**31 - 1
# The header of a model file holds the names of so many; 32 bits number all their bins.
MAX_FEATURES = 2**21 - 1


def default_names(n_features: int) -> list[str]:
    return [f"f{i}" for i in range(n_features)]


def column_names(X: Any) -> list[str] | None:
    """Names of a data frame, an Arrow table or a Dataset; None for tables without names."""
    if hasattr(X, "as_columns"):
        return list(X.feature_names)
    if hasattr(X, "column_names"):
        return plain_names(X.column_names)
    if hasattr(X, "columns") and not hasattr(X, "toarray"):
        return plain_names(X.columns)
    return None


def refuse_twice(names: Sequence[str]) -> None:
    """DataError if two columns have one name."""
    if len(set(names)) != len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise DataError(f"X has two columns of the same name, {twice!r}")


class Columns(NamedTuple):
    """The columns of a table as float32 or float64; of a category the codes of its own levels."""

    values: Sequence[Column]
    names: list[str] | None
    levels: dict[int, Levels]


def to_columns(
    X: Any, choice: CategoryChoice = BY_TYPE, feature_names: Sequence[str] | None = None
) -> Columns:
    """The columns of any table; feature_names: what the choice calls them, if not as X does."""
    if hasattr(X, "as_columns"):  # a Dataset
        made: Columns = X.as_columns()
        return made
    X = collected(X)
    names = None if is_on_gpu(X) else column_names(X)
    called = names if feature_names is None else [str(name) for name in feature_names]
    series = _columns_of(X, names, bool(choice.listed))
    if not series:
        raise DataError("X has 0 feature(s) while a minimum of 1 is required.")
    if len(series) > MAX_FEATURES:
        raise DataError(f"X has {len(series)} features; at most {MAX_FEATURES} are allowed")
    listed = choice.positions(called, len(series))
    read: dict[int, Any] = {}
    levels: dict[int, Levels] = {}
    problems = Problems()
    for f in sorted({*not_sparse(series), *listed}):
        column, own = series[f], called if names is None else names
        if f not in listed and _is_ready(column, names):
            read[f] = column
            continue
        name = own[f] if own is not None and f < len(own) else f"f{f}"
        by_type = choice.by_type and names is not None and is_category_type(column)
        with problems.collect():
            if f in listed or by_type:
                coded = read_levels(name, on_host(dense_column(column)), f not in listed)
                levels[f] = coded.levels
                read[f] = beside(_float_codes(coded), column)
            else:
                read[f] = _numeric(name, column)
    problems.report()
    columns = changed_columns(series, read)
    if len(columns[0]) > MAX_ROWS:
        raise DataError(f"X has {len(columns[0])} rows; at most {MAX_ROWS} are allowed per shard")
    return Columns(columns, names, levels)


def _is_ready(column: Any, names: list[str] | None) -> bool:
    """Columns of frames are converted one by one; those of arrays were, unless they hold text."""
    is_array = names is None or isinstance(column, np.ndarray)
    return is_array and column.dtype in (np.float32, np.float64)


def code_type(n_levels: int) -> type[np.float32] | type[np.float64]:
    return np.float32 if n_levels < 2**24 else np.float64


def _float_codes(coded: Coded) -> Column:
    codes = coded.codes.astype(code_type(len(coded.levels)))
    codes[coded.codes < 0] = np.nan
    return codes


def _columns_of(X: Any, names: list[str] | None, has_categories: bool) -> Sequence[Any]:
    """The columns as they are in frames, as numbers in arrays. With categories, arrays of objects
    and of large integers, which float64 may merge, are left as they are: each column is read on
    its own."""
    if is_on_gpu(X):
        table = device_table(X)
        return [table[:, feature] for feature in range(table.shape[1])]
    if names is not None:
        refuse_twice(names)
        return sparse_series(frame_columns(X, names))
    table = X if is_sparse(X) else as_array("X", X)
    is_wide = not is_sparse(table) and table.dtype in (np.int64, np.uint64)
    if has_categories and (is_wide or table.dtype.kind in "OUT") and table.ndim == 2:
        return [table[:, feature] for feature in range(table.shape[1])]
    return _array_columns(table)


def sparse_rows(X: Any) -> SparseTable:
    """A SciPy matrix or array, stored by rows."""
    table = SparseTable.of(_checked_array(X))
    return table if table.by_rows else SparseTable(table.matrix.tocsr())


def _array_columns(given: Any) -> Sequence[Column]:
    table = _checked_array(given)
    if is_sparse(table):
        return SparseTable.of(table).columns()
    table = np.require(table, requirements="A")  # a view of raw bytes may lie anywhere
    return [table[:, feature] for feature in range(table.shape[1])]


def _checked_array(table: Any) -> Any:
    """Of float32 or float64, sparse or not."""
    is_array = isinstance(table, np.ndarray) and table.ndim == 2 and table.shape[1] > 0
    if is_array and table.dtype in (np.float64, np.float32):
        return table  # nothing to check, nor to import
    from sklearn.utils.validation import check_array  # importing it takes longer than all else

    table = as_numbers("X", table)
    if is_sparse(table) and table.ndim == 2:
        table = summed(table)  # before it is of another type
    return check_array(
        table,
        accept_sparse=["csr", "csc"],
        dtype=[np.float64, np.float32],
        ensure_all_finite=False,
        ensure_min_samples=0,  # a shard may be empty; train() counts the rows of all ranks
        estimator="bitgrove",
        input_name="X",
    )


class _Frame(NamedTuple):
    """How a library is asked."""

    kinds: Sequence[Any]  # of each column; None where it is no number of NumPy's
    table: Callable[[list[int]], NDArray[Any] | None]  # columns of one kind, if an array is as good
    column: Callable[[int], Any]
    is_cheap: bool  # to have arrays made


def frame_columns(X: Any, names: list[str]) -> list[Any]:
    """The columns of a frame with these names, as those of arrays where the frame is one or a copy
    of it costs next to nothing: to make an object of each takes as long as thousands of numbers."""
    if hasattr(X, "iloc"):
        frame = _pandas(X)
    elif hasattr(X, "column_names"):
        frame = _arrow(X)
    elif type(X).__module__.startswith("polars"):
        frame = _polars(X)
    else:
        return [X[name] for name in names]
    alike: dict[Any, list[int]] = {}
    for f, kind in enumerate(frame.kinds if frame.is_cheap else ()):
        if kind is not None:
            alike.setdefault(kind, []).append(f)
    columns: dict[int, Any] = {}
    for at in alike.values():
        table = frame.table(at)
        if table is not None:
            columns.update(zip(at, np.require(table, requirements="A").T, strict=True))
    return [columns[f] if f in columns else frame.column(f) for f in range(len(names))]


def _pandas(X: Any) -> _Frame:
    types = X.dtypes.tolist()

    def table(at: list[int]) -> NDArray[Any] | None:
        part, kind = X if len(at) == len(types) else X.iloc[:, at], types[at[0]]
        if isinstance(kind, np.dtype):
            return np.asarray(part.to_numpy())
        found = np.asarray(part.to_numpy(dtype=_float_type(str(kind)), na_value=np.nan))
        # Large whole numbers may be levels, of which floats would make the same.
        is_wide = kind.numpy_dtype in (np.int64, np.uint64)
        return None if is_wide and (np.abs(found) >= 2.0**53).any() else found

    kinds = [kind if _is_number(kind) else None for kind in types]
    return _Frame(kinds, table, lambda f: X.iloc[:, f], len(X) <= _FEW_ROWS or _is_one_array(X))


def _is_number(kind: Any) -> bool:
    """Of a type of pandas, which may be a nullable one."""
    stored = kind if isinstance(kind, np.dtype) else getattr(kind, "numpy_dtype", None)
    return stored is not None and stored.kind in "biuf"


def _is_one_array(X: Any) -> bool:
    """Whether all columns lie in one array: then a row of it is a view."""
    row = X.iloc[:1]
    first = row.iloc[:, 0].to_numpy() if row.shape[1] else None
    return isinstance(first, np.ndarray) and np.may_share_memory(row.to_numpy(), first)


def _polars(X: Any) -> _Frame:
    def table(at: list[int]) -> NDArray[Any] | None:
        part = X[:, at]
        has_nulls = any(part.null_count().row(0))
        return None if has_nulls and not part.dtypes[0].is_float() else np.asarray(part.to_numpy())

    return _Frame(_known(X.dtypes), table, lambda f: X[:, f], len(X) <= _FEW_ROWS)


def _arrow(X: Any) -> _Frame:
    columns = X.columns

    def table(at: list[int]) -> NDArray[Any] | None:
        chunks = [part for f in at for part in getattr(columns[f], "chunks", [columns[f]])]
        whole = sys.modules["pyarrow"].concat_arrays(chunks)
        if whole.null_count and not str(whole.type).endswith(("float", "double")):
            return None
        return np.asarray(whole.to_numpy(zero_copy_only=False)).reshape(len(at), -1).T

    is_cheap = 0 < X.num_rows <= _FEW_ROWS
    return _Frame(_known(X.schema.types), table, columns.__getitem__, is_cheap)


def _known(kinds: Sequence[Any]) -> list[str | None]:
    """The names of types, where they are numbers of NumPy's."""
    names = [str(kind).lower() for kind in kinds]
    return [name if name in _NUMBERS else None for name in names]


def _numeric(name: str, series: Any) -> Column:
    """One column of a data frame as float32 or float64, nulls as NaN."""
    dtype = getattr(series, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype in (np.float32, np.float64):
        return np.require(np.asarray(series), requirements="A")
    kind = str(dtype or getattr(series, "type", ""))
    if any(word in kind.lower() for word in _NO_NUMBERS):
        raise DataError(f"column {name!r} has type {kind}; numbers are needed (encode or drop it)")
    if hasattr(series, "isna"):  # pandas: nullable types know how to fill
        wanted = object if kind == "object" else _float_type(kind)
        values = series.to_numpy(dtype=wanted, na_value=np.nan)
    else:
        values = np.asarray(series)
    values = as_numbers(f"column {name!r}", values)
    if values.ndim != 1:
        raise DataError(f"column {name!r} has type {kind}; one number per row is needed")
    numbers = values.astype(_float_type(str(values.dtype)), copy=False)
    return np.require(numbers, requirements="A")


def _float_type(kind: str) -> type[np.float32] | type[np.float64]:
    narrow = {"float32", "float16", "float", "int8", "int16", "uint8", "uint16", "bool", "boolean"}
    return np.float32 if kind.lower() in narrow else np.float64


def name_difference(names: list[str], expected: list[str]) -> str:
    known, wanted = set(names), set(expected)
    missing = [name for name in expected if name not in known]
    extra = [name for name in names if name not in wanted]
    if missing or extra:
        return f"columns differ from training: missing {missing[:5]}, unexpected {extra[:5]}"
    return "columns are the training columns in another order; reorder them as in training"


class HasFeatures(Protocol):
    """A Dataset that another one has the features of."""

    feature_names: list[str]


def given_names(ours: Sequence[str] | None, lightgbm: Sequence[str] | None) -> Any:
    if ours is not None and lightgbm is not None:
        raise DataError("feature_names and feature_name are the same; give one of them")
    given = ours if ours is not None else lightgbm
    return None if isinstance(given, str) and given == "auto" else given


def _is_unicode(text: str) -> bool:
    """Half of a surrogate pair is a str, but nothing that a file can hold."""
    return text.isascii() or text == text.encode(errors="ignore").decode()


def checked_names(
    given: Sequence[str] | None,
    found: list[str] | None,
    n_features: int,
    reference: HasFeatures | None,
) -> list[str]:
    if isinstance(given, str):
        raise DataError(f"feature_names must be a list of names, got {given!r}")
    names = plain_names(given) if given is not None else found
    if names is not None and (strange := [name for name in names if not _is_unicode(name)]):
        raise DataError(f"feature_names: {strange[0]!r} is not Unicode text")
    if reference is not None:
        if len(reference.feature_names) != n_features:
            raise DataError(
                f"X has {n_features} features, the reference has {len(reference.feature_names)}"
            )
        names = reference.feature_names if names is None else names
        if names != reference.feature_names:
            raise DataError(name_difference(names, reference.feature_names))
    if names is None:
        return default_names(n_features)
    if len(names) != n_features:
        raise DataError(f"feature_names: {len(names)} names for {n_features} features")
    if len(set(names)) != len(names):
        raise DataError("feature_names: names must be unique")
    return names


def collected(X: Any) -> Any:
    """X in memory."""
    module = type(X).__module__.partition(".")[0]
    if module == "polars" and hasattr(X, "collect"):  # a LazyFrame
        return X.collect()
    if module == "pyarrow":
        for method in ("read_all", "to_table"):  # a RecordBatchReader; a Dataset or Scanner
            if hasattr(X, method) and not hasattr(X, "column_names"):
                return getattr(X, method)()
        if hasattr(X, "to_scipy"):
            return X.to_scipy()  # a SparseCSRMatrix, a SparseCOOTensor, ...
        if hasattr(X, "read_row_group"):
            return X.read()  # a ParquetFile
        return X
    if len(getattr(X, "shape", (0, 0))) == 1 and hasattr(X, "to_frame"):
        raise DataError(
            "X is a Series; a table is needed (of a column: X.to_frame(), of a row: X.iloc[[i]])"
        )
    if is_sparse(X):
        return sound(X)
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
