"""Categories of a training: their levels on all ranks, and the Encoder that is learnt from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bitgrove.data.dataset import Dataset
from bitgrove.data.device_tables import beside, on_host
from bitgrove.data.encoder import Encoder
from bitgrove.data.levels import Levels, union, whole_codes
from bitgrove.data.row_ids import RowRuns
from bitgrove.data.sparse.tables import changed_columns
from bitgrove.data.statistics import Blocks, FirstGradients, fit_statistics
from bitgrove.distributed.comm import Comm, gather_facts
from bitgrove.errors import DataError, everywhere
from bitgrove.params import TrainParams

# Of a category of many levels that is split by sets, too, on average.
ROWS_PER_LEVEL = 25


def with_agreed_levels(dataset: Dataset, comm: Comm) -> Dataset:
    """The same rows, categories as codes of the levels that occur on some rank."""
    present = {f: _present(dataset, f) for f in dataset.levels}
    if comm.size == 1:
        return dataset.with_levels(present)
    everyone = gather_facts(
        comm,
        {
            "levels": {str(f): [v.kind, v.values.tolist()] for f, v in present.items()},
            "missing": [f for f in range(dataset.n_features) if dataset.is_missing(f)],
        },
    )
    _check_same_categories(everyone, dataset.feature_names)
    agreed = {}
    for f in sorted({int(f) for other in everyone for f in other["levels"]}):
        parts = [Levels.of(*o["levels"][str(f)]) for o in everyone if str(f) in o["levels"]]
        try:
            agreed[f] = union(dataset.feature_names[f], parts)
        except DataError as error:
            raise everywhere(DataError, str(error)) from None
    return dataset.with_levels(agreed)


def _present(dataset: Dataset, f: int) -> Levels:
    """The levels that rows have; a Dataset without rows of weight zero may have fewer."""
    levels = dataset.levels[f]
    codes = whole_codes(on_host(dataset.columns[f]), len(levels))
    counts = np.bincount(codes, minlength=len(levels))[: len(levels)]
    return levels if counts.all() else levels.take(np.flatnonzero(counts))


def _check_same_categories(everyone: list[Any], names: list[str]) -> None:
    """A category of one rank must be one of all others, unless they have no value of it."""
    having = {f: rank for rank, other in enumerate(everyone) for f in other["levels"]}
    for f, first in sorted(having.items(), key=lambda item: int(item[0])):
        for rank, other in enumerate(everyone):
            if f not in other["levels"] and int(f) not in other["missing"]:
                raise everywhere(
                    DataError,
                    f"column {names[int(f)]!r} is a category on rank {first} but not on rank "
                    f"{rank}; all shards need the same columns",
                )


def many_levels(dataset: Dataset, params: TrainParams) -> list[int]:
    """The categories that become statistics."""
    most = min(params.max_cat_levels, params.max_bin)
    return [f for f, levels in sorted(dataset.levels.items()) if len(levels) > most]


def kept_codes(dataset: Dataset, params: TrainParams, n_rows: int) -> frozenset[int]:
    """Those of many levels that stay codes as well: as many rows for each tell what it does."""
    most = min(params.max_bin, n_rows // ROWS_PER_LEVEL)
    return frozenset(f for f in many_levels(dataset, params) if len(dataset.levels[f]) <= most)


def shared_bins(dataset: Dataset, params: TrainParams) -> Dataset | None:
    """The Dataset whose bins this one has, if it shares those of another."""
    origin = dataset.reference
    # Statistics of many levels are made of a Dataset's own labels, so they cannot be shared.
    if origin is None or any(many_levels(d, params) for d in (dataset, origin)):
        return None
    return origin.without_zero_weights()


def fit_encoder(
    dataset: Dataset,
    params: TrainParams,
    first_gradients: Callable[[], FirstGradients] | None,
    runs: RowRuns,
    comm: Comm,
) -> tuple[Encoder | None, Sequence[Any]]:
    """The Encoder (None without categories) and the columns that this rank's rows are binned from.

    Categories of many levels become statistics of the first gradients.
    """
    if not dataset.levels:
        return None, dataset.columns
    many = many_levels(dataset, params)
    if not many:
        return Encoder(dataset.n_features, dataset.levels), dataset.columns
    assert first_gradients is not None, "categories of many levels need gradients"
    n_rows = int(comm.allreduce_sum(np.array([dataset.n_rows], dtype=np.int64))[0])
    kept = kept_codes(dataset, params, n_rows)
    seen = Seen(first_gradients, runs, params.random_state, comm)
    return _with_statistics(dataset, many, kept, seen)


class Seen(NamedTuple):
    """What statistics are made of: the first gradients of rows, and which block a row is in."""

    gradients: Callable[[], FirstGradients]
    runs: RowRuns
    seed: int
    comm: Comm


def _with_statistics(
    dataset: Dataset, many: Iterable[int], kept: frozenset[int], seen: Seen
) -> tuple[Encoder, Sequence[Any]]:
    columns: dict[int, Any] = {}
    more, statistics = [], {}
    gradients, blocks = seen.gradients(), Blocks.of(seen.runs, seen.seed, seen.comm)
    for f in many:
        codes = dataset.columns[f]
        fitted = fit_statistics(on_host(codes), len(dataset.levels[f]), gradients, blocks)
        statistics[f] = fitted[0]
        made = [beside(column, codes) for column in fitted[1]]
        if f not in kept:
            columns[f] = made.pop(0)
        more += made
    encoder = Encoder(dataset.n_features, dataset.levels, statistics, kept)
    return encoder, changed_columns(dataset.columns, columns, more)


def known_columns(encoder: Encoder, dataset: Dataset, seen: Seen) -> Sequence[Any]:
    """The columns that rows are binned from by the Encoder of a model that training goes on from.

    Levels that it does not know are as in prediction. If the rows are those that its statistics
    were made of (they make the same again), a row gets what other blocks say, as it did then.
    """
    many = sorted(encoder.statistics)
    if many and _same_levels(dataset.levels, encoder.levels):
        again, columns = _with_statistics(dataset, many, encoder.kept, seen)
        pairs = [(encoder.statistics[f].values, again.statistics[f].values) for f in many]
        if all(np.array_equal(old, new) for old, new in pairs):
            return columns
    return encoder.encode(dataset.columns, dataset.levels, dataset.feature_names)


def _same_levels(one: Mapping[int, Levels], other: Mapping[int, Levels]) -> bool:
    return one.keys() == other.keys() and all(
        levels.kind == other[f].kind and np.array_equal(levels.values, other[f].values)
        for f, levels in one.items()
    )
