"""A table with its labels, weights and query groups, which are checked.

Owns Dataset. Receives any table (tables.py makes columns of it); categories are kept as the codes
of their own levels until a training says which levels there are on all ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.data.categories import BY_TYPE, choice_beside, choice_of
from bitgrove.data.device_tables import beside, device_of, on_host
from bitgrove.data.given_rows import Queries, table_and_scores
from bitgrove.data.given_values import (
    NamedParts,
    checked_group,
    checked_label,
    checked_scores,
    checked_weight,
)
from bitgrove.data.levels import Codes, Levels, missing_code, recoded, union
from bitgrove.data.sparse.tables import (
    SparseColumn,
    changed_columns,
    dense_columns,
    join_columns,
    not_sparse,
    table_of,
    take_columns,
)
from bitgrove.data.tables import (
    MAX_ROWS,
    Column,
    Columns,
    checked_names,
    code_type,
    given_names,
    to_columns,
)
from bitgrove.errors import DataError, Problems

if TYPE_CHECKING:
    from bitgrove.data.binning import BinMapper
    from bitgrove.data.encoder import Encoder
    from bitgrove.data.row_ids import RowRuns
    from bitgrove.distributed.comm import Comm
    from bitgrove.machine.files import PathLike
    from bitgrove.params import TrainParams

Edges = NDArray[np.float64]


class Dataset(NamedParts):
    """A table with labels, ready to be binned by train().

    Parameters
    ----------
    X : table of shape (n_rows, n_features)
        Numbers, and in data frames also text and categories. NaN and nulls are missing values. A
        rank's shard may have no rows. LightGBM and XGBoost `data`.
    label : array, optional
        One number per row, or several columns of them.
    weight : array, optional
        Non-negative; rows of weight zero are left out of training.
    group, qid : array, optional
        Of a ranking: the number of rows of each query, in row order, or a query id for each row.
    init_score : array, optional
        Scores that training starts from, one per row (and output), instead of a constant.
        Predictions do not hold them. XGBoost `base_margin`.
    feature_names : list of str, optional
        Of a table without names, or instead of its own. LightGBM `feature_name`.
    reference : Dataset, optional
        One of the same features, whose names and bins this one shares.
    categorical_feature : "auto", list of names or positions, or None
        Which columns are categories. "auto": those of text or of a category type. A list adds
        others, such as integer codes. None: none are.
    free_raw_data : bool
        Understood, but the columns are kept.

    Examples
    --------
    >>> import pandas as pd
    >>> import bitgrove as bg
    >>> table = pd.DataFrame({"age": [31, 45, None, 52], "town": ["Rome", "Oslo", "Rome", None]})
    >>> bg.Dataset(table, label=[0, 1, 0, 1], weight=[1, 1, 2, 1])
    <bitgrove.Dataset 4 rows, 2 features, with label, weight>
    """

    def __init__(
        self,
        X: Any = None,
        label: Any = None,
        *,
        weight: Any = None,
        group: Any = None,
        qid: Any = None,
        init_score: Any = None,
        feature_names: Sequence[str] | None = None,
        feature_name: Sequence[str] | None = None,
        reference: Dataset | None = None,
        categorical_feature: Any = "auto",
        free_raw_data: bool = True,
        **more: Any,
    ) -> None:
        X, init_score = table_and_scores(X, init_score, more)
        problems = Problems()
        with problems.collect():
            names = given_names(feature_names, feature_name)
            choice = choice_of(categorical_feature)
            if reference is not None and choice is BY_TYPE:
                choice = choice_beside(reference, X)
            self.columns, found, self.levels = to_columns(X, choice, names)
            self.feature_names = checked_names(names, found, self.n_features, reference)
        n_rows = len(self.columns[0]) if hasattr(self, "columns") else _n_rows_of(X)
        self.label = self.weight = self.group = self.init_score = None
        with problems.collect():
            self.label = None if label is None else checked_label(label, n_rows)
        with problems.collect():
            sizes = Queries(group, qid).sizes(label) if qid is not None else group
            self.group = None if sizes is None else checked_group(sizes, n_rows)
        with problems.collect():
            self.weight = None if weight is None else checked_weight(weight, n_rows, self.group)
        with problems.collect():
            self.init_score = None if init_score is None else checked_scores(init_score, n_rows)
        problems.report()
        self._settle(reference)

    def _settle(self, reference: Dataset | None) -> None:
        """What every Dataset has, however it was made.

        edges: of columns that hold bins (uint8) instead of values.
        """
        self.reference = reference
        self.pieces: list[tuple[int, int]] | None = None
        self.binned: dict[Any, Any] = {}
        self.edges: Mapping[int, Edges] = {}

    @staticmethod
    def from_batches(make_batches: Any, label: Any = None, **parts: Any) -> Dataset:
        """A Dataset of rows that are never in memory together; see docs/streams.md.

        Parameters
        ----------
        make_batches : callable
            Returns a fresh iterator over batches each time it is called: tables of any kind,
            tuples (X, label, weight, group), or dicts of Dataset's arguments.
        label, weight, group, qid, init_score : array or str
            Of all rows, or (not `group`) the name of the column that holds them.
        feature_names, categorical_feature, reference
            As of a Dataset.
        """
        from bitgrove.data.streams.streamed import from_batches

        return from_batches(make_batches, label, parts)

    @staticmethod
    def from_parquet(paths: Any, label: Any = None, **parts: Any) -> Dataset:
        """A Dataset of Parquet files, read in batches; see docs/streams.md.

        Parameters
        ----------
        paths : str or list of str
            A file, a pattern such as `"parts-*.parquet"`, or a list of them.
        label, weight, group : str
            Names of columns; `group` holds a query id for each row.
        ignore : list of str
            Columns that are no features.
        """
        from bitgrove.data.streams.parquet import from_parquet

        return from_parquet(paths, label, **parts)

    def __repr__(self) -> str:
        parts = ["label", "weight", "group", "init_score"]
        having = [part for part in parts if getattr(self, part) is not None]
        with_parts = f", with {', '.join(having)}" if having else ""
        return f"<bitgrove.Dataset {self.n_rows} rows, {self.n_features} features{with_parts}>"

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return len(self.columns[0])

    @property
    def n_features(self) -> int:
        """Columns of the table."""
        return len(self.columns)

    def n_bin_bytes(self) -> int:
        """What the bins take at least."""
        table = table_of(self.columns)
        return self.n_rows * self.n_features if table is None else 2 * table.n_values

    @property
    def device(self) -> str:
        """Where the columns lie: "cpu", or the name of a GPU."""
        return device_of(self.columns[0])

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
        joined = datasets[0]._with_rows(join_columns([d.columns for d in datasets]))
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
        kept = self._taken(keep)
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
        part = self._taken(taken)
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

    def as_columns(self) -> Columns:
        """What tables.to_columns makes of a Dataset."""
        self.require_values("prediction")
        here = {f: on_host(self.columns[f]) for f in not_sparse(self.columns)}
        return Columns(changed_columns(self.columns, here), self.feature_names, self.levels)

    def require_values(self, what: str) -> None:
        """DataError if the values are not in memory."""

    def kind_of_rows(self) -> str:
        """In which form the rows are there, for other ranks to compare."""
        n_sparse = len(self.columns) - len(not_sparse(self.columns))
        return "rows in memory" + (f", {n_sparse} columns of them sparse" if n_sparse else "")

    def fingerprint(self, runs: RowRuns, comm: Comm, n_threads: int) -> str:
        """Of the values of the rows of all ranks."""
        from bitgrove.provenance.fingerprint import table_fingerprint

        levels = self.levels
        return table_fingerprint(self.columns, runs, comm, levels=levels, n_threads=n_threads)

    def in_parts(self) -> Iterator[Dataset]:
        """The same rows, as many at a time as are in memory together."""
        yield self

    def in_bins(self, params: TrainParams, runs: RowRuns, comm: Comm) -> Dataset:
        """The rows as a training with these parameters bins them: in memory they stay values."""
        return self

    def host_edges(self, params: TrainParams, runs: RowRuns, comm: Comm) -> Mapping[int, Edges]:
        """The edges that a training with these parameters finds for the columns of numbers."""
        from bitgrove.data.binned.tables import number_edges

        return number_edges(self.as_columns(), params, runs, comm)

    def with_edges(self, edges: Mapping[int, Edges], n_jobs: int | None) -> Dataset:
        """The same rows: numbers as bins of these edges, categories as unsigned codes."""
        from bitgrove.data.binned.dataset import BinnedDataset
        from bitgrove.data.binned.tables import as_bins

        table = self.as_columns()
        table = table._replace(values=list(dense_columns(table.values)))
        return BinnedDataset(as_bins(table, edges, n_jobs), edges)

    def encoded(self, encoder: Encoder, mapper: BinMapper, n_jobs: int | None) -> Sequence[Column]:
        """The columns that a model's trees see, as values or as the bins of a training set."""
        return encoder.encode(self.columns, self.levels, self.feature_names)

    def save(self, path: PathLike, params: Mapping[str, Any] | None = None) -> None:
        """Writes the rows as bins, for `bitgrove.open_dataset`; see docs/streams.md.

        params: those of the training, of which `max_bin`, `bin_sample_rows` and `random_state`
        decide about bins. They are those of the reference, where there is one.
        """
        from bitgrove.data.binned.dataset import save_dataset

        save_dataset(self, path, params)

    def is_missing(self, feature: int) -> bool:
        """Whether no row has a value: such a column may be one of numbers or of levels."""
        if isinstance(found := self.columns[feature], SparseColumn):
            return found.is_missing()
        column = on_host(self.columns[feature][:1])
        if len(column) and not np.isnan(column[0]):
            return False
        return bool(np.isnan(on_host(self.columns[feature])).all())

    def with_levels(self, levels: Mapping[int, Levels]) -> Dataset:
        """The same rows, categories as the codes of these levels; others become missing."""
        if all(self.levels.get(f) is wanted for f, wanted in levels.items()):
            return self
        new: dict[int, Column] = {}
        for f, wanted in levels.items():
            here = self.levels.get(f)
            if here is not None and here is not wanted:
                new_code = wanted.find(self.feature_names[f], here)
                codes = _recoded(on_host(self.columns[f]), new_code, len(wanted))
                new[f] = beside(codes, self.columns[f])
        other = copy(self)
        other.columns = changed_columns(self.columns, new)
        other.levels, other.binned = dict(levels), {}
        return other

    def _taken(self, rows: NDArray[Any]) -> Dataset:
        return self._with_rows(take_columns(self.columns, rows))

    def _with_rows(self, columns: Sequence[Column]) -> Dataset:
        """The same features with other rows, whose label, weight, ... the caller sets."""
        other = copy(self)
        other.columns, other.binned = columns, {}
        other.label = other.weight = other.group = other.init_score = other.pieces = None
        return other


def _recoded(codes: NDArray[Any], new_code: Codes, n_levels: int) -> NDArray[Any]:
    if codes.dtype.kind != "u":
        return recoded(codes, new_code, code_type(n_levels), np.nan)
    missing = missing_code(n_levels)
    return recoded(codes, new_code, np.min_scalar_type(missing), missing)


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


def _n_rows_of(X: Any) -> int:
    """Of a table that cannot be used, to judge the label that came with it."""
    shape = getattr(X, "shape", None)
    return int(shape[0]) if shape else len(X) if hasattr(X, "__len__") else 0
