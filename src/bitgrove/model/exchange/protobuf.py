"""The bytes of a protocol buffer message, as far as ONNX needs them.

A message is a list of (field number, value): whole numbers, text, bytes, messages (lists again),
or Packed whole numbers. Nothing is read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

_VARINT, _BYTES = 0, 2


class Packed(tuple[int, ...]):
    """Whole numbers, none of them below zero, in one field."""


Message = Sequence[tuple[int, Any]]


def encode(message: Message) -> bytes:
    parts = []
    for field, value in message:
        if isinstance(value, int):
            parts.append(_varint(field << 3 | _VARINT) + _varint(value))
            continue
        if isinstance(value, str):
            content = value.encode()
        elif isinstance(value, bytes):
            content = value
        elif isinstance(value, Packed):
            content = b"".join(map(_varint, value))
        else:
            content = encode(value)
        parts.append(_varint(field << 3 | _BYTES) + _varint(len(content)) + content)
    return b"".join(parts)


def each(field: int, values: Iterable[Any]) -> list[tuple[int, Any]]:
    """A field that is there several times."""
    return [(field, value) for value in values]


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
