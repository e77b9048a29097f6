"""JSON headers of our files, in the one spelling that is allowed.

Owns reading and writing of them. Receives bytes that nobody vouches for; whatever is wrong with
them is a BadHeader that says so, which each format raises as an error of its own.
"""

from __future__ import annotations

import json
import reprlib
from collections import Counter
from collections.abc import Mapping
from typing import Any, NoReturn

MAX_HEADER_BYTES = 1 << 25  # JSON grows about twenty-fold when parsed: this bounds the memory
_MAX_INT_DIGITS = 20  # any 64-bit integer with its sign; parsing longer ones takes quadratic time


class BadHeader(ValueError):
    """A header that no file of ours has."""


def refuse(what: str) -> NoReturn:
    raise BadHeader(what)


def canonical_json(value: object) -> bytes:
    """Sorted keys, no spaces, ASCII."""
    try:
        text = _dumped(value, ensure_ascii=False)
        if not text.isascii() or "\x7f" in text:
            text.encode("utf-8")  # refuses lone surrogates
            text = _dumped(value, ensure_ascii=True)
    except (ValueError, TypeError, RecursionError) as error:
        raise BadHeader(f"the header cannot be written as JSON: {error}") from error
    return text.encode("ascii")


def _dumped(value: object, ensure_ascii: bool) -> str:
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=ensure_ascii, allow_nan=False
    )


def read_json(data: bytes, most_bytes: int = MAX_HEADER_BYTES) -> Any:
    """The value, whatever its spelling; see check_canonical, once its keys are known."""
    if len(data) > most_bytes:
        refuse(f"a header of {len(data)} bytes is over the limit of {most_bytes}")
    try:
        return json.loads(
            data.decode("ascii"),
            object_pairs_hook=_unique_keys,
            parse_int=_parse_int,
            parse_constant=lambda name: refuse(f"the header holds {name}"),
        )
    except BadHeader:
        raise
    except (ValueError, RecursionError) as error:
        raise BadHeader(f"the header is not JSON: {error}") from error


def check_canonical(value: object, data: bytes) -> None:
    if canonical_json(value) != data:
        refuse("the header is not canonical JSON (sorted keys, no spaces, ASCII)")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        refuse(f"the header has the key {reprlib.repr(twice)} twice")
    return unique


def _parse_int(text: str) -> int:
    if len(text) > _MAX_INT_DIGITS:
        refuse(f"the header holds an integer of {len(text)} digits")
    return int(text)


def check_types(what: str, value: object, types: Mapping[str, tuple[type, ...]]) -> None:
    """Exactly these keys, of these types."""
    if not isinstance(value, dict):
        refuse(f"{what} is not an object")
    if missing := types.keys() - value.keys():
        refuse(f"{what} lacks {', '.join(sorted(missing))}")
    if unknown := value.keys() - types.keys():
        refuse(f"{what} has unknown keys: {reprlib.repr(sorted(unknown))}")
    for key, allowed in types.items():
        if type(value[key]) not in allowed:  # exact: True is not a count
            refuse(
                f"{what}: {key} is {reprlib.repr(value[key])}, not of type {allowed[0].__name__}"
            )
