"""Dask collections become bundles: one partition of X with its rows of y, weights and queries.

Owns the way from collections to a future per partition, what the client learns of each, and which
worker a partition belongs to. Nothing is moved: a partition is trained on where it lies. Returns
Parts for the client; workers turn the bundles they hold into one Dataset (make_shard).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dask
import numpy as np
from distributed import Client, Future, get_worker, wait
from numpy.typing import NDArray

from bitgrove.data.dataset import Dataset
from bitgrove.errors import DataError, DataTypeError

Bundle = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Facts:
    """What the client knows of a partition.

    values, counts: its distinct labels and their rows, where they are asked for."""

    n_rows: int
    values: NDArray[Any] | None
    counts: NDArray[np.int64] | None
    queries: NDArray[Any] | None


@dataclass(frozen=True, eq=False)
class Part:
    """A partition that has rows: where it stands in its collection, and where it lies."""

    position: int
    bundle: Future
    facts: Facts
    worker: str


def is_collection(table: Any) -> bool:
    return bool(dask.is_dask_collection(table)) and hasattr(table, "to_delayed")


def whole_rows(table: Any) -> Any:
    """A Dask array whose blocks hold all columns; anything else is left as it is."""
    is_cut = hasattr(table, "chunks") and table.ndim == 2 and len(table.chunks[1]) > 1
    return table.rechunk({1: -1}) if is_cut else table


def load_parts(
    client: Client,
    tables: Sequence[Mapping[str, Any]],
    facts_of: Callable[[Bundle, int], Facts],
) -> list[list[Part]]:
    """Computes each table (its collections by name, X among them) and finds its partitions.

    All tables are one computation, so that what they share is computed once. Takes as long as the
    collections take: no time limit.
    """
    collections = [_aligned(table) for table in tables]
    flat = [column for table in collections for column in table.values()]
    stored = iter(client.persist(flat))
    bundles = [
        client.compute(_bundles({name: next(stored) for name in table})) for table in collections
    ]
    facts = [
        [client.submit(facts_of, bundle, i, pure=False) for i, bundle in enumerate(table)]
        for table in bundles
    ]
    found = client.gather(facts)
    wait(flat_bundles := [bundle for table in bundles for bundle in table])
    places = _places(client, flat_bundles)
    return [
        [
            Part(i, bundle, fact, places[bundle.key])
            for i, (bundle, fact) in enumerate(zip(*pair, strict=True))
            if fact.n_rows
        ]
        for pair in zip(bundles, found, strict=True)
    ]


def _aligned(table: Mapping[str, Any]) -> dict[str, Any]:
    """The collections that were given; arrays are cut where X is cut, if Dask knows where."""
    given = {name: column for name, column in table.items() if column is not None}
    cuts = getattr(given["X"], "chunks", ((np.nan,),))[0]
    for name, column in given.items():
        of_rows = name != "group" and hasattr(column, "chunks")
        if of_rows and not np.isnan(sum(cuts)) and column.shape[0] == sum(cuts):
            given[name] = column.rechunk({0: cuts})
    return {name: whole_rows(column) for name, column in given.items()}


def _bundles(table: Mapping[str, Any]) -> list[Any]:
    blocks = {name: np.ravel(column.to_delayed()).tolist() for name, column in table.items()}
    n_parts = len(blocks["X"])
    for name, column in blocks.items():
        if len(column) != n_parts:
            raise DataError(
                f"{name} has {len(column)} partitions but X has {n_parts}; they must match"
            )
    return [
        dask.delayed(dict)([(name, column[i]) for name, column in blocks.items()])
        for i in range(n_parts)
    ]


def _places(client: Client, bundles: Sequence[Future]) -> dict[str, str]:
    """A worker for each bundle: the one that holds it; of several, the one with least to do."""
    places: dict[str, str] = {}
    load: Counter[str] = Counter()
    who_has = client.who_has(bundles)
    for bundle in bundles:
        holders = who_has[bundle.key]
        if not holders:
            raise DataError("a partition was lost before training began; fit again")
        places[bundle.key] = min(holders, key=lambda worker: (load[worker], worker))
        load[places[bundle.key]] += 1
    return places


def make_shard(
    bundles: Sequence[Bundle],
    positions: Sequence[int],
    dataset_of: Callable[[Bundle], Dataset],
    feature_names: Sequence[str],
) -> Dataset:
    """One Dataset of a worker's bundles; its rows know which partition they came from."""
    if not bundles:
        nothing = np.zeros((0, len(feature_names)))
        return Dataset(nothing, np.zeros(0), feature_names=feature_names)
    datasets = []
    for bundle, position in zip(bundles, positions, strict=True):
        with naming_partition(position):
            datasets.append(dataset_of(bundle))
    return Dataset.joined(datasets, positions)


@contextmanager
def naming_partition(position: int) -> Iterator[None]:
    """Errors about the data say in which partition, and on which worker."""
    try:
        yield
    except (ValueError, TypeError) as error:
        kind = DataError if isinstance(error, ValueError) else DataTypeError
        place = f"partition {position} (on worker {get_worker().address})"
        raise kind(f"{place}: {error}") from error
