"""Numbers as a page holds them: short, and few.

Receives arrays; returns plain Python values that JSON can hold. What is not finite becomes None.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
MOST_LETTERS = 120


def short(value: Any, digits: int = 5) -> float | int | None:
    """A number with few digits."""
    number = float(value)
    if not math.isfinite(number):
        return None
    if number.is_integer() and abs(number) < 1e15:
        return int(number)
    return float(f"{number:.{digits}g}")


def shorts(values: Iterable[Any], digits: int = 5) -> list[float | int | None]:
    return [short(value, digits) for value in values]


def text(value: object) -> str:
    """A name of the user's, cut where nobody would read on."""
    whole = str(value)
    return whole if len(whole) <= MOST_LETTERS else whole[: MOST_LETTERS - 1] + "…"


def thinned(n_values: int, n_most: int) -> I64:
    """Positions of at most so many of n values, evenly spaced, the first and last among them."""
    if n_values <= n_most:
        return np.arange(n_values)
    return np.unique(np.linspace(0, n_values - 1, n_most).round().astype(np.int64))


def histogram(values: F64, weight: F64, n_bins: int = 30) -> dict[str, Any]:
    """Weights of values in bins of equal width; the outermost hundredths share the end bins."""
    low, high = np.quantile(values, (0.005, 0.995)) if len(values) > 200 else (0.0, 0.0)
    if not low < high:
        low, high = values.min(), values.max()
    if not low < high:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, n_bins + 1)
    found = np.histogram(np.clip(values, low, high), bins=edges, weights=weight)[0]
    return {"edges": shorts(edges), "counts": shorts(found)}


def equal_parts(values: F64, n_parts: int) -> list[I64]:
    """Row numbers in groups of increasing values; equal values stay together."""
    order = np.argsort(values, kind="stable")
    cuts = np.linspace(0, len(values), n_parts + 1).round().astype(np.int64)[1:-1]
    firsts = values[order][np.minimum(cuts, len(values) - 1)]
    borders = np.searchsorted(values[order], firsts, side="left")
    parts = np.split(order, np.unique(borders))
    return [part for part in parts if len(part)]


def mean(values: F64, weight: F64) -> float:
    return float(np.average(values, weights=weight))
