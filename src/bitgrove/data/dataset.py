"""Any table becomes columns; labels, weights and query groups are checked.

Owns Dataset. Receives NumPy arrays, lists, pandas, polars, Arrow or SciPy sparse tables, and arrays
on a GPU; returns a list of one-dimensional float32/float64 columns (views where the layout allows)
with names. Columns on a GPU stay there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from bitgrove.arithmetic.limits import MAX_MAGNITUDE, MIN_WEIGHT
from bitgrove.data.device_tables import device_table, is_on_gpu, on_host, take_rows
from bitgrove.errors import DataError, DataTypeError

Column = NDArray[Any]
# Parts of the names of column types that are not numbers, or not real ones.
_NO_NUMBERS = (
    "cat", "dict", "str", "utf", "enum", "date", "time", "duration", "complex", "binary",
    "period", "interval", "list",
)  # fmt: skip
# Rows are numbered by int32 in the partition.
MAX_ROWS = 2**31 - 1


def default_names(n_features: int) -> list[str]:
    return [f"f{i}" for i in range(n_features)]


def column_names(X: Any) -> list[str] | None:
    """Names of a data frame or Arrow table; None for tables without names."""
    if hasattr(X, "column_names"):
        return [str(name) for name in X.column_names]
    if hasattr(X, "columns") and not hasattr(X, "toarray"):
        return [str(name) for name in X.columns]
    return None


class Dataset:
    """A table with labels, ready to be binned by train().

    X: (n_rows, n_features) numbers; NaN and nulls are missing values. A rank's shard may have none.
    label: one number per row, or several columns of them.
    weight: non-negative; rows of weight zero are left out of training.
    group: number of rows of each query, in row order (ranking).
    init_score: scores that training starts from, one per row (and output), instead of a constant;
    predictions do not hold them. Also called base_margin or offset.
    """

    def __init__(
        self,
        X: Any,
        label: Any = None,
        *,
        weight: Any = None,
        group: Any = None,
        init_score: Any = None,
        feature_names: Sequence[str] | None = None,
    ) -> None:
        self.columns, names = to_columns(X)
        self.feature_names = _checked_names(feature_names, names, self.n_features)
        self.label = None if label is None else _columns(label, self.n_rows, "label")
        self.weight = None if weight is None else _weight(weight, self.n_rows)
        self.group = None if group is None else _group(group, self.n_rows)
        given = init_score
        self.init_score = None if given is None else _columns(given, self.n_rows, "init_score")
        self.pieces: list[tuple[int, int]] | None = None
        self.binned: dict[Any, Any] = {}

    @property
    def n_rows(self) -> int:
        return len(self.columns[0])

    @property
    def n_features(self) -> int:
        return len(self.columns)

    @property
    def device(self) -> str:
        """Where the columns lie: "cpu", or the name of a GPU."""
        first = self.columns[0]
        return "cpu" if isinstance(first, np.ndarray) else f"cuda:{first.device.id}"

    @staticmethod
    def joined(datasets: Sequence[Dataset], positions: Sequence[int]) -> Dataset:
        """The rows of several datasets as one shard of a larger table.

        positions: where each stands in the order of the whole table, which decides about its row
        ids; the pieces of one shard need not be neighbours.
        """
        n_rows = sum(d.n_rows for d in datasets)
        if n_rows > MAX_ROWS:
            raise DataError(f"X has {n_rows} rows; at most {MAX_ROWS} are allowed per shard")
        columns = zip(*(d.columns for d in datasets), strict=True)
        joined = datasets[0]._with_rows([_joined(parts) for parts in columns])
        joined.label = _joined([d.label for d in datasets])
        joined.weight = _joined([d.weight for d in datasets])
        joined.group = _joined([d.group for d in datasets])
        joined.init_score = _joined([d.init_score for d in datasets])
        joined.pieces = [(p, d.n_rows) for p, d in zip(positions, datasets, strict=True)]
        return joined

    def with_empty_parts(self, shapes: Mapping[str, Sequence[int]]) -> Dataset:
        """A copy of a dataset without rows that has the named parts, all empty.

        shapes: of one row of each; () is one number.
        """
        copied = copy(self)
        types = {"label": np.float64, "weight": np.float32, "group": np.int64}
        for part, shape in shapes.items():
            setattr(copied, part, np.zeros((0, *shape), types.get(part, np.float64)))
        return copied

    def without_zero_weights(self) -> Dataset:
        """This dataset if no weight is zero, else a copy without those rows."""
        if self.weight is None or bool(np.all(self.weight > 0)):
            return self
        keep = np.flatnonzero(self.weight > 0)
        kept = self._with_rows([take_rows(column, keep) for column in self.columns])
        kept.label = None if self.label is None else self.label[keep]
        kept.weight = self.weight[keep]
        kept.init_score = None if self.init_score is None else self.init_score[keep]
        if self.group is not None:
            sizes = _sizes_kept(self.group, keep)
            kept.group = sizes[sizes > 0]
        if self.pieces is not None:
            sizes = _sizes_kept([size for _, size in self.pieces], keep)
            kept.pieces = [(p, int(n)) for (p, _), n in zip(self.pieces, sizes, strict=True)]
        return kept

    def _with_rows(self, columns: list[Column]) -> Dataset:
        """The same features with other rows, whose label, weight, ... the caller sets."""
        other = copy(self)
        other.columns, other.binned = columns, {}
        other.label = other.weight = other.group = other.init_score = other.pieces = None
        return other


def _sizes_kept(sizes: NDArray[np.int64] | list[int], keep: NDArray[np.intp]) -> NDArray[np.int64]:
    """How many of each group's rows are kept; the groups follow each other."""
    owner = np.repeat(np.arange(len(sizes)), sizes)[keep]
    return np.bincount(owner, minlength=len(sizes)).astype(np.int64)


def _joined(arrays: Sequence[Any]) -> Any:
    """One array of several, or None if there are none to join."""
    return arrays[0] if len(arrays) == 1 or arrays[0] is None else np.concatenate(arrays)


def to_columns(X: Any) -> tuple[list[Column], list[str] | None]:
    """The columns of any table, as float32 or float64, and their names if it has some."""
    names = None if is_on_gpu(X) else column_names(X)
    if is_on_gpu(X):
        table = device_table(X)
        columns = [table[:, feature] for feature in range(table.shape[1])]
        if not columns:
            raise DataError("X has 0 feature(s) while a minimum of 1 is required.")
    elif names is not None:
        columns = _frame_columns(X, names)
        if not columns:
            raise DataError("X has 0 feature(s) while a minimum of 1 is required.")
    else:
        columns = _array_columns(X)
    if len(columns[0]) > MAX_ROWS:
        raise DataError(f"X has {len(columns[0])} rows; at most {MAX_ROWS} are allowed per shard")
    return columns, names


def _array_columns(X: Any) -> list[Column]:
    table = check_array(
        _numbers("X", X if hasattr(X, "toarray") else _array("X", X)),
        accept_sparse="csc",
        dtype=[np.float64, np.float32],
        ensure_all_finite=False,
        ensure_min_samples=0,  # a shard may be empty; train() counts the rows of all ranks
        estimator="bitgrove",
        input_name="X",
    )
    if hasattr(table, "toarray"):
        table = np.asfortranarray(table.toarray())
    return [table[:, feature] for feature in range(table.shape[1])]


def _array(what: str, values: Any) -> NDArray[Any]:
    if isinstance(values, np.ma.MaskedArray):
        raise DataTypeError(f"{what} is a masked array; fill it, with NaN for missing values")
    try:
        return np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise DataError(f"{what} is not a table of numbers: {error}") from None


def _numbers(what: str, array: Any) -> Any:
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


def _frame_columns(X: Any, names: list[str]) -> list[Column]:
    if len(set(names)) != len(names):
        raise DataError("X has two columns of the same name")
    if hasattr(X, "iloc"):
        return [_numeric(name, X.iloc[:, i]) for i, name in enumerate(names)]
    if hasattr(X, "column_names"):  # Arrow
        return [_numeric(name, X.column(i)) for i, name in enumerate(names)]
    return [_numeric(name, X[name]) for name in names]


def _numeric(name: str, series: Any) -> Column:
    """One column of a data frame as float32 or float64, nulls as NaN."""
    kind = str(getattr(series, "dtype", None) or getattr(series, "type", ""))
    if any(word in kind.lower() for word in _NO_NUMBERS):
        raise DataError(f"column {name!r} has type {kind}; numbers are needed (encode or drop it)")
    if hasattr(series, "isna"):  # pandas: nullable types know how to fill
        wanted = object if kind == "object" else _float_type(kind)
        values = series.to_numpy(dtype=wanted, na_value=np.nan)
    else:
        values = np.asarray(series)
    values = _numbers(f"column {name!r}", values)
    if values.ndim != 1:
        raise DataError(f"column {name!r} has type {kind}; one number per row is needed")
    return np.asarray(values.astype(_float_type(str(values.dtype)), copy=False))


def _float_type(kind: str) -> type[np.float32] | type[np.float64]:
    narrow = {"float32", "float16", "float", "int8", "int16", "uint8", "uint16", "bool", "boolean"}
    return np.float32 if kind.lower() in narrow else np.float64


def _checked_names(
    given: Sequence[str] | None, found: list[str] | None, n_features: int
) -> list[str]:
    if isinstance(given, str):
        raise DataError(f"feature_names must be a list of names, got {given!r}")
    names = [str(name) for name in given] if given is not None else found
    if names is None:
        return default_names(n_features)
    if len(names) != n_features:
        raise DataError(f"feature_names: {len(names)} names for {n_features} features")
    if len(set(names)) != len(names):
        raise DataError("feature_names: names must be unique")
    return names


def _vector(values: Any, n_rows: int, name: str) -> NDArray[np.float64]:
    found = _columns(values, n_rows, name)
    if found.ndim != 1:
        raise DataError(f"{name} must be one-dimensional, got shape {found.shape}")
    return found


def _columns(values: Any, n_rows: int, name: str) -> NDArray[np.float64]:
    """One number per row, or several: (n_rows,) or (n_rows, n_columns)."""
    array = _array(name, on_host(values))
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim not in (1, 2) or 0 in array.shape[1:]:
        raise DataError(f"{name} must be one-dimensional, got shape {array.shape}")
    if len(array) != n_rows:
        raise DataError(f"{name} has {len(array)} entries but X has {n_rows} rows")
    found: NDArray[np.float64] = _numbers(name, array).astype(np.float64)
    if not np.isfinite(found).all():
        where = np.argwhere(~np.isfinite(found))[0]
        raise DataError(f"{name} contains NaN or infinity (row {where[0]}: {found[tuple(where)]})")
    largest = float(max(found.max(initial=0.0), -found.min(initial=0.0)))
    if largest > MAX_MAGNITUDE:
        raise DataError(f"{name} holds {largest:g}; magnitudes above 1e38 are not supported")
    return found


def _weight(weight: Any, n_rows: int) -> NDArray[np.float32]:
    vector = _vector(weight, n_rows, "weight")
    if (vector < 0).any():
        raise DataError(f"weight must not be negative, got {vector.min():g}")
    return np.where(vector < MIN_WEIGHT, 0.0, vector).astype(np.float32)


def _group(group: Any, n_rows: int) -> NDArray[np.int64]:
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


def rows_for_prediction(X: Any, feature_names: list[str]) -> NDArray[Any]:
    """X as a C-contiguous float32/float64 table, its columns checked against the model's.

    On a GPU it may have any strides."""
    names = None if is_on_gpu(X) else column_names(X)
    n_features = len(feature_names)
    if names is not None and names != feature_names:
        nameless = feature_names == default_names(n_features)
        # Such a model takes columns of any name, but those called f0, f1, ... must be in order.
        if not nameless or set(names) & set(feature_names):
            raise DataError(_name_difference(names, feature_names))
    if is_on_gpu(X):
        table = device_table(X)
    elif type(X) in (np.ndarray, np.memmap) and X.ndim == 2 and X.dtype in (np.float32, np.float64):
        table = np.ascontiguousarray(X)
    else:
        columns, _ = to_columns(X)
        table = (
            np.stack(columns, axis=1) if len(columns) == n_features else np.empty((0, len(columns)))
        )
    if table.shape[1] != n_features:
        raise DataError(f"X has {table.shape[1]} features, but the model expects {n_features}")
    return table


def _name_difference(names: list[str], expected: list[str]) -> str:
    missing = [name for name in expected if name not in set(names)]
    extra = [name for name in names if name not in set(expected)]
    if missing or extra:
        return f"columns differ from training: missing {missing[:5]}, unexpected {extra[:5]}"
    return "columns are the training columns in another order; reorder them as in training"
