"""Batches of a table, read one after the other, as often as they are needed.

Owns Batches: it calls the user's function for a fresh iterator, divides each batch into features,
label, weight and queries, checks that all have the same columns, and reads ahead in a thread.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from bitgrove.data.categories import CategoryChoice
from bitgrove.data.device_tables import on_host
from bitgrove.data.sparse.tables import dense_columns
from bitgrove.data.tables import Columns, collected, column_names, name_difference, to_columns
from bitgrove.errors import DataError, DataTypeError

T = TypeVar("T")
MakeBatches = Callable[[], Iterable[Any]]
_PARTS = ("label", "weight", "group")  # of a tuple, after X
PER_ROW = ("label", "weight", "qid", "init_score")
_AHEAD = 1  # batches that wait while one is worked on and another is read


class Batch(NamedTuple):
    """number: from 1. parts: label, weight, ... as they came with it."""

    number: int
    table: Columns
    parts: Mapping[str, Any]

    @property
    def n_rows(self) -> int:
        return len(self.table.values[0])


class Batches:
    """roles: the columns of the batches that are no features, such as {"label": "price"}."""

    def __init__(
        self,
        make: MakeBatches,
        roles: Mapping[str, str],
        choice: CategoryChoice,
        feature_names: list[str] | None,
    ) -> None:
        if not callable(make):
            raise DataTypeError(
                f"make_batches is a {type(make).__name__}; a function is needed that returns a "
                "fresh iterator over the batches each time it is called, such as lambda: read(path)"
            )
        self._make, self._roles, self._choice = make, dict(roles), choice
        self._given_names = feature_names
        self.names: list[str] | None = None  # of the features, once a batch was seen
        self.n_features: int | None = None

    def read(self) -> Iterator[Batch]:
        """One pass; the next batch is read and converted while this one is worked on."""
        yield from _read_ahead(self._read())

    def _read(self) -> Iterator[Batch]:
        made = self._make()
        try:
            items = iter(made)
        except TypeError:
            raise DataTypeError(
                f"make_batches returned a {type(made).__name__}, not an iterator over batches"
            ) from None
        for number, item in enumerate(items, start=1):
            with naming_batch(number):
                batch = self._batch(number, item)
                self._check_columns(batch.table)
            yield batch

    def _batch(self, number: int, item: Any) -> Batch:
        X, parts = _divided(item)
        X = _as_table(X)
        if self._roles:
            X, named = _without_roles(X, self._roles)
            if both := sorted(named.keys() & parts.keys()):
                raise DataError(f"{both[0]} is named as a column and came with the batch, too")
            parts = {**parts, **named}
        table = to_columns(X, self._choice, self._given_names)
        # A batch on a GPU is binned on the host like all others, a sparse one is made dense.
        values = [on_host(column) for column in dense_columns(table.values)]
        table = table._replace(values=values)
        return Batch(number, table, parts)

    def _check_columns(self, table: Columns) -> None:
        if self.n_features is None:
            self.n_features, self.names = len(table.values), table.names
        if len(table.values) != self.n_features:
            raise DataError(
                f"it has {len(table.values)} features, the first batch has {self.n_features}"
            )
        if table.names != self.names:
            if table.names is None or self.names is None:
                raise DataError("some batches have column names and others have none")
            difference = name_difference(table.names, self.names)
            difference = difference.replace("the training columns", "those of the first batch")
            raise DataError(difference.replace("training", "the first batch"))


@contextmanager
def naming_batch(number: int) -> Iterator[None]:
    """Errors about the data say in which batch."""
    try:
        yield
    except (DataError, DataTypeError) as error:
        raise type(error)(f"batch {number}: {error}") from error


def _divided(item: Any) -> tuple[Any, dict[str, Any]]:
    """The table of a batch, and what came with it."""
    if isinstance(item, tuple):
        if not 1 <= len(item) <= 1 + len(_PARTS):
            raise DataError(f"a tuple (X, label, weight, group) is expected, got {len(item)} items")
        X, *rest = item
        given = dict(zip(_PARTS, rest, strict=False))
    elif isinstance(item, Mapping):
        if unknown := sorted(map(str, item.keys() - {"X", "group", *PER_ROW})):
            raise DataError(f"unknown part {unknown[0]!r}; X, label, weight, group, qid and "
                            "init_score are known")  # fmt: skip
        if "X" not in item:
            raise DataError("it has no X")
        X, given = item["X"], {name: part for name, part in item.items() if name != "X"}
    else:
        return item, {}
    return X, {name: part for name, part in given.items() if part is not None}


def _without_roles(X: Any, roles: Mapping[str, str]) -> tuple[Any, dict[str, Any]]:
    """The table without the columns that are no features, and those columns."""
    X = collected(X)
    names = column_names(X)
    if names is None:
        role, name = next(iter(roles.items()))
        raise DataError(f"{role}={name!r}: the batch has no column names; give (X, label) tuples")
    for role, name in roles.items():
        if name not in names:
            raise DataError(f"{role}={name!r}: no such column")
    left = [name for name in names if name not in set(roles.values())]
    is_arrow = hasattr(X, "column_names")
    found = {role: X.column(name) if is_arrow else X[name] for role, name in roles.items()}
    return (X.select(left) if hasattr(X, "select") else X[left]), found


def _as_table(X: Any) -> Any:
    """A record batch of Arrow as a table, which knows how to select."""
    is_batch = type(X).__name__ == "RecordBatch" and "pyarrow" in sys.modules
    return sys.modules["pyarrow"].Table.from_batches([X]) if is_batch else X


def _read_ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items, fetched by a thread; what is raised there is raised here."""
    waiting: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(_AHEAD)
    done, stopped = object(), threading.Event()

    def put(item: Any, error: BaseException | None) -> bool:
        while not stopped.is_set():
            try:
                waiting.put((item, error), timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def fetch() -> None:
        try:
            for item in items:
                if not put(item, None):
                    return
            put(done, None)
        except BaseException as error:  # also KeyboardInterrupt: it belongs to the caller
            put(done, error)
        finally:
            if stopped.is_set() and hasattr(items, "close"):
                items.close()

    reader = threading.Thread(target=fetch, name="bitgrove-reader", daemon=True)
    reader.start()
    try:
        while True:
            item, error = waiting.get()
            if error is not None:
                raise error
            if item is done:
                return
            yield item
    finally:
        stopped.set()
        reader.join()
