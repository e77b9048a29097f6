"""A table with its labels, weights and query groups, which are checked.

Owns Dataset. Receives any table (tables.py makes columns of it); categories are kept as the codes
of their own levels until a training says which levels there are on all ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.limits import MAX_MAGNITUDE, MIN_WEIGHT
from bitgrove.data.categories import choice_of
from bitgrove.data.device_tables import beside, on_host, take_rows
from bitgrove.data.levels import Levels, recoded, union
from bitgrove.data.tables import (
    MAX_ROWS,
    Column,
    as_array,
    code_type,
    default_names,
    real_numbers,
    to_columns,
)
from bitgrove.errors import DataError


class Dataset:
    """A table with labels, ready to be binned by train().

    X: (n_rows, n_features) numbers, and in data frames also text and categories; NaN and nulls are
    missing values. A rank's shard may have no rows.
    label: one number per row. weight: non-negative; rows of weight zero are left out of training.
    group: number of rows of each query, in row order (ranking).
    categorical_feature: "auto" (columns of text or of a category type), or a list of names or
    positions of columns that are categories, too, such as integer codes. None: none are.
    """

    def __init__(
        self,
        X: Any,
        label: Any = None,
        *,
        weight: Any = None,
        group: Any = None,
        feature_names: Sequence[str] | None = None,
        categorical_feature: Any = "auto",
    ) -> None:
        choice = choice_of(categorical_feature)
        self.columns, names, self.levels = to_columns(X, choice, feature_names)
        self.feature_names = _checked_names(feature_names, names, self.n_features)
        self.label = None if label is None else _label(label, self.n_rows)
        self.weight = None if weight is None else _weight(weight, self.n_rows)
        self.group = None if group is None else _group(group, self.n_rows)
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
        datasets = _with_common_levels(datasets)
        columns = zip(*(d.columns for d in datasets), strict=True)
        joined = datasets[0]._with_rows([_joined(parts) for parts in columns])
        joined.label = _joined([d.label for d in datasets])
        joined.weight = _joined([d.weight for d in datasets])
        joined.group = _joined([d.group for d in datasets])
        joined.pieces = [(p, d.n_rows) for p, d in zip(positions, datasets, strict=True)]
        return joined

    def with_empty_parts(self, *parts: str) -> Dataset:
        """A copy of a dataset without rows that has the named parts, all empty."""
        copied = copy(self)
        copied.label = np.zeros(0, np.float64) if "label" in parts else self.label
        copied.weight = np.zeros(0, np.float32) if "weight" in parts else self.weight
        copied.group = np.zeros(0, np.int64) if "group" in parts else self.group
        return copied

    def without_zero_weights(self) -> Dataset:
        """This dataset if no weight is zero, else a copy without those rows."""
        if self.weight is None or bool(np.all(self.weight > 0)):
            return self
        keep = np.flatnonzero(self.weight > 0)
        kept = self._with_rows([take_rows(column, keep) for column in self.columns])
        kept.label = None if self.label is None else self.label[keep]
        kept.weight = self.weight[keep]
        if self.group is not None:
            sizes = _sizes_kept(self.group, keep)
            kept.group = sizes[sizes > 0]
        if self.pieces is not None:
            sizes = _sizes_kept([size for _, size in self.pieces], keep)
            kept.pieces = [(p, int(n)) for (p, _), n in zip(self.pieces, sizes, strict=True)]
        return kept

    def is_missing(self, feature: int) -> bool:
        """Whether no row has a value: such a column may be one of numbers or of levels."""
        column = on_host(self.columns[feature][:1])
        if len(column) and not np.isnan(column[0]):
            return False
        return bool(np.isnan(on_host(self.columns[feature])).all())

    def with_levels(self, levels: Mapping[int, Levels]) -> Dataset:
        """The same rows, categories as the codes of these levels; others become missing."""
        if all(self.levels.get(f) is wanted for f, wanted in levels.items()):
            return self
        columns = list(self.columns)
        for f, wanted in levels.items():
            here = self.levels.get(f)
            if here is not None and here is not wanted:
                new_code = wanted.find(self.feature_names[f], here)
                codes = recoded(on_host(columns[f]), new_code, code_type(len(wanted)))
                columns[f] = beside(codes, columns[f])
        other = copy(self)
        other.columns, other.levels, other.binned = columns, dict(levels), {}
        return other

    def _with_rows(self, columns: list[Column]) -> Dataset:
        """The same features with other rows, whose label, weight and group the caller sets."""
        other = copy(self)
        other.columns, other.binned = columns, {}
        other.label = other.weight = other.group = other.pieces = None
        return other


def _sizes_kept(sizes: NDArray[np.int64] | list[int], keep: NDArray[np.intp]) -> NDArray[np.int64]:
    """How many of each group's rows are kept; the groups follow each other."""
    owner = np.repeat(np.arange(len(sizes)), sizes)[keep]
    return np.bincount(owner, minlength=len(sizes)).astype(np.int64)


def _joined(arrays: Sequence[Any]) -> Any:
    """One array of several, or None if there are none to join."""
    return arrays[0] if len(arrays) == 1 or arrays[0] is None else np.concatenate(arrays)


def _with_common_levels(datasets: Sequence[Dataset]) -> Sequence[Dataset]:
    names = datasets[0].feature_names
    features = sorted({f for d in datasets for f in d.levels})
    for f, d in ((f, d) for f in features for d in datasets):
        if f not in d.levels and not d.is_missing(f):
            raise DataError(f"column {names[f]!r} is a category in some parts and not in others")
    if not features:
        return datasets
    common = {
        f: union(names[f], [d.levels[f] for d in datasets if f in d.levels]) for f in features
    }
    return [d.with_levels(common) for d in datasets]


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
    array = as_array(name, on_host(values))
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(f"{name} must be one-dimensional, got shape {array.shape}")
    if len(array) != n_rows:
        raise DataError(f"{name} has {len(array)} entries but X has {n_rows} rows")
    vector: NDArray[np.float64] = real_numbers(name, array).astype(np.float64)
    if not np.isfinite(vector).all():
        where = int(np.flatnonzero(~np.isfinite(vector))[0])
        raise DataError(f"{name} contains NaN or infinity (row {where}: {vector[where]})")
    largest = float(max(vector.max(initial=0.0), -vector.min(initial=0.0)))
    if largest > MAX_MAGNITUDE:
        raise DataError(f"{name} holds {largest:g}; magnitudes above 1e38 are not supported")
    return vector


def _label(label: Any, n_rows: int) -> NDArray[np.float64]:
    return _vector(label, n_rows, "label")


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
