"""Levels: the values of a category, in an order that no table decides.

Owns Levels and the way from a column of any library to codes. A level is text or a number and is
known by its value alone: neither pandas' order of categories nor the order of rows, ranks or
chunks changes its code.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.data.given_values import is_missing, is_number
from bitgrove.errors import BitgroveError, DataError, DataTypeError

Codes = NDArray[np.intp]  # -1: missing
TEXT, INTEGER, REAL = "text", "integer", "real"
_DTYPES = {TEXT: "O", INTEGER: "i8", REAL: "f8"}
# Of a column of text whose values are cheaper to go through than to hand to a library.
_FEW_ROWS = 64
# Text that reads as numbers: of so many levels on, where so large a share does.
_FEW_LEVELS, _MOST_LEVELS = 64, 0.95
_CODE, _WHOLE = re.compile(r"[-+\s]*0\d"), re.compile(r"\s*[-+]?\d+\s*")
# Parts of the names of column types that hold categories without being asked.
_CATEGORY_TYPES = ("cat", "dict", "str", "utf", "enum", "object")


@dataclass(frozen=True, eq=False)
class Levels:
    """Distinct values, increasing: text by its code points, numbers by their size.

    kind: "text", "integer" (int64) or "real" (finite float64, at least one not whole).
    """

    kind: str
    values: NDArray[Any]

    @staticmethod
    def of(kind: str, values: Iterable[Any]) -> Levels:
        """Of plain values, as JSON and messages hold them."""
        return Levels(kind, np.array([*values], dtype=_DTYPES[kind]))

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def _code_of(self) -> dict[str, int]:
        return {value: code for code, value in enumerate(self.values.tolist())}

    def find(self, name: str, other: Levels) -> Codes:
        """The codes here of other levels, -1 where there is none. Numbers compare by value."""
        if len(other) == 0 or len(self) == 0:
            return np.full(len(other), -1, dtype=np.intp)
        if TEXT in (self.kind, other.kind):
            if self.kind != other.kind:
                got, have = (
                    f"{_PLURAL[v.kind]} (such as {v.values.tolist()[0]!r})" for v in (other, self)
                )
                raise DataError(
                    f"column {name!r} holds {got}, but its levels in training are {have}"
                )
            get = self._code_of.get
            return np.array([get(value, -1) for value in other.values.tolist()], dtype=np.intp)
        wanted, known = other.values, self.values
        if other.kind != self.kind:  # whole numbers that float64 cannot hold match none
            wanted, known = wanted.astype(np.float64), known.astype(np.float64)
        at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return np.where(known[at] == wanted, at, -1).astype(np.intp)

    def take(self, codes: Codes) -> Levels:
        return Levels(self.kind, self.values[codes])


_PLURAL = {TEXT: "text", INTEGER: "whole numbers", REAL: "numbers"}


class Coded(NamedTuple):
    """A column as codes of its own levels."""

    codes: Codes
    levels: Levels


NO_LEVELS = Levels(INTEGER, np.zeros(0, dtype=np.int64))


def union(name: str, parts: Sequence[Levels]) -> Levels:
    """All levels of several columns, or ranks; those without levels may be of any kind."""
    filled = [part for part in parts if len(part)]
    if not filled:
        return NO_LEVELS
    kinds = {part.kind for part in filled}
    if TEXT in kinds and len(kinds) > 1:
        raise DataError(f"column {name!r} holds text in some parts and numbers in others")
    kind = TEXT if TEXT in kinds else INTEGER if kinds == {INTEGER} else REAL
    values = [part.values.astype(_DTYPES[kind]) for part in filled]
    return Levels(kind, np.unique(np.concatenate(values)))


def missing_code(n_levels: int) -> int:
    """Of columns of unsigned codes: the first number that is no level (0 always is one)."""
    return max(n_levels, 1)


def whole_codes(column: NDArray[Any], n_levels: int) -> Codes:
    """The codes of a column as integers, n_levels where they are missing.

    Missing are NaN in columns of floats, missing_code in those of unsigned integers.
    """
    if column.dtype.kind == "u":
        return np.minimum(column.astype(np.intp), n_levels)
    return np.where(np.isnan(column), n_levels, column).astype(np.intp)


def recoded(column: NDArray[Any], new_code: Codes, dtype: Any, missing: float) -> NDArray[Any]:
    """The codes of a column under other levels; new_code -1 becomes missing."""
    table = np.append(np.where(new_code < 0, missing, new_code), missing).astype(dtype)
    return np.asarray(table[whole_codes(column, len(new_code))])


def is_category_type(series: Any) -> bool:
    """Whether a column of a frame is one of text or categories. Objects are looked into."""
    dtype = getattr(series, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        return False
    kind = str(dtype or getattr(series, "type", "")).lower()
    kind = re.split(r"[(<\[]", kind)[0]  # a list of text is none, a category may be called "list"
    if not any(word in kind for word in _CATEGORY_TYPES) or kind == "struct":
        return False
    if kind != "object":
        return True
    return any(isinstance(value, str) for value in series.to_numpy())


def _is_text_type(series: Any) -> bool:
    """Whether it is text, but no type of its own says that it is a category."""
    kind = str(getattr(series, "dtype", None) or getattr(series, "type", "")).lower()
    return kind.startswith(("object", "str", "string", "large_string"))


def slip_among(levels: Sequence[str], share: float) -> str | None:
    """What keeps text from being numbers: the first level that is none, if that share of them is.

    1,5 and 1,000 are numbers with a slip; 007 is no number.
    """
    n_numbers = sum(not _CODE.match(v) and is_number(v.replace(",", "")) for v in levels)
    if n_numbers < max(share * len(levels), 1):
        return None
    return next((level for level in levels if not is_number(level)), levels[0])


def _refuse_numbers(name: str, levels: Levels) -> None:
    """DataError if the levels of a column of text are measured: as a category it says little.

    Few levels do no harm, and many whole numbers are ids.
    """
    if levels.kind != TEXT or len(levels) <= _FEW_LEVELS:
        return
    values = levels.values.tolist()
    odd = None if all(map(_WHOLE.fullmatch, values)) else slip_among(values, _MOST_LEVELS)
    if odd is not None:
        raise DataError(
            f"column {name!r} holds numbers as text, and among them {odd[:40]!r}; make numbers of "
            "it (pandas.to_numeric), or list it in categorical_feature to have it as a category"
        )


def read_levels(name: str, column: Any, by_type: bool = False) -> Coded:
    """The codes of a column: pandas, polars, Arrow or NumPy, of text, categories or numbers.

    by_type: nobody said that it is a category.
    """
    try:
        coded = _read(name, column)
        if by_type and _is_text_type(column):
            _refuse_numbers(name, coded.levels)
        return coded
    except UnicodeEncodeError:
        raise DataError(f"column {name!r} holds text that is not Unicode") from None
    except BitgroveError:
        raise
    except (TypeError, ValueError) as error:  # lists have no hash, arrays no truth
        raise _no_category(name, f"object ({error})") from error


def _read(name: str, column: Any) -> Coded:
    if isinstance(column, np.ndarray):
        return _of_array(name, column)
    if hasattr(column, "isna") and hasattr(column.array, "categories"):
        codes, categories = column.array.codes, column.array.categories
        return _tidy(name, codes.astype(np.intp), categories.tolist())
    if hasattr(column, "factorize"):
        return _of_pandas(name, column)
    if hasattr(column, "dictionary_encode"):
        return _of_arrow(name, column)
    if type(column).__module__.startswith("polars"):
        return _of_polars(name, column)
    return _of_array(name, np.asarray(column))


def _of_pandas(name: str, series: Any) -> Coded:
    kind = str(series.dtype).lower()
    if any(word in kind for word in ("date", "time", "period", "interval", "complex")):
        raise _no_category(name, series.dtype)
    if kind in ("object", "str") and len(series) <= _FEW_ROWS:
        return _of_array(name, series.to_numpy(dtype=object))
    is_text = kind in ("object", "str") or kind.startswith(("string", "dictionary"))
    has_missing = not is_text and bool(series.isna().any())
    # As an array, whole numbers beside missing ones would be floats, where large ids are the same.
    if is_text or (has_missing and kind.startswith(("int", "uint"))):
        codes, uniques = series.factorize()
        return _tidy(name, np.asarray(codes, dtype=np.intp), uniques.tolist())
    if has_missing:
        return _of_array(name, series.to_numpy(dtype=np.float64, na_value=np.nan))
    return _of_array(name, np.asarray(series.to_numpy()))


def _of_arrow(name: str, column: Any) -> Coded:
    kind = str(column.type)
    is_whole = kind.startswith(("int", "uint")) and column.null_count > 0
    if not is_whole and not any(word in kind for word in ("string", "dictionary")):
        return _of_array(name, np.asarray(column))
    coded = column if kind.startswith("dictionary") else column.dictionary_encode()
    if hasattr(coded, "unify_dictionaries"):
        coded = coded.unify_dictionaries()
        chunks = coded.chunks
        if not chunks:
            return Coded(np.zeros(0, dtype=np.intp), NO_LEVELS)
        values = chunks[0].dictionary.to_pylist()
        return _tidy(name, np.concatenate([_arrow_codes(chunk) for chunk in chunks]), values)
    return _tidy(name, _arrow_codes(coded), coded.dictionary.to_pylist())


def _arrow_codes(coded: Any) -> Codes:
    """Of a dictionary array, whose indices may be unsigned."""
    codes = coded.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
    return np.asarray(codes, dtype=np.intp)


def _of_polars(name: str, series: Any) -> Coded:
    polars = sys.modules["polars"]
    if str(series.dtype).endswith("Int128"):  # NumPy has none, and levels are of 64 bits
        raise _no_category(name, series.dtype)
    if series.dtype.is_integer() and series.null_count():
        codes = np.full(len(series), -1, dtype=np.intp)
        there = ~series.is_null().to_numpy()
        found, codes[there] = np.unique(series.drop_nulls().to_numpy(), return_inverse=True)
        return _tidy(name, codes, found.tolist())
    if series.dtype.is_numeric() or series.dtype == polars.Boolean:
        return _of_array(name, np.asarray(series))
    if series.dtype not in (polars.String, polars.Categorical, polars.Enum, polars.Null):
        raise _no_category(name, series.dtype)
    if series.dtype == polars.String:
        series = series.cast(polars.Categorical)
    physical = series.to_physical().cast(polars.Int64).fill_null(-1).to_numpy()
    found, first, codes = np.unique(physical, return_index=True, return_inverse=True)
    values = series[first.tolist()].cast(polars.String).to_list()
    has_null = len(found) and found[0] == -1
    return _tidy(name, codes - int(has_null), values[1:] if has_null else values)


def _of_array(name: str, values: NDArray[Any]) -> Coded:
    if values.ndim != 1:
        raise DataError(f"column {name!r} must hold one value per row")
    kind = values.dtype.kind
    if kind == "f":
        codes = np.full(len(values), -1, dtype=np.intp)
        there = ~np.isnan(values)
        found, codes[there] = np.unique(values[there].astype(np.float64), return_inverse=True)
        return _tidy(name, codes, found.tolist())
    if kind in "biuUT":
        found, codes = np.unique(values, return_inverse=True)
        return _tidy(name, codes.astype(np.intp), found.tolist())
    if kind != "O":
        raise _no_category(name, values.dtype)
    number: dict[Any, int] = {}
    codes = np.array(
        [-1 if is_missing(v) else number.setdefault(v, len(number)) for v in values.tolist()],
        dtype=np.intp,
    )
    return _tidy(name, codes, list(number))


def _no_category(name: str, kind: object) -> DataTypeError:
    return DataTypeError(f"column {name!r} has type {kind}; a category holds text or numbers")


def _tidy(name: str, codes: Codes, values: list[Any]) -> Coded:
    """The same column with its levels sorted, those that no row has left out."""
    present = np.zeros(len(values), dtype=np.bool_)
    present[codes[codes >= 0]] = True
    present &= np.array([not is_missing(value) for value in values], dtype=np.bool_)
    kept = np.flatnonzero(present)
    levels = _levels_of(name, [values[i] for i in kept])
    order = np.argsort(levels.values, kind="stable")
    levels = levels.take(order)
    if len(levels) > 1 and (levels.values[1:] == levels.values[:-1]).any():  # 1 and 1.0
        distinct = Levels(levels.kind, np.unique(levels.values))
        rank = distinct.find(name, levels)
        levels = distinct
    else:
        rank = np.arange(len(levels))
    new_code = np.full(len(values) + 1, -1, dtype=np.intp)  # the last: of -1
    new_code[kept[order]] = rank
    return Coded(new_code[codes], levels)


def _levels_of(name: str, values: Iterable[Any]) -> Levels:
    """Not sorted yet."""
    plain = [v.item() if isinstance(v, np.generic) else v for v in values]
    if not plain:
        return NO_LEVELS
    if all(isinstance(v, str) for v in plain):
        array = np.empty(len(plain), dtype=object)
        array[:] = [str(v) for v in plain]
        "".join(array).encode()  # halves of surrogate pairs are no text
        return Levels(TEXT, array)
    if not all(isinstance(v, (int, float)) for v in plain):
        strange = next(
            v for v in plain if not isinstance(v, (int, float, str)) or isinstance(v, str)
        )
        raise DataError(
            f"column {name!r} holds {strange!r} ({type(strange).__name__}) among its levels; a "
            "category holds either text or numbers (astype(str) makes text of all)"
        )
    if all(isinstance(v, int) or v.is_integer() for v in plain):
        beyond = [v for v in plain if not -(2**63) <= v < 2**63]
        if beyond:
            raise DataError(
                f"column {name!r} holds {beyond[0]}; whole numbers of a category lie between "
                "-2**63 and 2**63 - 1 (as text, by astype(str), all ids are levels)"
            )
        return Levels(INTEGER, np.array([int(v) for v in plain], dtype=np.int64))
    if not all(math.isfinite(v) for v in plain):
        raise DataError(f"column {name!r} is a category and holds an infinite value")
    return Levels(REAL, np.array(plain, dtype=np.float64))
