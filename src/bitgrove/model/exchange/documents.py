"""JSON and UBJSON: nested values as bytes, and back.

Values are dicts, lists, strings, whole numbers, floats and NumPy arrays of numbers, which UBJSON
has a short form for. Bytes that come in are hostile: nothing is sized by a number that the file
only claims, and depth is bounded.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

from bitgrove.errors import ModelFormatError
from bitgrove.model.forest_checks import refuse

_MAX_DEPTH = 32
_MAX_INT_DIGITS = 20  # parsing longer ones takes quadratic time
# UBJSON's letters for numbers, all big-endian.
_NUMBERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
_LETTERS = {"float32": "d", "float64": "D", "int32": "l", "int64": "L", "uint8": "U", "int8": "i"}
_CONSTANTS = {"Z": None, "T": True, "F": False}


def write_json(value: Any) -> str:
    """Floats of arrays in as few digits as their type needs."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{write_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, np.ndarray):
        words = value.astype(str).tolist()
        return "[" + ",".join(_CONSTANT_WORDS.get(word, word) for word in words) + "]"
    if isinstance(value, list):
        return "[" + ",".join(map(write_json, value)) + "]"
    return json.dumps(value)


_CONSTANT_WORDS = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}


def read_json(data: bytes) -> Any:
    try:
        return json.loads(data.decode(), parse_int=_parse_int)
    except ModelFormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(f"the file is not JSON: {error}") from None


def _parse_int(text: str) -> int:
    if len(text) > _MAX_INT_DIGITS:
        refuse(f"an integer of {len(text)} digits")
    return int(text)


def write_ubjson(value: Any) -> bytes:
    if isinstance(value, dict):
        parts = [_text(key) + write_ubjson(v) for key, v in value.items()]
        return b"{" + b"".join(parts) + b"}"
    if isinstance(value, np.ndarray):
        letter = _LETTERS[value.dtype.name]
        head = f"[${letter}#L".encode() + struct.pack(">q", len(value))
        return head + value.astype(_NUMBERS[letter]).tobytes()
    if isinstance(value, list):
        return b"[#L" + struct.pack(">q", len(value)) + b"".join(map(write_ubjson, value))
    if isinstance(value, str):
        return b"S" + _text(value)
    if isinstance(value, int):
        return b"L" + struct.pack(">q", value)
    return b"D" + struct.pack(">d", value)


def _text(value: str) -> bytes:
    content = value.encode()
    return b"L" + struct.pack(">q", len(content)) + content


def read_ubjson(data: bytes) -> Any:
    reader = _UbjsonReader(data)
    found = reader.value(reader.letter(), 0)
    if reader.at != len(data):
        refuse("bytes follow after the end")
    return found


class _UbjsonReader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.data) - self.at:
            refuse(f"a part of {size} bytes does not fit into the file")
        self.at += size
        return self.data[self.at - size : self.at]

    def letter(self) -> str:
        found = "N"
        while found == "N":  # means nothing
            found = self.take(1).decode("latin-1")
        return found

    def value(self, letter: str, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            refuse("the file is nested too deeply")
        if letter in _NUMBERS:
            dtype = np.dtype(_NUMBERS[letter])
            return np.frombuffer(self.take(dtype.itemsize), dtype)[0].item()
        if letter in _CONSTANTS:
            return _CONSTANTS[letter]
        if letter == "S":
            return self.text()
        if letter == "C":
            return self.take(1).decode("latin-1")
        if letter == "{":
            return self.mapping(depth)
        if letter == "[":
            return self.array(depth)
        return refuse(f"a value begins with {letter!r}")

    def count(self) -> int:
        letter = self.letter()
        if letter not in "iUIlL":
            refuse(f"a count begins with {letter!r}")
        return int(self.value(letter, 0))

    def text(self) -> str:
        return self.take(self.count()).decode("utf-8", "replace")

    def mapping(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self.data[self.at : self.at + 1] != b"}":
            key = self.text()
            found[key] = self.value(self.letter(), depth + 1)
        self.at += 1
        return found

    def array(self, depth: int) -> Any:
        kind = self.data[self.at : self.at + 1]
        if kind == b"$":
            self.at += 1
            letter, mark = self.letter(), self.letter()
            if letter not in _NUMBERS or mark != "#":
                refuse("an array is of a type that is no number")
            n, dtype = self.count(), np.dtype(_NUMBERS[letter])
            return np.frombuffer(self.take(n * dtype.itemsize), dtype).astype(
                dtype.newbyteorder("=")
            )
        if kind == b"#":
            self.at += 1
            n = self.count()
            if not 0 <= n <= len(self.data) - self.at:
                refuse(f"an array of {n} values does not fit into the file")
            return [self.value(self.letter(), depth + 1) for _ in range(n)]
        found = []
        while (letter := self.letter()) != "]":
            found.append(self.value(letter, depth + 1))
        return found
