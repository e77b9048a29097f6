"""Damaged model files: the same damage at the same relative places of each library's own format.

A file is cut off, one bit of it is flipped, or a number in it becomes 2^31 - 1 (four bytes of a
binary format, the next digits of a text). It is loaded, and 100 rows are predicted.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lab.benchmarks.reliability.libraries import Library
from lab.benchmarks.reliability.trials import attempt

HUGE = 2**31 - 1
KINDS = ("cut", "flipped", "huge")
OUTCOMES = ("refused", "crash", "hang", "over 4 GB", "same scores", "other scores")
_MEMORY = re.compile("alloc|memory", re.IGNORECASE)


def rows(n_rows: int = 2000) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 8)).round(3)
    return X, (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=n_rows) > 0).astype(int)


def damaged(data: bytes, kind: str, place: int) -> bytes:
    if kind == "cut":
        return data[:place]
    if kind == "flipped":
        return data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :]
    if not data.isascii():
        return data[:place] + HUGE.to_bytes(4, "little") + data[place + 4 :]
    digits = re.compile(rb"\d+").search(data, place)
    begin, end = digits.span() if digits else (len(data), len(data))
    return data[:begin] + str(HUGE).encode() + data[end:]


def sealed(data: bytes) -> bytes:
    """As of somebody who knows how a file of bitgrove ends: with the checksum of the rest."""
    body = data[:-32]
    return body + hashlib.sha256(body).digest()


def _look(library: Library, path: Path) -> Any:
    model = library.load(str(path))
    return np.ravel(library.raw_scores(model, rows(100)[0])).astype(float).tolist()


def _classified(found: Any, scores: list[float]) -> str:
    if found.kind == "refused":
        return "over 4 GB" if _MEMORY.search(found.value) else "refused"
    if found.kind == "done":
        return "same scores" if np.array_equal(found.value, scores) else "other scores"
    return str(found.kind)


def _cases(data: bytes, n_places: int) -> Iterator[tuple[str, bytes]]:
    for kind in KINDS:
        for i in range(n_places):
            yield kind, damaged(data, kind, len(data) * i // n_places)


def run(library: Library, n_places: int) -> list[dict[str, Any]]:
    """One record of each format, and of ours with a checksum that is right."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        for ending in library.formats:
            path = Path(name) / f"model{ending}"
            made = attempt(lambda path=path: _make(library, path), 120.0)  # type: ignore[misc]
            assert made.kind == "done", made
            whole = path.read_bytes()
            good = attempt(lambda path=path: _look(library, path))  # type: ignore[misc]
            assert good.kind == "done", good
            seals: dict[str, Callable[[bytes], bytes]] = {"": bytes}
            if library.package == "bitgrove":
                seals[", sealed"] = sealed
            for how, seal in seals.items():
                counts: Counter[str] = Counter()
                for _, data in _cases(whole, n_places):
                    path.write_bytes(seal(data))
                    outcome = attempt(lambda path=path: _look(library, path))  # type: ignore[misc]
                    counts[_classified(outcome, good.value)] += 1
                found.append({"format": ending + how, "bytes": len(whole), **counts})
    return found


def _make(library: Library, path: Path) -> None:
    X, y = rows()
    fitted = library.estimator("Classifier", n_estimators=20).fit(X, y)
    library.save(library.model_of(fitted), str(path))
