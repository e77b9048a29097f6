"""Files of binned Datasets of strangers: mutants with a right checksum are refused or trained on.

Owns the mutator, which knows the format: it changes values and keys of the header, numbers of the
arrays and counts with as many bytes, and recomputes lengths and checksum.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import bitgrove as bg
from bitgrove.data.binned import file
from bitgrove.errors import BitgroveError, DataError
from model_cases import to_json
from tests.fuzz.mutations import change_json, change_number, chosen, resized
from tests.fuzz.promises import read_within

CORPUS = Path(__file__).with_name("corpus") / "bins"
_TRAINED = 0.1  # of those that are accepted
_COUNTS = ("n_rows", "n_queries", "text_bytes", "label", "init_score")


@cache
def seeds() -> list[bytes]:
    return [path.read_bytes() for path in sorted(CORPUS.glob("*.bins"))]


def take_apart(data: bytes) -> tuple[dict[str, Any], bytearray]:
    end = file._PREAMBLE.size + file._PREAMBLE.unpack_from(data)[2]
    header = json.loads(data[file._PREAMBLE.size : end])
    return header, bytearray(data[end + -end % file._ALIGNMENT : -32])


def assemble(header: bytes, payload: bytes, version: int = file.VERSION) -> bytes:
    start = file._PREAMBLE.pack(file.MAGIC, version, len(header)) + header
    body = start + bytes(-len(start) % file._ALIGNMENT) + payload
    checksum = file._Checksum()
    checksum.update(body)
    return body + checksum.digest()


def mutant(rng: np.random.Generator, data: bytes) -> bytes:
    header, payload = take_apart(data)
    for _ in range(int(rng.integers(1, 4))):
        kind = int(rng.integers(6))
        if kind <= 1:
            change_json(rng, header)
        elif kind <= 3:
            _change_array(rng, header, payload)
        elif kind == 4:
            payload = resized(rng, payload)
        else:
            _recount(rng, header, payload)
    version = file.VERSION if rng.random() < 0.9 else int(rng.integers(4))
    return assemble(to_json(header), bytes(payload), version)


def _sections(header: dict[str, Any]) -> list[tuple[Any, int]] | None:
    """(section, where it starts); none where the header does not make sense."""
    found, offset = [], 0
    try:
        for section in file._sections(header):
            found.append((section, offset))
            offset += section.n_bytes + -section.n_bytes % file._ALIGNMENT
    except (TypeError, KeyError, AttributeError, ValueError, OverflowError):
        return None
    return [*found, (None, offset)]


def _change_array(rng: np.random.Generator, header: dict[str, Any], payload: bytearray) -> None:
    sections = _sections(header) or []
    whole = [(s, at) for s, at in sections[:-1] if type(s.n_bytes) is type(at) is int]
    inside = [(s, at) for s, at in whole if 0 < s.n_bytes <= len(payload) - at]
    if inside:
        section, at = chosen(rng, inside)
        n = section.n_bytes // np.dtype(section.dtype).itemsize
        change_number(rng, np.frombuffer(payload, section.dtype, n, at))


def _recount(rng: np.random.Generator, header: dict[str, Any], payload: bytearray) -> None:
    """Another count, and as many bytes as it asks for."""
    name = chosen(rng, _COUNTS)
    if type(header.get(name)) is not int:
        return
    header[name] = max(0, header[name] + int(rng.integers(-2, 3)))
    sections = _sections(header)
    size = sections[-1][1] if sections else 0
    if type(size) is int and 0 < size < 10**6:
        payload[:] = payload[:size] + bytes(max(0, size - len(payload)))


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """In memory where the system has such a place."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)


def check(data: bytes, rng: np.random.Generator) -> bool:
    """Whether the file was accepted; AssertionError where a promise is broken."""
    path = Path(_folder().name) / "data.bins"
    path.write_bytes(data)
    dataset = read_within(lambda: bg.open_dataset(path), DataError, len(data), rng)
    if dataset is None:
        return False
    again = path.with_suffix(".again")
    file.write(again, file.read(path))
    assert again.read_bytes() == data, "an accepted file is not written as it was read"
    if rng.random() < _TRAINED:
        _train(dataset, rng)
    return True


def _train(dataset: Any, rng: np.random.Generator) -> None:
    """A tree of each backend: the same one, or an error that says what is wrong."""
    objective = str(chosen(rng, ["regression", "binary", "lambdarank", "poisson"]))
    params = {"objective": objective, "n_estimators": 1, "num_leaves": 4, "min_child_samples": 1,
              "n_jobs": 1, **dataset.binning._asdict()}  # fmt: skip
    del params["n_rows"]
    found = set()
    for device in ("cpu", "reference"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found.add(bg.train({**params, "device": device}, dataset).digest())
            except BitgroveError as error:
                found.add(str(error))
    assert len(found) == 1, found
