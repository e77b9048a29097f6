"""Levels: every library's columns give the same codes, and what cannot be a level is refused."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import bitgrove as bg
from bitgrove.data.levels import INTEGER, REAL, TEXT, Levels, read_levels, union
from bitgrove.errors import DataError, DataTypeError

TEXTS = ["rome", None, "oslo", "rome", "łódź", "", "oslo"]
CODES = [2, -1, 1, 2, 3, 0, 1]
LEVELS = ["", "oslo", "rome", "łódź"]
KINDS: dict[str, Any] = {
    "pandas object": lambda: pd.Series(TEXTS, dtype=object),
    "pandas string": lambda: pd.Series(TEXTS, dtype="string"),
    "pandas arrow string": lambda: pd.Series(TEXTS, dtype=pd.ArrowDtype(pa.string())),
    "pandas category": lambda: pd.Series(TEXTS, dtype="category"),
    "pandas ordered": lambda: pd.Series(
        pd.Categorical(TEXTS, ["zürich", "rome", "łódź", "", "oslo"], ordered=True)
    ),
    "polars string": lambda: pl.Series(TEXTS),
    "polars categorical": lambda: pl.Series(TEXTS, dtype=pl.Categorical),
    "polars enum": lambda: pl.Series(TEXTS, dtype=pl.Enum(["rome", "łódź", "", "oslo", "ulm"])),
    "arrow string": lambda: pa.chunked_array([TEXTS[:3], TEXTS[3:]]),
    "arrow large string": lambda: pa.array(TEXTS, pa.large_string()),
    "arrow dictionary": lambda: pa.array(TEXTS).dictionary_encode(),
    "arrow dictionaries": lambda: pa.chunked_array(
        [pa.array(TEXTS[:4]).dictionary_encode(), pa.array(TEXTS[4:]).dictionary_encode()]
    ),
    "arrow unsigned codes": lambda: (
        pa.array(TEXTS).dictionary_encode().cast(pa.dictionary(pa.uint32(), pa.string()))
    ),
    "arrow of polars": lambda: (
        pl.DataFrame({"c": pl.Series(TEXTS, dtype=pl.Categorical)}).to_arrow().column(0)
    ),
    "arrow of an enum": lambda: pl.Series(TEXTS, dtype=pl.Enum(LEVELS)).to_arrow(),
    "array of objects": lambda: np.array(TEXTS, dtype=object),
    "NaN for missing": lambda: np.array([np.nan if t is None else t for t in TEXTS], dtype=object),
}


@pytest.mark.parametrize("kind", KINDS)
def test_text_of_every_library(kind: str) -> None:
    coded = read_levels("c", KINDS[kind]())
    assert coded.codes.tolist() == CODES
    assert coded.levels.kind == TEXT and coded.levels.values.tolist() == LEVELS


NUMBERS: dict[str, tuple[Any, str, list[Any], list[int]]] = {
    "integers": (np.array([7, -2, 7]), INTEGER, [-2, 7], [1, 0, 1]),
    "floats that are whole": (np.array([7.0, np.nan, -2.0]), INTEGER, [-2, 7], [1, -1, 0]),
    "floats": (np.array([0.5, 2.0]), REAL, [0.5, 2.0], [0, 1]),
    "bools": (np.array([True, False]), INTEGER, [0, 1], [1, 0]),
    "large": (np.array([2**62 + 1, 2**62]), INTEGER, [2**62, 2**62 + 1], [1, 0]),
    "nullable": (pd.Series([3, None, 1], dtype="Int64"), INTEGER, [1, 3], [1, -1, 0]),
    "categories": (pd.Series([3, 1, 3], dtype="category"), INTEGER, [1, 3], [1, 0, 1]),
    "one and 1.0": (np.array([1, 1.0, 2], dtype=object), INTEGER, [1, 2], [0, 0, 1]),
    "polars": (pl.Series([5, None, 4]), INTEGER, [4, 5], [1, -1, 0]),
    "NA of pandas": (np.array([7, pd.NA], dtype=object), INTEGER, [7], [0, -1]),
    "nothing": (np.array([np.nan, np.nan]), INTEGER, [], [-1, -1]),
}


IDS = [2**60 + 1, None, 2**60]  # which float64 cannot tell apart
NULLABLE_IDS: dict[str, Any] = {
    "pandas": lambda: pd.Series(IDS, dtype="Int64"),
    "pandas, of Arrow": lambda: pd.Series(IDS, dtype=pd.ArrowDtype(pa.int64())),
    "polars": lambda: pl.Series(IDS, dtype=pl.UInt64),
    "arrow": lambda: pa.chunked_array([IDS[:1], IDS[1:]]),
}


@pytest.mark.parametrize("library", NULLABLE_IDS)
def test_large_ids_beside_missing_ones(library: str) -> None:
    coded = read_levels("c", NULLABLE_IDS[library]())
    assert coded.levels.values.tolist() == [2**60, 2**60 + 1]
    assert coded.codes.tolist() == [1, -1, 0]


def test_large_ids_in_an_array() -> None:
    """An array becomes floats as a whole; its categories are read before."""
    ids = np.arange(400) % 20
    X = np.column_stack((ids + 2**60, np.arange(400)))
    params = {"objective": "regression", "n_estimators": 5}
    model = bg.train(params, bg.Dataset(X, ids % 2, categorical_feature=[0]))
    named = bg.Dataset(pd.DataFrame(X, columns=["f0", "f1"]), ids % 2, categorical_feature=[0])
    assert model.digest() == bg.train(params, named).digest()
    assert model.predict(X)[1] > model.predict(X)[0] + 0.1
    fitted = bg.BitGroveRegressor(n_estimators=5, categorical_features=[0]).fit(X, ids % 2)
    assert np.array_equal(fitted.predict(X), model.predict(X))


def test_the_whole_range_of_int64() -> None:
    ids = np.array([-(2**63), 2**63 - 1, 0])[np.arange(300) % 3]
    frame = pd.DataFrame({"id": ids, "x": np.arange(300.0)})
    target = ids.astype(float) < 0
    data = bg.Dataset(frame, target, categorical_feature=["id"])
    model = bg.train({"objective": "regression", "n_estimators": 20}, data)
    assert model.encoder is not None
    assert model.encoder.levels[0].values.tolist() == [-(2**63), 0, 2**63 - 1]
    again = bg.Model.from_bytes(model.to_bytes())
    assert np.array_equal(again.predict(frame) > 0.5, target)


@pytest.mark.parametrize("ids", [np.array([1, 2**64 - 1], np.uint64), [2**63, 1], [-(2**63) - 1]])
def test_hashes_beyond_int64_say_the_way_out(ids: Any) -> None:
    with pytest.raises(DataError, match=r"'c' holds .*between -2\*\*63 and 2\*\*63 - 1 .*astype"):
        read_levels("c", np.asarray(ids, dtype=None if isinstance(ids, np.ndarray) else object))
    assert len(read_levels("c", np.asarray(ids).astype(str)).levels) == len(ids)


def test_large_ids_of_a_validation_set() -> None:
    """It has the categories of the set that it refers to, read as exactly."""
    ids = np.arange(400) % 20
    X, y = np.column_stack((ids + 2**60, np.arange(400))), (ids % 2).astype(float)
    train = bg.Dataset(X, y, categorical_feature=[0])
    losses = []
    for valid in (train.create_valid(X, y), bg.Dataset(X, y, categorical_feature=[0])):
        params = {"objective": "binary", "n_estimators": 5, "metric": "logloss"}
        model = bg.train(params, train, valid_sets=[valid])
        losses.append(model.info.evals_result)
    assert losses[0] == losses[1]
    assert np.array_equal(model.predict(bg.Dataset(X, reference=train)), model.predict(X))


@pytest.mark.parametrize("by", ["csr", "csc"])
def test_sparse_whole_numbers_with_a_category(by: str) -> None:
    rng = np.random.default_rng(0)
    dense = rng.integers(0, 4, (300, 3))
    table, y = getattr(sparse, f"{by}_matrix")(dense), rng.random(300)
    assert table.dtype == np.int64
    params = {"objective": "regression", "n_estimators": 3}
    models = [
        bg.train(params, bg.Dataset(X, y, categorical_feature=[0]))
        for X in (table, dense.astype(float))
    ]
    assert models[0].digest() == models[1].digest()
    assert np.array_equal(models[1].predict(table), models[1].predict(dense))


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers(kind: str) -> None:
    column, wanted, levels, codes = NUMBERS[kind]
    coded = read_levels("c", column)
    assert coded.levels.kind == wanted and coded.levels.values.tolist() == levels
    assert coded.codes.tolist() == codes


BAD: dict[str, tuple[Any, str]] = {
    "text and numbers": (np.array(["a", 1], dtype=object), "either text or numbers"),
    "bytes": (np.array([b"a"], dtype=object), "bytes"),
    "tuples": (np.array([(1, 2), None], dtype=object), "tuple"),
    "half of a letter": (np.array(["\ud800"], dtype=object), "not Unicode"),
    "infinite": (np.array([1.5, np.inf]), "infinite"),
    "too large": (np.array([1e300]), "holds 1e.300; whole numbers of a category lie between"),
    "dates": (pd.Series(pd.date_range("2020", periods=2)), "datetime"),
    "date categories": (pd.Series(pd.date_range("2020", periods=2)).astype("category"), "Time"),
    "intervals": (pd.Series(pd.cut([0.1, 0.9], 2)), r"Interval.*astype\(str\)"),
    "complex": (np.array([1j]), "complex"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_level(kind: str) -> None:
    column, message = BAD[kind]
    with pytest.raises((DataError, DataTypeError), match=f"column 'c'.*{message}"):
        read_levels("c", column)


def test_find_and_union() -> None:
    ints = Levels(INTEGER, np.array([1, 3, 2**60 + 1]))
    reals = Levels(REAL, np.array([0.5, 3.0]))
    text = Levels(TEXT, np.array(["1", "3"], dtype=object))
    assert ints.find("c", reals).tolist() == [-1, 1]
    assert reals.find("c", ints).tolist() == [-1, 1, -1]
    with pytest.raises(DataError, match=r"column 'c' holds text .*'1'.*whole numbers"):
        ints.find("c", text)
    with pytest.raises(DataError, match="text in some parts"):
        union("c", [ints, text])
    empty = Levels(TEXT, np.array([], dtype=object))
    assert union("c", [empty, ints]).values.tolist() == ints.values.tolist()
    assert union("c", [ints, reals]).values.tolist() == [0.5, 1.0, 3.0, 2.0**60]


@pytest.mark.parametrize("column", [
    pl.Series([["a", "b"]] * 2), pl.Series([["a"]] * 2, dtype=pl.Array(pl.String, 1)),
    pl.Series([1, 2]).cast(pl.Int128), pa.array([["a"]] * 2),
    pa.array([[("a", 1)]] * 2, pa.map_(pa.string(), pa.int64())),
    pa.array([[(1, 1)]] * 2, pa.map_(pa.int64(), pa.int64())),
    pd.Series([["a"]] * 2, dtype=pd.ArrowDtype(pa.list_(pa.string()))),
], ids=lambda column: str(getattr(column, "dtype", getattr(column, "type", ""))))  # fmt: skip
def test_columns_that_hold_several_values_are_named(column: Any) -> None:
    frame = {pl.Series: pl.DataFrame, pd.Series: pd.DataFrame}.get(type(column), pa.table)
    with pytest.raises(DataError, match=r"column 'z' has type .*numbers are needed"):
        bg.Dataset(frame({"z": column}))


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([date(2020, 1, 1)] * 2),  # was text, which no other library would say
        pl.Series([[1], [2]]),
        pa.array([[1], [2]]),
        pd.Series([[1], [2]]),
        pd.Series(pd.date_range("2020", periods=2)),
    ],
    ids=["dates", "lists of polars", "lists of arrow", "lists of pandas", "dates of pandas"],
)
def test_columns_that_are_no_categories(column: Any) -> None:
    with pytest.raises(DataTypeError, match=r"column 'c' has type .*a category holds text or num"):
        read_levels("c", column)


@pytest.mark.skipif(not hasattr(pl, "Int128"), reason="an older polars")
@pytest.mark.parametrize("values", [[1, 2], [1, None]])
def test_wide_whole_numbers_are_no_categories(values: list[int | None]) -> None:
    with pytest.raises(DataTypeError, match="column 'c' has type Int128; a category holds"):
        read_levels("c", pl.Series(values, dtype=pl.Int128))


def test_a_category_may_be_called_a_list() -> None:
    kind = pl.Enum(["list", "struct"])
    assert (
        len(bg.Dataset(pl.DataFrame({"z": pl.Series(["struct", "list"], dtype=kind)})).levels) == 1
    )


def test_which_columns_are_categories() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"], "c": [3, 4]})
    assert set(bg.Dataset(frame).levels) == {1}
    assert set(bg.Dataset(frame, categorical_feature=["c"]).levels) == {1, 2}
    assert set(bg.Dataset(frame, categorical_feature=[0]).levels) == {0, 1}
    assert set(bg.Dataset(frame, categorical_feature=[False, True, True]).levels) == {1, 2}
    renamed = bg.Dataset(frame, feature_names=["p", "q", "r"], categorical_feature=["r"])
    assert set(renamed.levels) == {1, 2}
    with pytest.raises(DataError, match=r"column 'b' .*(numbers are needed|must hold numbers)"):
        bg.Dataset(frame, categorical_feature=None)
    mixed = np.array([["x", 1.5], ["y", None]], dtype=object)
    dataset = bg.Dataset(mixed, categorical_feature=[0])
    assert set(dataset.levels) == {0} and np.isnan(dataset.columns[1][1])
    with pytest.raises(DataError, match="not text"):
        bg.Dataset(mixed)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["d"], "'d' is not a column"),
        ([3], "3 is neither"),
        ([-1], "-1 is neither"),
        ([1.5], "1.5 is neither"),
        ("c", "must be 'auto'"),
        (7, "must be 'auto'"),
        ([True, False], "a mask of 2 for 3 columns"),
    ],
)
def test_bad_choices(given: Any, message: str) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"], "c": [3, 4]})
    with pytest.raises(DataError, match=message):
        bg.Dataset(frame, categorical_feature=given)


@pytest.mark.parametrize("kind", ["object", "string", "category"])
@pytest.mark.parametrize("values", [["b", None, "a", "b"], [None], [pd.NA, "x", float("nan")]])
def test_few_rows_are_read_as_many(kind: str, values: list[Any]) -> None:
    few = read_levels("c", pd.Series(values, dtype=object).astype(kind))
    many = read_levels("c", pd.Series(values * 200, dtype=object).astype(kind))
    assert few.levels.values.tolist() == many.levels.values.tolist()
    assert [*few.codes] * 200 == many.codes.tolist()


MEASURED = [f"{value / 8}" for value in range(1000)]
WHOLE = [f"{value}" for value in range(1000)]
FRAMES = {
    "object": lambda values: pd.DataFrame({"charge": np.array(values, dtype=object)}),
    "pandas": lambda values: pd.DataFrame({"charge": pd.Series(values, dtype="string")}),
    "polars": lambda values: pl.DataFrame({"charge": values}),
    "arrow": lambda values: pa.table({"charge": values}),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_numbers_as_text_are_no_categories_by_themselves(kind: str) -> None:
    frame, y = FRAMES[kind], np.arange(1000.0)
    cases = {"0.0": MEASURED, " ": [" ", *MEASURED[1:]], "?": ["?", *WHOLE[1:]],
             "0,0": [value.replace(".", ",") for value in MEASURED]}  # fmt: skip
    for odd, values in cases.items():
        with pytest.raises(DataError, match="'charge' holds numbers as text, and among them") as e:
            bg.Dataset(frame(values), y)
        assert repr(odd) in str(e.value)
        asked = bg.Dataset(frame(values), y, categorical_feature=["charge"])
        assert len(asked.levels[0]) == 1000
    codes = [f"0{value}" for value in WHOLE]
    few = ["?", "0.5", "1.5"] * 300 + ["0.5"] * 100
    for values in (WHOLE, codes, few, [*MEASURED[:900], *(f"a{i}" for i in range(100))]):
        assert bg.Dataset(frame(values), y).levels
