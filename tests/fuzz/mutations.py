"""Changes of a file that keep what is sealed whole: JSON stays JSON, arrays stay arrays.

Each format says how a file of it is taken apart and put together again.
"""

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

VALUES: list[Any] = [0, 1, -1, 2, 255, 256, 2**31 - 1, 2**31, 2**62, 2**63 - 1, -(2**63), 0.5,
                     -0.0, 1e300, True, False, None, "", "a", "\0", "é" * 50, [], {}, [[]],
                     ["a", 1],
                     "<f8", "|O", "binary", "multiclass", "lambdarank"]  # fmt: skip
FLOATS = [0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324, 1.7e308, -1.0, 254.0, 255.0]
WORDS = [b"-1", b"0", b"1", b"2147483648", b"-9223372036854775809", b"1e999", b"nan", b"inf", b"",
         b"99999999999999999999999", b"4294967295", b"[]", b"{}", b"null", b"0.5"]  # fmt: skip


def chosen(rng: np.random.Generator, items: Any) -> Any:
    return items[int(rng.integers(len(items)))]


def _places(value: Any) -> list[tuple[Any, Any]]:
    """(container, key) of everything in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found = [(value, key) for key, _ in items]
    for container, key in list(found):
        if isinstance(container[key], (dict, list)):
            found += _places(container[key])
    return found


def change_json(rng: np.random.Generator, value: Any) -> None:
    """Something in a dict or list goes, comes twice, or becomes another value."""
    places = _places(value)
    if not places:
        return
    container, key = chosen(rng, places)
    kind, old = int(rng.integers(5)), container[key]
    if kind == 0:
        del container[key]
    elif kind == 1 and isinstance(container, list):
        container.insert(int(rng.integers(len(container) + 1)), copy.deepcopy(old))
    elif kind == 2 and isinstance(old, int):
        container[key] = old + int(rng.integers(-2, 3))
    elif kind == 3:
        other, there = chosen(rng, places)
        if there in (other if isinstance(other, dict) else range(len(other))):
            container[key] = copy.deepcopy(other[there])
    else:
        container[key] = copy.deepcopy(chosen(rng, VALUES))


def change_number(rng: np.random.Generator, values: NDArray[Any]) -> None:
    """One number of an array; it is written to."""
    if not len(values):
        return
    at = int(rng.integers(len(values)))
    if values.dtype.kind == "f":
        with np.errstate(over="ignore"):
            values[at] = chosen(rng, [*FLOATS, rng.normal()])
        return
    low, high = np.iinfo(values.dtype).min, np.iinfo(values.dtype).max
    near = int(values[at]) + int(rng.integers(-3, 4))
    new = chosen(rng, [low, high, 0, ~0, near, int(chosen(rng, values))])
    values[at] = min(max(new, low), high)


def resized(rng: np.random.Generator, payload: bytearray) -> bytearray:
    at, n = int(rng.integers(len(payload) + 1)), int(rng.choice([1, 7, 8, 64]))
    if rng.random() < 0.5:
        return payload[:at] + payload[at + n :]
    return payload[:at] + bytearray(rng.bytes(n)) + payload[at:]


def change_bytes(rng: np.random.Generator, data: bytes) -> bytes:
    """One change: a byte, a number in text, a piece that goes or comes twice, or an end."""
    kind, at = int(rng.integers(6)), int(rng.integers(max(len(data), 1)))
    end = at + int(rng.geometric(0.02))
    if kind == 0:
        return data[:at] + bytes([int(rng.integers(256))]) + data[at + 1 :]
    if kind == 1:
        return data[:at] + data[end:]
    if kind == 2:
        return data[:end] + data[at:]
    if kind == 3 and rng.random() < 0.3:
        return data[:at]
    found = [match.span() for match in re.finditer(rb"-?\d[\d.E+-]*", data[at : at + 400])]
    if not found:
        return data
    first, last = chosen(rng, found)
    return data[: at + first] + chosen(rng, WORDS) + data[at + last :]
