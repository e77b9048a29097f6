"""Levels of categories as arrays of a file, and back.

Owns their layout: `level_numbers` (whole numbers, or the bits of float64), `level_ends` and
`level_text` (UTF-8, where each text ends). What is read is checked: a level that no column could
have is a BadHeader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.data.levels import INTEGER, REAL, TEXT, Levels
from bitgrove.machine.headers import check_types, refuse

Array = NDArray[Any]
_TYPES = {"feature": (int,), "kind": (str,), "n_levels": (int,)}


def described_levels(levels: Mapping[int, Levels]) -> list[dict[str, Any]]:
    """A header's entry for each category."""
    return [
        {"feature": f, "kind": known.kind, "n_levels": len(known)}
        for f, known in sorted(levels.items())
    ]


def level_arrays(levels: Mapping[int, Levels]) -> dict[str, Array]:
    ordered = [known for _, known in sorted(levels.items())]
    texts = [t.encode() for known in ordered if known.kind == TEXT for t in known.values.tolist()]
    numbers = [known.values.view("<i8") for known in ordered if known.kind != TEXT]
    return {
        "level_numbers": np.concatenate([np.empty(0, "<i8"), *numbers]),
        "level_ends": np.cumsum([len(text) for text in texts]).astype("<i8"),
        "level_text": np.frombuffer(b"".join(texts), dtype="|u1"),
    }


def check_described(items: Sequence[Any], n_features: int) -> None:
    """Types and bounds of the entries, before anything is sized by them."""
    last = -1
    for item in items:
        check_types("categories", item, _TYPES)
        if not last < item["feature"] < n_features:
            refuse(f"categories: feature {item['feature']} is out of range or out of order")
        last = item["feature"]
        if item["kind"] not in (TEXT, INTEGER, REAL):
            refuse(f"categories: levels of kind {item['kind'][:20]!r} are unknown")
        if item["n_levels"] < 0:
            refuse(f"categories: n_levels is {item['n_levels']}")


def level_sections(items: Sequence[Mapping[str, Any]], text_bytes: int) -> list[Any]:
    """(name, dtype, shape) of each array."""
    n_text = sum(item["n_levels"] for item in items if item["kind"] == TEXT)
    n_numbers = sum(item["n_levels"] for item in items if item["kind"] != TEXT)
    return [
        ("level_numbers", "<i8", [n_numbers]),
        ("level_ends", "<i8", [n_text]),
        ("level_text", "|u1", [text_bytes]),
    ]


def levels_in(items: Sequence[Mapping[str, Any]], arrays: Mapping[str, Array]) -> dict[int, Levels]:
    """The levels of each category; every one checked."""
    texts = _texts(arrays["level_ends"], arrays["level_text"])
    numbers, levels = arrays["level_numbers"], {}
    for item in items:
        n, f, kind = item["n_levels"], item["feature"], item["kind"]
        if kind == TEXT:
            own, texts = texts[:n], texts[n:]
        else:
            own, numbers = numbers[:n].view("i8" if kind == INTEGER else "f8"), numbers[n:]
        levels[f] = _checked(f, Levels(kind, own))
    return levels


def _texts(ends: Array, content: Array) -> Array:
    starts = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
    if (ends < starts).any() or (len(ends) and int(ends[0]) < 0):
        refuse("categories: the ends of texts do not increase")
    if (int(ends[-1]) if len(ends) else 0) != len(content):
        refuse("categories: the texts do not fill their section")
    data = content.tobytes()
    texts = np.empty(len(ends), dtype=object)
    try:
        texts[:] = [data[a:b].decode() for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
    except UnicodeDecodeError:
        refuse("categories: a level is not UTF-8")
    return texts


def _checked(feature: int, levels: Levels) -> Levels:
    values = levels.values
    if levels.kind == REAL and not np.isfinite(values).all():
        refuse(f"categories: a level of feature {feature} is not finite")
    if len(values) > 1 and not (values[:-1] < values[1:]).all():
        refuse(f"categories: the levels of feature {feature} do not increase")
    return levels
