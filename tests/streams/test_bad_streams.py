"""Batches that misbehave are errors that say how."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from stream_cases import cut

import bitgrove as bg
from bitgrove.distributed import run_threads
from bitgrove.errors import BitgroveError, DataError, DataTypeError

PARAMS = {"objective": "regression", "n_estimators": 2, "n_jobs": 1}
RNG = np.random.default_rng(0)
X, y = RNG.normal(size=(300, 3)), RNG.normal(size=300)
FIRST = {"X": X, "label": y}


def parts(*batches: Any) -> Callable[[], Iterator[Any]]:
    return lambda: iter(batches)


def columns(**given: Any) -> Any:
    return pytest.importorskip("pandas").DataFrame(given)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (iter([(X, y)]), "make_batches is a list_iterator; a function is needed"),
        (lambda: 3, "make_batches returned a int, not an iterator"),
        (parts(), "make_batches gave no batch"),
        (parts((X, y), (X[:, :2], y)), "batch 2: it has 2 features, the first batch has 3"),
        (parts(FIRST, X), "batch 2: label came with some batches and not with others"),
        (parts((X, y), (X, y[:5])), "batch 2: label has 5 entries but X has 300 rows"),
        (parts((X, y, y)), "batch 1: weight must not be negative"),
        (parts((X, y, None, [3, 4])), "batch 1: group sizes add up to 7 but there are 300 rows"),
        (parts((X, y, None, None, 1)), "batch 1: a tuple .* is expected, got 5 items"),
        (parts({"X": X, "target": y}), "batch 1: unknown part 'target'"),
        (parts({"label": y}), "batch 1: it has no X"),
        (parts((X, np.full(300, np.nan))), "batch 1: label contains NaN"),
        (parts({**FIRST, "qid": [1, 2]}), "batch 1: qid has 2 entries"),
        (parts((X.astype(complex), y)), "batch 1: Complex data not supported"),
    ],
)  # fmt: skip
def test_batches_that_do_not_fit(make: Any, message: str) -> None:
    with pytest.raises(BitgroveError, match=message):
        bg.Dataset.from_batches(make)


def test_columns_that_do_not_fit() -> None:
    a, b = columns(p=[1.0], q=[2.0]), columns(q=[2.0], p=[1.0])
    with pytest.raises(DataError, match="batch 2: columns are those of the first batch in another"):
        bg.Dataset.from_batches(parts(a, b), [1, 2])
    with pytest.raises(DataError, match="batch 2: columns differ from the first batch: missing"):
        bg.Dataset.from_batches(parts(a, columns(p=[1.0], r=[2.0])), [1, 2])
    with pytest.raises(DataError, match="some batches have column names and others have none"):
        bg.Dataset.from_batches(parts(a, np.ones((1, 2))), [1, 2])
    with pytest.raises(DataError, match="column 'p' is a category, but a number in batches before"):
        bg.Dataset.from_batches(parts(columns(p=[1.0]), columns(p=["x"])), [1, 2])
    with pytest.raises(DataError, match="column 'p' is a number, but a category in batches before"):
        bg.Dataset.from_batches(parts(columns(p=["x"]), columns(p=[1.0])), [1, 2])
    mixed = parts(columns(p=["x"]), columns(p=[1]))
    with pytest.raises(DataError, match="'p' holds text in some batches and numbers in others"):
        bg.Dataset.from_batches(mixed, [1, 2], categorical_feature=["p"])


def test_arguments_that_do_not_fit() -> None:
    make = parts(columns(p=[1.0, 2.0], y=[0.0, 1.0]))
    with pytest.raises(DataError, match="batch 1: label='z': no such column"):
        bg.Dataset.from_batches(make, label="z")
    with pytest.raises(DataError, match="label, weight must be different columns"):
        bg.Dataset.from_batches(make, label="y", weight="y")
    with pytest.raises(DataError, match="label was given, and came with the batches, too"):
        bg.Dataset.from_batches(cut(X, y), label=y)
    with pytest.raises(DataError, match="label has 2 entries but X has 300 rows"):
        bg.Dataset.from_batches(cut(X), label=[1, 2])
    with pytest.raises(TypeError, match="from_batches has no argument 'lable'"):
        bg.Dataset.from_batches(cut(X), lable=y)
    with pytest.raises(DataError, match="the batch has no column names"):
        bg.Dataset.from_batches(cut(X), label="y")


def other_each_time(*passes: Any) -> Callable[[], Iterator[Any]]:
    """Batches that are different ones in each pass; the last ones stay."""
    left = list(passes)
    return lambda: iter(left.pop(0) if len(left) > 1 else left[0])


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ([], "gave 300 rows when it was first called and 0 rows now.*fresh iterator"),
        ([(X[:200], y[:200])], "and 200 rows now"),
        ([(X, y), (X, y)], "and at least 600 rows now"),
        ([(X[::-1], y[::-1])], "gave other values than when it was first called"),
        ([(X[:, :2], y)], "batch 1: it has 2 features"),
    ],
)
def test_another_second_pass(second: list[Any], message: str) -> None:
    dataset = bg.Dataset.from_batches(other_each_time([(X, y)], second))
    with pytest.raises(DataError, match=message):
        bg.train(PARAMS, dataset)


def test_an_iterator_that_is_not_fresh() -> None:
    rows = iter([(X, y)])
    dataset = bg.Dataset.from_batches(lambda: rows)
    with pytest.raises(DataError, match="and 0 rows now: it must return a fresh iterator"):
        bg.train(PARAMS, dataset)


def test_errors_of_the_iterator_are_not_changed() -> None:
    closed = []

    class Torn(Exception):
        pass

    def torn() -> Iterator[Any]:
        yield X, y
        raise Torn("the network is gone")

    with pytest.raises(Torn, match="the network is gone"):
        bg.Dataset.from_batches(torn)

    def endless() -> Iterator[Any]:
        try:
            while True:
                yield X, y[:7]
        finally:
            closed.append(True)

    with pytest.raises(DataError):
        bg.Dataset.from_batches(endless)
    assert closed == [True]


def test_what_needs_all_rows_says_so() -> None:
    dataset = bg.Dataset.from_batches(cut(X, y))
    model = bg.train(PARAMS, dataset)
    for use in (model.predict, lambda d: model.refit(d)):
        with pytest.raises(DataError, match="needs all rows in memory"):
            use(dataset)
    with pytest.raises(DataError, match="cannot be divided"):
        bg.cv(PARAMS, dataset, nfold=2)
    with pytest.raises(DataTypeError, match="train_set must be a Dataset"):
        bg.train(PARAMS, cut(X, y))


def test_ranks_need_the_same_kind_of_rows() -> None:
    def rank(comm: Any) -> None:
        data = bg.Dataset(X, y) if comm.rank else bg.Dataset.from_batches(cut(X, y))
        bg.train(PARAMS, data, comm=comm)

    with pytest.raises(DataError, match="X: rank 0 has a stream, rank 1 rows in memory"):
        run_threads(2, rank)
