"""Which columns of a table are categories.

Receives what users give as `categorical_feature`; returns the positions of those columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bitgrove.errors import DataError


class CategoryChoice(NamedTuple):
    """The columns that are listed; by_type: also all that hold text or are of a category type.

    mask_size: the number of columns that a mask was given for.
    """

    listed: tuple[Any, ...] = ()
    by_type: bool = True
    mask_size: int | None = None

    def positions(self, names: Sequence[str] | None, n_features: int) -> frozenset[int]:
        """Of the listed columns."""
        if self.mask_size not in (None, n_features):
            raise DataError(
                f"categorical_feature: a mask of {self.mask_size} for {n_features} columns"
            )
        at = None if names is None else {name: i for i, name in enumerate(names)}
        return frozenset(_position(item, at, n_features) for item in self.listed)


BY_TYPE = CategoryChoice()


def choice_of(categorical_feature: Any) -> CategoryChoice:
    """ "auto": by type. None: none. A list of names or positions, or a mask: these and by type."""
    if isinstance(categorical_feature, str):
        if categorical_feature != "auto":
            raise DataError(
                f"categorical_feature={categorical_feature!r}: must be 'auto', None or a list of "
                "column names or positions"
            )
        return BY_TYPE
    if categorical_feature is None:
        return CategoryChoice((), False)
    if not isinstance(categorical_feature, Iterable):
        raise DataError(
            f"categorical_feature={categorical_feature!r}: must be 'auto', None or a list of "
            "column names or positions"
        )
    listed = [i.item() if isinstance(i, np.generic) else i for i in categorical_feature]
    if listed and all(isinstance(item, bool) for item in listed):
        return CategoryChoice((*np.flatnonzero(listed).tolist(),), mask_size=len(listed))
    return CategoryChoice(tuple(listed))


def choice_beside(reference: Any, X: Any) -> CategoryChoice:
    """Of a table beside a Dataset: its categories, and by type. Large ids stay exact so."""
    shape: Any = getattr(X, "shape", ())
    n_features = shape[1] if len(shape) == 2 else 0
    return CategoryChoice(tuple(f for f in sorted(reference.levels) if f < n_features))


def _position(item: Any, at: Mapping[str, int] | None, n_features: int) -> int:
    """at: where the columns are, by name."""
    if isinstance(item, str):
        if at is None or item not in at:
            known = "X has no column names" if at is None else f"columns are {list(at)[:8]}"
            raise DataError(f"categorical_feature: {item!r} is not a column; {known}")
        return at[item]
    if isinstance(item, bool) or not isinstance(item, int) or not 0 <= item < n_features:
        raise DataError(
            f"categorical_feature: {item!r} is neither a column name nor a position from 0 to "
            f"{n_features - 1}"
        )
    return item
