"""Model files of strangers: mutants with a right checksum are refused or sound.

Owns the mutator, which knows the format: it changes a header's values and keys, numbers of the
arrays and counts together with their sections, and recomputes lengths and checksum.
"""

from __future__ import annotations

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
from tests.fuzz.mutations import FLOATS, change_json, change_number, chosen, resized
from tests.fuzz.promises import read_within

CORPUS = Path(__file__).with_name("corpus") / "models"
_N_ROWS = 40  # above 32: rows are coded in blocks of as many


@cache
def seeds() -> list[bytes]:
    return [path.read_bytes() for path in sorted(CORPUS.glob("*.bitgrove"))]


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
    version = int(chosen(rng, [1, 2, 2, 2, 2, 2, 2, 3]))
    data = assemble(to_json(header), bytes(payload), version)
    if rng.random() < 0.02:  # also what is not sealed
        cut = int(rng.integers(len(data)))
        data = data[:cut] + bytes([int(rng.integers(256))]) + data[cut + 1 :]
    return data


def _change_array(rng: np.random.Generator, header: dict[str, Any], payload: bytearray) -> None:
    """A number of one of the arrays, as the corpus has them."""
    given = header.get("sections")
    listed = given if isinstance(given, list) else []
    sections = [entry for entry in listed if _is_section(entry, len(payload))]
    if sections:
        entry = chosen(rng, sections)
        n, offset = entry["shape"][0], entry["offset"]
        change_number(rng, np.frombuffer(payload, entry["dtype"], n, offset))


def _is_section(entry: Any, size: int) -> bool:
    try:
        dtype, shape, offset = np.dtype(entry["dtype"]), entry["shape"], entry["offset"]
        return (
            dtype.kind in "iuf" and type(offset) is int and type(shape[0]) is int
            and shape[0] > 0 and offset >= 0 and offset + shape[0] * dtype.itemsize <= size
        )  # fmt: skip
    except (TypeError, KeyError, IndexError, ValueError):
        return False


def _recount(rng: np.random.Generator, header: dict[str, Any], payload: bytearray) -> None:
    """Other counts, with the sections that belong to them, and as many bytes."""
    counts = {name: header.get(name) for name in ("n_outputs", "n_trees", "n_splits")}
    name = chosen(rng, [*counts])
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
    model = read_within(lambda: model_file.decode(data), ModelFormatError, len(data), rng)
    if model is None:
        return False
    header, _ = take_apart(data)
    if data[8] == model_file.VERSION and header.get("defaults") == DEFAULTS_VERSION:
        assert model.to_bytes() == data, "an accepted file is not written as it was read"
    check_model(model, rng)
    return True


def check_model(model: Model, rng: np.random.Generator) -> None:
    """Its predictions lie within its leaves."""
    rows = rng.choice([*FLOATS, 1.0, 2.5, 3.0], size=(_N_ROWS, model.n_columns))
    leaves = predict_leaves(model.forest, rows, 1)
    n_leaves = np.array([tree.n_leaves for tree in model.trees], dtype=np.int64)
    assert ((leaves >= 0) & (leaves < n_leaves)).all()
    scores = predict_scores(model.forest, rows, model.base_score, model.n_iterations, 1)
    assert scores.shape == (_N_ROWS, model.n_outputs)
    with np.errstate(all="ignore"):
        model._objective.link.predictions(scores)
