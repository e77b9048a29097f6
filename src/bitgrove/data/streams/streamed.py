"""A Dataset whose values are never in memory together: they come by in batches.

Owns StreamedDataset: labels, codes of categories and a sample are kept from the first pass; bins
are made in another one, when a training says how. They are those of the same rows in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from bitgrove.data.binned.dataset import BinnedDataset
from bitgrove.data.binned.host import BinWriter, empty_bins, find_edges
from bitgrove.data.binned.tables import BinTable
from bitgrove.data.binning import BinMapper, shared_edges
from bitgrove.data.categories import choice_of
from bitgrove.data.dataset import Dataset
from bitgrove.data.encoder import Encoder
from bitgrove.data.given_rows import Queries
from bitgrove.data.given_values import checked_group, checked_weight
from bitgrove.data.levels import Levels, missing_code, recoded
from bitgrove.data.row_ids import RowRuns
from bitgrove.data.sparse.tables import changed_columns
from bitgrove.data.streams.batches import Batch, Batches
from bitgrove.data.streams.first_pass import CHECKS, Found, look_through
from bitgrove.data.streams.sample import Draw, RowSample
from bitgrove.data.tables import Column, Columns, checked_names, code_type, given_names
from bitgrove.distributed.comm import Comm
from bitgrove.errors import DataError, UnknownParameterError
from bitgrove.machine.threads import resolve_threads
from bitgrove.params import TrainParams, resolve
from bitgrove.provenance.fingerprint import RowHasher

Array = NDArray[Any]
_PARTS = ("label", "weight", "group", "qid", "init_score")
_DEFAULTS = resolve()
_SETTINGS = ("feature_names", "feature_name", "categorical_feature", "reference")


class AwaitedColumn:
    """A column whose values are still in the batches: it has a length and nothing else."""

    def __init__(self, n_rows: int) -> None:
        self._n_rows = n_rows

    def __len__(self) -> int:
        return self._n_rows

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise DataError("the values of a Dataset that is read in batches are not in memory")


class ReadyTable(NamedTuple):
    """Columns that were made already, for a Dataset to take as they are."""

    columns: Columns

    def as_columns(self) -> Columns:
        return self.columns

    @property
    def feature_names(self) -> list[str] | None:
        return self.columns.names


class Rows(NamedTuple):
    """Some rows of a pass, those of weight zero left out; first: the number of the first one."""

    first: int
    table: Columns

    @property
    def end(self) -> int:
        return self.first + len(self.table.values[0])


class StreamedDataset(Dataset):
    """columns: of categories their codes, all others are awaited."""

    def __init__(
        self, batches: Batches, found: Found, names: list[str], reference: Dataset | None
    ) -> None:
        self._settle(reference)
        self._batches, self._n_read = batches, found.n_rows
        self._kept: NDArray[np.bool_] | None = None  # of the rows of a pass; None: all
        self._no_values = found.no_values
        self._sample: RowSample | None = found.sample
        self._hasher: RowHasher | None = None  # of the rows that the last pass binned
        self._first_id = 0
        self.feature_names, self.levels = names, found.levels
        awaited: Any = AwaitedColumn(found.n_rows)
        self.columns = [found.codes.get(f, awaited) for f in range(len(names))]
        self.label, self.weight, self.group, self.init_score = (
            found.parts.get(part) for part in ("label", "weight", "group", "init_score")
        )

    @property
    def device(self) -> str:
        return "cpu"

    def kind_of_rows(self) -> str:
        return "a stream"

    def is_missing(self, feature: int) -> bool:
        return feature in self._no_values

    def require_values(self, what: str) -> None:
        raise DataError(f"{what} needs all rows in memory, but this Dataset is read in batches")

    def subset(self, rows: Any) -> NoReturn:
        raise DataError(
            "a Dataset that is read in batches cannot be divided (for cv or validation): save() "
            "it, and divide what open_dataset() gives"
        )

    def with_levels(self, levels: Mapping[int, Levels]) -> Dataset:
        other = super().with_levels(levels)
        absent: dict[int, Column] = {}  # other ranks have values, this has not
        for f, known in levels.items():
            if isinstance(other.columns[f], AwaitedColumn):
                missing = missing_code(len(known))
                code = np.array(missing, dtype=np.min_scalar_type(missing))
                absent[f] = np.broadcast_to(code, (self.n_rows,))
        other.columns = changed_columns(other.columns, absent)
        return other

    def _taken(self, rows: NDArray[Any]) -> Dataset:
        awaited: Any = AwaitedColumn(len(rows))
        columns = [awaited if isinstance(c, AwaitedColumn) else c[rows] for c in self.columns]
        taken = self._with_rows(columns)
        assert isinstance(taken, StreamedDataset)
        taken._hasher = None
        taken._kept = np.zeros(self._n_read, dtype=np.bool_)
        taken._kept[rows] = True
        return taken

    def in_parts(self) -> Iterator[Dataset]:
        for _, table in self._passed():
            yield Dataset(ReadyTable(table))

    def in_bins(self, params: TrainParams, runs: RowRuns, comm: Comm) -> Dataset:
        key = ("bins", params.max_bin, params.bin_sample_rows, params.random_state)
        if comm.size == 1 and key in self.binned:
            known: Dataset = self.binned[key]
            return known
        self._first_id = runs[0].first
        made = self.with_edges(self.host_edges(params, runs, comm), params.n_jobs)
        if comm.size == 1:
            self.binned[key] = made
        return made

    def host_edges(self, params: TrainParams, runs: RowRuns, comm: Comm) -> Mapping[int, Array]:
        n_total = int(comm.allreduce_sum(np.array([self.n_rows], dtype=np.int64))[0])
        draw = Draw(params.random_state, params.bin_sample_rows, runs[0].first)
        sample = self._sampled(draw, n_total)
        find: Any = partial(find_edges, n_threads=resolve_threads(params.n_jobs))
        numbers = [f for f in range(self.n_features) if f not in self.levels]
        columns = [sample.columns[f] for f in numbers]
        found = shared_edges(columns, None, find, params.max_bin, comm)
        return dict(zip(numbers, found, strict=True))

    def with_edges(self, edges: Mapping[int, Array], n_jobs: int | None) -> Dataset:
        codes, n_threads = {f: self.columns[f] for f in self.levels}, resolve_threads(n_jobs)
        bins = BinTable(edges, codes, self.n_rows, n_threads)
        self._hasher = RowHasher(self.n_features, n_threads)
        for rows in self._passed():
            if self._sample is not None:
                _check_again(rows, self._sample)
            bins.write(rows.table.values, rows.first)
            self._hash(rows)
        self._sample = None  # it has served
        return BinnedDataset(Columns(bins.columns(), self.feature_names, self.levels), edges)

    def fingerprint(self, runs: RowRuns, comm: Comm, n_threads: int) -> str:
        """Of the last pass that made bins, or of one more."""
        if self._hasher is None or self._first_id != runs[0].first:
            self._first_id, self._hasher = runs[0].first, RowHasher(self.n_features, n_threads)
            for rows in self._passed():
                self._hash(rows)
        found, self._hasher = self._hasher.finish(comm, self.levels), None
        return found

    def _hash(self, rows: Rows) -> None:
        """Of categories the codes of all rows are hashed, not those of a batch."""
        assert self._hasher is not None
        columns = list(rows.table.values)
        for f, levels in self.levels.items():
            codes, every = self.columns[f][rows.first : rows.end], np.arange(len(levels))
            columns[f] = recoded(codes, every, code_type(len(levels)), np.nan)
        self._hasher.add(columns, self._first_id + rows.first)

    def encoded(self, encoder: Encoder, mapper: BinMapper, n_jobs: int | None) -> Sequence[Column]:
        bins = empty_bins(mapper.n_features, self.n_rows)
        writer = BinWriter.of(mapper, bins, resolve_threads(n_jobs))
        for first, table in self._passed():
            columns = encoder.encode(table.values, table.levels, self.feature_names)
            writer.write(columns, first)
        return [column[: self.n_rows] for column in bins]

    def _sampled(self, draw: Draw, n_total: int) -> RowSample:
        """The rows that edges are found from: those of the first pass, or of one more."""
        if self._sample is not None and self._sample.serves(draw, n_total):
            return self._sample.finish(n_total, self.n_features)
        self._sample = RowSample(draw, n_total)
        for _, table in self._passed():
            self._sample.add(table.values)
        self._sample.finish(n_total, self.n_features)
        self._sample.without(set(self.levels))
        return self._sample

    def _passed(self) -> Iterator[Rows]:
        """One pass over the rows that are kept; it must have those of the first pass."""
        n_read = n_kept = 0
        for batch in self._batches.read():
            begin, n_read = n_read, n_read + batch.n_rows
            if n_read > self._n_read:
                break
            table = self._table(batch, begin)
            if len(table.values[0]):
                yield Rows(n_kept, table)
                n_kept += len(table.values[0])
        if n_read != self._n_read:
            count = f"at least {n_read}" if n_read > self._n_read else f"{n_read}"
            raise DataError(
                f"make_batches gave {self._n_read} rows when it was first called and {count} rows "
                "now: it must return a fresh iterator over the same rows each time"
            )

    def _table(self, batch: Batch, begin: int) -> Columns:
        """The rows of a batch that are kept."""
        values, _, levels = batch.table
        for f in sorted(f for f in levels if f not in self.levels and len(levels[f])):
            raise DataError(
                f"batch {batch.number}: column {self.feature_names[f]!r} holds text or "
                "categories, but it was a number when make_batches was first called"
            )
        if self._kept is not None:
            kept = self._kept[begin : begin + batch.n_rows]
            values = [column[kept] for column in values]
        return Columns(list(values), self.feature_names, levels)


def _check_again(rows: Rows, seen: RowSample) -> None:
    """DataError if rows of the sample have other values in this pass."""
    first, last = np.searchsorted(seen.rows, [rows.first, rows.end])
    at = seen.rows[first:last] - rows.first
    for column, values in zip(rows.table.values, seen.columns, strict=True):
        if len(values) and not np.array_equal(column[at], values[first:last], equal_nan=True):
            raise DataError(
                "make_batches gave other values than when it was first called: it must return the "
                "same rows in the same order each time"
            )


def from_batches(make_batches: Any, label: Any, more: Mapping[str, Any]) -> StreamedDataset:
    """What Dataset.from_batches returns, from its arguments."""
    if unknown := sorted(more.keys() - {*_PARTS, *_SETTINGS}):
        known = ", ".join((*_PARTS, *_SETTINGS))
        raise UnknownParameterError(f"from_batches has no argument {unknown[0]!r}; it has {known}")
    parts = {"label": label, **{part: more.get(part) for part in _PARTS[1:]}}
    roles, whole = _roles(parts)
    names = given_names(more.get("feature_names"), more.get("feature_name"))
    choice = choice_of(more.get("categorical_feature", "auto"))
    batches = Batches(make_batches, roles, choice, None if names is None else list(names))
    weight = whole.get("weight")
    if weight is not None:
        whole["weight"] = weight = checked_weight(weight, len(weight))
    found = look_through(batches, weight, Draw(_DEFAULTS.random_state, _DEFAULTS.bin_sample_rows))
    for part in sorted(whole.keys() & found.parts.keys()):
        raise DataError(f"{part} was given, and came with the batches, too")
    found.parts.update(_checked(whole, found.n_rows))
    n_features, reference = len(found.sample.columns), more.get("reference")
    names = checked_names(names, batches.names, n_features, reference)
    return StreamedDataset(batches, found, names, reference)


def _roles(parts: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """The parts that are columns of the batches, by name, and those that were given whole."""
    roles = {part: given for part, given in parts.items() if isinstance(given, str)}
    if "group" in roles:
        if parts["qid"] is not None:
            raise DataError("give group or qid, not both")
        roles["qid"] = roles.pop("group")
    if len(set(roles.values())) < len(roles):
        raise DataError(f"{', '.join(roles)} must be different columns")
    whole = {p: v for p, v in parts.items() if v is not None and not isinstance(v, str)}
    return roles, whole


def _checked(whole: Mapping[str, Any], n_rows: int) -> dict[str, Array]:
    found = {part: CHECKS[part](v, n_rows) for part, v in whole.items() if part in CHECKS}
    if "group" in whole or "qid" in whole:
        queries = Queries(whole.get("group"), whole.get("qid"))
        found["group"] = checked_group(queries.sizes(np.zeros(n_rows)), n_rows)
    return found
