"""Bin edges: where each feature is cut into at most 255 bins.

Owns BinMapper and the sample that is cut; backends cut it, and turn values into bins. Receives
columns and a Comm; the sample is chosen by a hash of the global row id and merged over ranks, so
the edges depend neither on the order of ranks nor on their number.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.arithmetic.exact_math import hash_key
from bitgrove.data.device_tables import on_host, take_rows
from bitgrove.data.row_ids import RowRuns
from bitgrove.data.sparse.edges import NO_TABLE_EDGES, TableEdges, sparse_edges
from bitgrove.data.sparse.tables import SparseColumns, not_sparse
from bitgrove.distributed.comm import Comm, feature_block
from bitgrove.errors import BitgroveWarning, DataError
from bitgrove.kernels.plans import DRAWN, LEVELS, NUMBERS
from bitgrove.machine.threads import resolve_threads

if TYPE_CHECKING:
    from bitgrove.params import TrainParams

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
Rows = NDArray[np.int32]
# Of a backend: the edges of each column, from all rows (None) or the listed ones.
FindEdges = Callable[[Sequence[Any], Rows | None, int], list[F64]]
_SAMPLE_PURPOSE = 1
CHUNK_BYTES = 64 << 20  # of a rank's sample that travel in one message


@dataclass(frozen=True, eq=False)
class BinMapper:
    """Feature f has the edges values[offset[f]:offset[f+1]]: x is in bin b iff b edges are below x.

    The missing bin comes after the value bins. A histogram has it only where has_missing.
    Bins of category_features are levels: they have no order, and a split takes any set of them.
    Of drawn_features a node looks at one drawn cut.
    """

    edge_values: F64
    edge_offset: I64
    has_missing: NDArray[np.uint8]
    category_features: frozenset[int] = frozenset()
    drawn_features: frozenset[int] = frozenset()

    @property
    def n_features(self) -> int:
        return len(self.edge_offset) - 1

    @cached_property
    def missing_bin(self) -> I64:
        """Also the number of value bins of each feature."""
        return np.diff(self.edge_offset) + 1

    @cached_property
    def kinds(self) -> NDArray[np.uint8]:
        found = np.full(self.n_features, NUMBERS, dtype=np.uint8)
        found[sorted(self.category_features)] = LEVELS
        found[sorted(self.drawn_features)] = DRAWN
        return found

    @cached_property
    def bin_offset(self) -> I64:
        """Where each feature's bins start in a histogram."""
        sizes = self.missing_bin + self.has_missing
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def edges_of(self, feature: int) -> F64:
        return self.edge_values[self.edge_offset[feature] : self.edge_offset[feature + 1]]

    def part(self, features: Sequence[int]) -> BinMapper:
        """Of some features, as if they were all; values alone."""
        edges = [self.edges_of(f) for f in features]
        offset = np.concatenate([[0], np.cumsum([len(e) for e in edges])]).astype(np.int64)
        return BinMapper(np.concatenate([np.zeros(0), *edges]), offset, self.has_missing[features])

    def with_missing(self, has_missing: NDArray[np.uint8]) -> BinMapper:
        return replace(self, has_missing=has_missing)


class Binning(NamedTuple):
    """The parameters that decide about edges, and the rows that were there."""

    max_bin: int
    bin_sample_rows: int
    random_state: int
    n_rows: int

    def check(self, params: TrainParams) -> None:
        """Whether rows that were binned once may be trained on with these parameters."""
        sampled = self.n_rows > min(self.bin_sample_rows, params.bin_sample_rows)
        for name in ("max_bin", *(["bin_sample_rows"] if sampled else [])):
            if getattr(self, name) != getattr(params, name):
                raise DataError(
                    f"{name}={getattr(params, name)}: this Dataset was binned with {name}="
                    f"{getattr(self, name)}; train with that, or save() it again with params="
                )
        if sampled and self.random_state != params.random_state:
            warnings.warn(
                f"random_state={params.random_state}: the bins are those of random_state="
                f"{self.random_state}, and the model is not that of the same rows in memory",
                BitgroveWarning,
                stacklevel=2,
            )


class Known(NamedTuple):
    """What is known of columns before their edges are looked for.

    n_levels: of those that hold codes of levels; every level has a bin of its own.
    edges: of those that hold bins instead of values. drawn: those with drawn cuts.
    """

    n_levels: Mapping[int, int] = MappingProxyType({})
    edges: Mapping[int, F64] = MappingProxyType({})
    drawn: frozenset[int] = frozenset()

    def mapper(self, found: Mapping[int, F64], of_table: TableEdges = NO_TABLE_EDGES) -> BinMapper:
        """With the edges that were found for all other columns."""
        by_feature = {**self.edges, **found}
        by_feature |= {f: np.arange(0.5, n - 1) for f, n in self.n_levels.items()}
        counts, edges = of_table.among(by_feature)
        offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        no_missing = np.zeros(len(counts), dtype=np.uint8)
        return BinMapper(edges, offset, no_missing, frozenset(self.n_levels), self.drawn)


def sample_key(seed: int) -> int:
    """Of the hashes that decide which rows edges are found from."""
    return hash_key(seed, _SAMPLE_PURPOSE)


def sample_limit(sample_rows: int, n_total: int) -> int | None:
    """Below which the hash of a sampled row is; None: all rows are looked at."""
    return None if n_total <= sample_rows else (sample_rows << 64) // n_total


def fit_edges(
    columns: Sequence[Any],
    find_edges: FindEdges,
    params: TrainParams,
    runs: RowRuns,
    comm: Comm,
    known: Known | None = None,
) -> BinMapper:
    """Edges from a hashed sample of about bin_sample_rows rows of all ranks (all when fewer)."""
    known = known or Known()
    n_total = int(comm.allreduce_sum(np.array([len(columns[0])], dtype=np.int64))[0])
    limit = sample_limit(params.bin_sample_rows, n_total)
    rows = None if limit is None else _sampled(runs, sample_key(params.random_state), limit)
    dense = [f for f in not_sparse(columns) if f not in known.n_levels and f not in known.edges]
    found = shared_edges([columns[f] for f in dense], rows, find_edges, params.max_bin, comm)
    of_table = NO_TABLE_EDGES
    if isinstance(columns, SparseColumns):
        how = (params.max_bin, resolve_threads(params.n_jobs), comm)
        edges = sparse_edges(columns.table, rows, *how)
        of_table = TableEdges(columns.sparse, edges.take(columns.column_of[columns.sparse]))
    return known.mapper(dict(zip(dense, found, strict=True)), of_table)


def _sampled(runs: RowRuns, key: int, limit: int) -> Rows:
    """The rows whose ids have a hash below the limit."""
    parts = []
    for run in runs:
        rows = np.empty(run.end - run.begin, dtype=np.int32)  # only the sample's part is touched
        n_sampled = _core.select_rows(key, run.first, limit, rows)
        parts.append(rows[:n_sampled] + np.int32(run.begin))
    return np.concatenate(parts)


def shared_edges(
    columns: list[Any], rows: Rows | None, find_edges: FindEdges, max_bin: int, comm: Comm
) -> list[F64]:
    """Edges of every feature: each rank gets all values of its block and finds their edges."""
    if comm.size == 1 or not columns:
        return find_edges(columns, rows, max_bin)
    edges: list[F64] = []
    sample = [
        on_host(take_rows(column, slice(None) if rows is None else rows)) for column in columns
    ]
    chunk = max(1, CHUNK_BYTES // (8 * max(1, len(sample[0])))) * comm.size
    chunk = int(-comm.allreduce_max(np.array([-chunk]))[0])  # the smallest: the same on all ranks
    for start in range(0, len(sample), chunk):
        part = sample[start : start + chunk]
        blocks = [feature_block(comm, len(part), rank) for rank in range(comm.size)]
        wanted = [part[first:last] or [np.zeros(0)] for first, last in blocks]
        values = comm.alltoall([np.concatenate(w).astype(np.float64) for w in wanted])
        n_mine = blocks[comm.rank][1] - blocks[comm.rank][0]
        tables = [v.reshape(n_mine, -1) for v in values if len(v)]
        tables.append(np.zeros((n_mine, 0)))
        mine = [np.concatenate([t[f] for t in tables]) for f in range(n_mine)]
        found = find_edges(mine, None, max_bin)
        # NaN, which is never an edge, ends each feature's edges.
        for sent in comm.allgather(
            np.concatenate([np.zeros(0), *(np.append(e, np.nan) for e in found)])
        ):
            edges += [e[:-1] for e in np.split(sent, np.flatnonzero(np.isnan(sent)) + 1)[:-1]]
    return edges
