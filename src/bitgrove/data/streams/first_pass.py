"""The first pass over batches: everything but the bins.

Receives Batches; returns Found: names, labels, weights, queries, the levels of categories with the
codes of all rows, and a sample of the numbers for the edges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.data.given_rows import Queries
from bitgrove.data.given_values import (
    checked_group,
    checked_label,
    checked_scores,
    checked_weight,
)
from bitgrove.data.levels import (
    INTEGER,
    REAL,
    TEXT,
    Levels,
    missing_code,
    union,
    whole_codes,
)
from bitgrove.data.streams.batches import PER_ROW, Batch, Batches, naming_batch
from bitgrove.data.streams.sample import Draw, RowSample
from bitgrove.data.tables import MAX_ROWS
from bitgrove.errors import DataError

Array = NDArray[Any]
CHECKS: dict[str, Callable[[Any, int], Array]] = {
    "label": checked_label,
    "weight": checked_weight,
    "init_score": checked_scores,
}


class Found(NamedTuple):
    """parts: label, weight, group, init_score, as far as they came with the batches.

    codes: unsigned, by category. no_values: columns in which every row is missing.
    """

    n_rows: int
    levels: dict[int, Levels]
    codes: dict[int, Array]
    parts: dict[str, Array]
    no_values: frozenset[int]
    sample: RowSample


def look_through(batches: Batches, weight: Array | None, draw: Draw) -> Found:
    """weight: of all rows, where it does not come with the batches."""
    seen = _Seen(batches, weight, draw)
    for batch in batches.read():
        with naming_batch(batch.number):
            seen.add(batch)
    return seen.found()


class _Category:
    """One category: its levels in the order in which they came, and the codes of the rows."""

    def __init__(self, n_before: int) -> None:
        """n_before: rows in which it was missing."""
        self._number: dict[Any, int] = {}
        self._kinds: set[str] = set()
        self._parts: list[Array] = [np.broadcast_to(np.uint8(0), (n_before,))]  # 0: missing

    def add(self, codes: Array, levels: Levels) -> None:
        if len(levels):
            self._kinds.add(levels.kind)
        known = self._number
        numbers = [known.setdefault(value, len(known) + 1) for value in levels.values.tolist()]
        dtype = np.min_scalar_type(len(known))
        self._parts.append(np.array([*numbers, 0], dtype=dtype)[whole_codes(codes, len(levels))])

    def add_missing(self, n_rows: int) -> None:
        self._parts.append(np.broadcast_to(np.uint8(0), (n_rows,)))

    def finish(self, name: str) -> tuple[Levels, Array]:
        """The levels in their own order, and the codes of all rows."""
        if TEXT in self._kinds and len(self._kinds) > 1:
            raise DataError(f"column {name!r} holds text in some batches and numbers in others")
        kind = next((kind for kind in (TEXT, REAL) if kind in self._kinds), INTEGER)
        as_they_came = Levels.of(kind, self._number)
        levels = union(name, [as_they_came])
        missing = missing_code(len(levels))
        table = np.array([missing, *levels.find(name, as_they_came)])
        table = table.astype(np.min_scalar_type(missing))
        codes = np.empty(sum(map(len, self._parts)), dtype=table.dtype)
        begin = 0
        for part in self._parts:
            codes[begin : begin + len(part)] = table[part]
            begin += len(part)
        return levels, codes


class _Seen:
    """What is known after some batches."""

    def __init__(self, batches: Batches, weight: Array | None, draw: Draw) -> None:
        self._batches, self._weight = batches, weight
        self._n_rows, self._sample = 0, RowSample(draw)
        self._parts: list[dict[str, Array]] = []
        self._categories: dict[int, _Category] = {}
        self._has_values: set[int] = set()  # columns of numbers
        self._given: frozenset[str] | None = None

    def add(self, batch: Batch) -> None:
        n_rows, table = batch.n_rows, batch.table
        if n_rows == 0:
            return
        if self._n_rows + n_rows > MAX_ROWS:
            raise DataError(f"X has more than {MAX_ROWS} rows, which is the most of a shard")
        parts = self._checked_parts(batch.parts, n_rows)
        self._parts.append(parts)
        for f, column in enumerate(table.values):
            self._look(f, column, table.levels.get(f))
        kept = self._kept(parts, n_rows)
        self._sample.add([column[kept] for column in table.values])
        self._n_rows += n_rows

    def _checked_parts(self, given: Mapping[str, Any], n_rows: int) -> dict[str, Array]:
        if self._given is None:
            self._given = frozenset(given)
        if differs := sorted(self._given ^ given.keys()):
            raise DataError(f"{differs[0]} came with some batches and not with others")
        parts = {name: CHECKS[name](given[name], n_rows) for name in CHECKS if name in given}
        if "group" in given:
            parts["group"] = checked_group(given["group"], n_rows)
        if "qid" in given:
            parts["qid"] = np.asarray(given["qid"])
            if parts["qid"].shape != (n_rows,):
                raise DataError(f"qid has {len(parts['qid'])} entries but X has {n_rows} rows")
        return parts

    def _look(self, f: int, column: Array, levels: Levels | None) -> None:
        name = self._batches.names[f] if self._batches.names else f"f{f}"
        category = self._categories.get(f)
        if levels is not None:
            if f in self._has_values:
                raise DataError(f"column {name!r} is a category, but a number in batches before")
            if category is None:
                category = self._categories[f] = _Category(self._n_rows)
            category.add(column, levels)
        elif f not in self._has_values and not np.isnan(column).all():
            if category is not None:
                raise DataError(f"column {name!r} is a number, but a category in batches before")
            self._has_values.add(f)
        elif category is not None:
            category.add_missing(len(column))

    def _kept(self, parts: Mapping[str, Array], n_rows: int) -> Any:
        """Rows of weight zero are none of the training: they have no ids."""
        weight = parts.get("weight")
        if self._weight is not None:
            weight = self._weight[self._n_rows : self._n_rows + n_rows]
        return slice(None) if weight is None or (weight > 0).all() else np.flatnonzero(weight > 0)

    def found(self) -> Found:
        if self._batches.n_features is None:
            raise DataError("make_batches gave no batch")
        self._sample.finish(self._sample.n_rows, self._batches.n_features)
        names = self._batches.names or [f"f{f}" for f in range(self._batches.n_features)]
        done = {f: c.finish(names[f]) for f, c in sorted(self._categories.items())}
        self._sample.without(set(done))
        parts = {
            name: np.concatenate([part[name] for part in self._parts])
            for name in (*PER_ROW, "group")
            if self._given and name in self._given
        }
        if "qid" in parts:
            ids = parts.pop("qid")
            parts["group"] = np.asarray(Queries(qid=ids).sizes(ids), dtype=np.int64)
        no_values = frozenset(range(self._batches.n_features)) - self._has_values
        return Found(
            self._n_rows,
            {f: levels for f, (levels, _) in done.items()},
            {f: codes for f, (_, codes) in done.items()},
            parts,
            frozenset(f for f in no_values if f not in done or not len(done[f][0])),
            self._sample,
        )
