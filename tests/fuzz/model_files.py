"""Model files of strangers: mutants of the corpus with a right checksum are refused or sound.

Owns the mutator, which knows the format: it changes a header's values and keys, numbers of the
arrays and counts together with their sections, and recomputes lengths and checksum.
"""

from __future__ import annotations

import copy
import time
import tracemalloc
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bitgrove.errors import ModelFormatError
from bitgrove.model import file as model_file
from bitgrove.model.model import Model
from bitgrove.model.predict import predict_leaves, predict_scores
from bitgrove.params import DEFAULTS_VERSION
from model_cases import assemble, take_apart, to_json

CORPUS = Path(__file__).with_name("corpus")
MOST_SECONDS = 1.0  # of this process's time, for one file
MOST_BYTES = 80, 4_000_000  # of memory: per byte of file, and in any case
_VALUES: list[Any] = [0, 1, -1, 2, 255, 256, 2**31 - 1, 2**31, 2**62, 2**63 - 1, -(2**63), 0.5,
                      -0.0, 1e300, True, False, None, "", "a", "\0", "é" * 50, [], {}, [[]],
                      ["a", 1],
                      "<f8", "|O", "binary", "multiclass", "lambdarank"]  # fmt: skip
_FLOATS = [0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324, 1.7e308, -1.0, 254.0, 255.0]


@cache
def seeds() -> list[bytes]:
    return [path.read_bytes() for path in sorted(CORPUS.glob("*.bitgrove"))]


def mutant(rng: np.random.Generator) -> bytes:
    header, payload = take_apart(seeds()[int(rng.integers(len(seeds())))])
    header = copy.deepcopy(header)
    for _ in range(int(rng.integers(1, 4))):
        kind = int(rng.integers(6))
        if kind <= 1:
            _change_header(rng, header)
        elif kind <= 3:
            _change_number(rng, header, payload)
        elif kind == 4:
            payload = _resized(rng, payload)
        else:
            _recount(rng, header, payload)
    version = int(rng.choice([1, 2, 2, 2, 2, 2, 2, 3]))
    data = assemble(to_json(header), bytes(payload), version)
    if rng.random() < 0.02:  # also what is not sealed
        cut = int(rng.integers(len(data)))
        data = data[:cut] + bytes([int(rng.integers(256))]) + data[cut + 1 :]
    return data


def _places(value: Any) -> list[tuple[Any, Any]]:
    """(container, key) of everything in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found = [(value, key) for key, _ in items]
    for container, key in list(found):
        if isinstance(container[key], (dict, list)):
            found += _places(container[key])
    return found


def _change_header(rng: np.random.Generator, header: dict[str, Any]) -> None:
    places = _places(header)
    container, key = places[int(rng.integers(len(places)))]
    kind, old = int(rng.integers(5)), container[key]
    if kind == 0:
        del container[key]
    elif kind == 1 and isinstance(container, list):
        container.insert(int(rng.integers(len(container) + 1)), copy.deepcopy(old))
    elif kind == 2 and isinstance(old, int):
        container[key] = old + int(rng.integers(-2, 3))
    elif kind == 3:
        other, there = places[int(rng.integers(len(places)))]
        if there in (other if isinstance(other, dict) else range(len(other))):
            container[key] = copy.deepcopy(other[there])
    else:
        container[key] = copy.deepcopy(_VALUES[int(rng.integers(len(_VALUES)))])


def _change_number(rng: np.random.Generator, header: dict[str, Any], payload: bytearray) -> None:
    """A number of one of the arrays, as the corpus has them."""
    given = header.get("sections")
    listed = given if isinstance(given, list) else []
    sections = [entry for entry in listed if _is_section(entry, len(payload))]
    if not sections:
        return
    entry = sections[int(rng.integers(len(sections)))]
    values = np.frombuffer(payload, entry["dtype"], entry["shape"][0], entry["offset"])
    at = int(rng.integers(len(values)))
    if values.dtype.kind == "f":
        values[at] = rng.choice([*_FLOATS, rng.normal()])
    else:
        low, high = np.iinfo(values.dtype).min, np.iinfo(values.dtype).max
        near = int(values[at]) + int(rng.integers(-3, 4))
        choices = [low, high, 0, ~0, near, int(values[int(rng.integers(len(values)))])]
        values[at] = min(max(choices[int(rng.integers(len(choices)))], low), high)


def _is_section(entry: Any, size: int) -> bool:
    try:
        dtype, shape, offset = np.dtype(entry["dtype"]), entry["shape"], entry["offset"]
        return (
            dtype.kind in "iuf" and type(offset) is int and type(shape[0]) is int
            and shape[0] > 0 and offset >= 0 and offset + shape[0] * dtype.itemsize <= size
        )  # fmt: skip
    except (TypeError, KeyError, IndexError, ValueError):
        return False


def _resized(rng: np.random.Generator, payload: bytearray) -> bytearray:
    at, n = int(rng.integers(len(payload) + 1)), int(rng.choice([1, 7, 8, 64]))
    if rng.random() < 0.5:
        return payload[:at] + payload[at + n :]
    return payload[:at] + bytearray(rng.bytes(n)) + payload[at:]


def _recount(rng: np.random.Generator, header: dict[str, Any], payload: bytearray) -> None:
    """Other counts, with the sections that belong to them, and as many bytes."""
    counts = {name: header.get(name) for name in ("n_outputs", "n_trees", "n_splits")}
    name = str(rng.choice([*counts]))
    if not all(type(count) is int and 0 <= count < 1000 for count in counts.values()):
        return
    counts[name] = max(0, counts[name] + int(rng.integers(-2, 3)))
    try:
        header["sections"], size = model_file._layout(**counts, categories=header.get("categories"))
    except (TypeError, KeyError, AttributeError):
        return  # the categories are not what they were
    header.update(counts)
    if type(size) is int and 0 <= size < 10**6:
        payload[:] = payload[:size] + bytes(max(0, size - len(payload)))


def check(data: bytes, rng: np.random.Generator) -> bool:
    """Whether the file was accepted; AssertionError where a promise is broken."""
    measured = rng.random() < 0.02
    if measured:
        tracemalloc.start()
    started = time.process_time()
    try:
        model: Model | None = model_file.decode(data)
    except ModelFormatError:
        model = None
    spent = time.process_time() - started
    if measured:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MOST_BYTES[0] * len(data) + MOST_BYTES[1], (peak, len(data))
    else:
        assert spent < MOST_SECONDS, spent
    if model is None:
        return False
    header, _ = take_apart(data)
    if data[8] == model_file.VERSION and header.get("defaults") == DEFAULTS_VERSION:
        assert model.to_bytes() == data, "an accepted file is not written as it was read"
    _predict(model, rng)
    return True


def _predict(model: Model, rng: np.random.Generator) -> None:
    rows = rng.choice([*_FLOATS, 1.0, 2.5, 3.0], size=(70, model.n_columns))
    leaves = predict_leaves(model.forest, rows, 1)
    n_leaves = np.array([tree.n_leaves for tree in model.trees], dtype=np.int64)
    assert ((leaves >= 0) & (leaves < n_leaves)).all()
    scores = predict_scores(model.forest, rows, model.base_score, model.n_iterations, 1)
    assert scores.shape == (70, model.n_outputs)
    with np.errstate(all="ignore"):
        model._objective.link.predictions(scores)


def one(rng: np.random.Generator) -> bool:
    return check(mutant(rng), rng)
