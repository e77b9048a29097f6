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

from bitgrove.data.device_tables import device_table, is_on_gpu, on_host, take_rows
from bitgrove.data.given_rows import Queries
from bitgrove.data.given_values import (
    as_array,
    as_numbers,
    checked_group,
    checked_label,
    checked_scores,
    checked_weight,
)
from bitgrove.data.lazy_tables import collected
from bitgrove.errors import DataError, Problems

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
    if isinstance(X, Dataset):
        return X.feature_names
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
    group: number of rows of each query, in row order (ranking); or qid: a query id for each row.
    init_score: scores that training starts from, one per row (and output), instead of a constant;
    predictions do not hold them. XGBoost `base_margin`.
    feature_names (LightGBM `feature_name`): of a table without names, or instead of its own.
    reference: another Dataset of the same features, whose names and bins this one shares.
    free_raw_data: understood, but the columns are kept.
    """

    def __init__(
        self,
        X: Any,
        label: Any = None,
        *,
        weight: Any = None,
        group: Any = None,
        qid: Any = None,
        init_score: Any = None,
        feature_names: Sequence[str] | None = None,
        feature_name: Sequence[str] | None = None,
        reference: Dataset | None = None,
        free_raw_data: bool = True,
    ) -> None:
        problems = Problems()
        with problems.collect():
            self.columns, found = to_columns(X)
            names = _given_names(feature_names, feature_name)
            self.feature_names = _checked_names(names, found, self.n_features, reference)
        n_rows = len(self.columns[0]) if hasattr(self, "columns") else _n_rows_of(X)
        self.label = self.weight = self.group = self.init_score = None
        with problems.collect():
            self.label = None if label is None else checked_label(label, n_rows)
        with problems.collect():
            self.weight = None if weight is None else checked_weight(weight, n_rows)
        with problems.collect():
            sizes = Queries(group, qid).sizes(label) if qid is not None else group
            self.group = None if sizes is None else checked_group(sizes, n_rows)
        with problems.collect():
            self.init_score = None if init_score is None else checked_scores(init_score, n_rows)
        problems.report()
        self.reference = reference
        self.pieces: list[tuple[int, int]] | None = None
        self.binned: dict[Any, Any] = {}

    def __repr__(self) -> str:
        parts = ["label", "weight", "group", "init_score"]
        having = [part for part in parts if getattr(self, part) is not None]
        with_parts = f", with {', '.join(having)}" if having else ""
        return f"<bitgrove.Dataset {self.n_rows} rows, {self.n_features} features{with_parts}>"

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

    def subset(self, rows: Sequence[int] | NDArray[Any]) -> Dataset:
        """The listed rows, in that order, with the bins of this Dataset as their reference."""
        taken = np.asarray(rows)
        if taken.dtype == np.bool_:
            taken = np.flatnonzero(taken)
        part = self._with_rows([take_rows(column, taken) for column in self.columns])
        part.label = None if self.label is None else self.label[taken]
        part.weight = None if self.weight is None else self.weight[taken]
        part.init_score = None if self.init_score is None else self.init_score[taken]
        if self.group is not None:
            queries = np.repeat(np.arange(len(self.group)), self.group)[taken]
            part.group = np.asarray(Queries(qid=queries).sizes(queries), dtype=np.int64)
        part.reference = self.reference or self
        return part

    def create_valid(self, X: Any, label: Any = None, **more: Any) -> Dataset:
        """A Dataset of the same features; LightGBM's name of `Dataset(X, label, reference=)`."""
        return Dataset(X, label, reference=self, **more)

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
    if isinstance(X, Dataset):
        return [on_host(column) for column in X.columns], X.feature_names
    X = collected(X)
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
        as_numbers("X", X if hasattr(X, "toarray") else as_array("X", X)),
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


def _frame_columns(X: Any, names: list[str]) -> list[Column]:
    if len(set(names)) != len(names):
        raise DataError("X has two columns of the same name")
    columns: list[Column] = []
    problems = Problems()
    for i, name in enumerate(names):
        with problems.collect():
            if hasattr(X, "iloc"):
                series = X.iloc[:, i]
            else:
                series = X.column(i) if hasattr(X, "column_names") else X[name]  # Arrow, polars
            columns.append(_numeric(name, series))
    problems.report()
    return columns


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
    values = as_numbers(f"column {name!r}", values)
    if values.ndim != 1:
        raise DataError(f"column {name!r} has type {kind}; one number per row is needed")
    return np.asarray(values.astype(_float_type(str(values.dtype)), copy=False))


def _float_type(kind: str) -> type[np.float32] | type[np.float64]:
    narrow = {"float32", "float16", "float", "int8", "int16", "uint8", "uint16", "bool", "boolean"}
    return np.float32 if kind.lower() in narrow else np.float64


def _n_rows_of(X: Any) -> int:
    """Of a table that cannot be used, to judge the label that came with it."""
    shape = getattr(X, "shape", None)
    return int(shape[0]) if shape else len(X) if hasattr(X, "__len__") else 0


def _given_names(ours: Sequence[str] | None, lightgbm: Sequence[str] | None) -> Any:
    if ours is not None and lightgbm is not None:
        raise DataError("feature_names and feature_name are the same; give one of them")
    given = ours if ours is not None else lightgbm
    return None if isinstance(given, str) and given == "auto" else given


def _checked_names(
    given: Sequence[str] | None,
    found: list[str] | None,
    n_features: int,
    reference: Dataset | None,
) -> list[str]:
    if isinstance(given, str):
        raise DataError(f"feature_names must be a list of names, got {given!r}")
    names = [str(name) for name in given] if given is not None else found
    if reference is not None:
        if reference.n_features != n_features:
            raise DataError(
                f"X has {n_features} features, the reference has {reference.n_features}"
            )
        names = reference.feature_names if names is None else names
        if names != reference.feature_names:
            raise DataError(_name_difference(names, reference.feature_names))
    if names is None:
        return default_names(n_features)
    if len(names) != n_features:
        raise DataError(f"feature_names: {len(names)} names for {n_features} features")
    if len(set(names)) != len(names):
        raise DataError("feature_names: names must be unique")
    return names


def rows_for_prediction(X: Any, feature_names: list[str]) -> NDArray[Any]:
    """X as a C-contiguous float32/float64 table, its columns checked against the model's.

    On a GPU it may have any strides."""
    X = X if isinstance(X, np.ndarray) else collected(X)
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
