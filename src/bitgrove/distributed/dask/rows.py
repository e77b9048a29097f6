"""What is in a partition: the facts the client asks for, and the Dataset a worker makes of it.

Owns labels and queries that are spread over partitions. Receives bundles (one partition's X, y,
sample_weight, and group or qid) on the workers, and Parts with their Facts at the client.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length, column_or_1d

from bitgrove.data.dataset import Dataset
from bitgrove.data.given_rows import Queries, Rows
from bitgrove.data.given_values import as_stored
from bitgrove.distributed.dask.data import Bundle, Facts, Part, naming_partition
from bitgrove.errors import DataError

_TEXT = "OUST"  # kinds of dtypes that hold text


def facts_of(with_classes: bool, bundle: Bundle, position: int) -> Facts:
    """Looks at one partition, on the worker that holds it."""
    with naming_partition(position):
        per_row = [bundle.get(name) for name in ("X", "y", "sample_weight", "qid", "init_score")]
        check_consistent_length(*per_row)
        n_rows = bundle["X"].shape[0]
        if n_rows == 0:
            return Facts(0, None, None, None)
        values, counts, weight = None, None, bundle.get("sample_weight")
        if with_classes:
            target = column_or_1d(as_stored(bundle["y"]))
            seen = target if weight is None else target[column_or_1d(weight) > 0]
            values, counts = np.unique(seen, return_counts=True)
        return Facts(
            n_rows,
            values,
            counts,
            np.unique(column_or_1d(as_stored(bundle["qid"]))) if "qid" in bundle else None,
        )


def learn_classes(parts: Sequence[Part]) -> NDArray[Any]:
    """The distinct labels of all partitions."""
    values = [part.facts.values for part in parts if part.facts.values is not None]
    values = [found for found in values if len(found)] or values
    if len({found.dtype.kind in _TEXT for found in values}) > 1:
        raise DataError("y holds text in some partitions and numbers in others")
    return np.unique(np.concatenate(values))


def count_classes(parts: Sequence[Part], classes: NDArray[Any]) -> NDArray[np.int64]:
    """The rows of each class in all partitions."""
    total = np.zeros(len(classes), dtype=np.int64)
    for part in parts:
        if part.facts.values is not None and part.facts.counts is not None:
            np.add.at(total, np.searchsorted(classes, part.facts.values), part.facts.counts)
    return total


def check_queries(parts: Sequence[Part]) -> None:
    """A query's rows must lie in one partition: no rank sees those of another."""
    owner: dict[Any, int] = {}
    for part in parts:
        for query in [] if part.facts.queries is None else part.facts.queries.tolist():
            if owner.setdefault(query, part.position) != part.position:
                raise DataError(
                    f"qid: query {query!r} has rows in partitions {owner[query]} and "
                    f"{part.position}; repartition so that each query lies in one"
                )


def to_dataset(local: Any, names: list[str], bundle: Bundle) -> Dataset:
    """One partition, checked and encoded by the ordinary estimator, which knows the classes."""
    target, weight = as_stored(bundle["y"]), bundle.get("sample_weight")
    if weight is not None and np.ndim(getattr(local, "classes_", 0)) == 1:
        # Rows without weight count as absent; their label may be none of the classes.
        target = np.where(column_or_1d(weight) > 0, column_or_1d(target), local.classes_[0])
    queries = None
    if "qid" in bundle:
        queries = Queries(qid=bundle["qid"])
    elif "group" in bundle:
        queries = Queries(group=column_or_1d(bundle["group"]))
    rows = Rows(bundle["X"], target, weight, queries, init_score=bundle.get("init_score"))
    return local._dataset(rows, names)
