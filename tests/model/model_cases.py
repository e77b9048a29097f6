"""Models and forged model files for the tests of the file format."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from bitgrove.errors import ModelFormatError
from bitgrove.model import file as model_file
from bitgrove.model.model import Model
from bitgrove.model.tree import Tree

PREAMBLE = struct.Struct("<8sIQ")
JSON_LETTERS = '0123456789"[]{},:-.etrufalsn \\é\0'


def random_tree(rng: np.random.Generator, n_splits: int, n_features: int) -> Tree:
    """A tree grown by splitting random leaves; leaves are numbered in random order."""
    left = np.zeros(n_splits, np.int32)
    right = np.zeros(n_splits, np.int32)
    places: list[tuple[np.ndarray, int]] = []
    for split in range(n_splits):
        if places:
            side, parent = places.pop(int(rng.integers(len(places))))
            side[parent] = split
        places += [(left, split), (right, split)]
    for leaf, place in enumerate(rng.permutation(len(places))):
        side, parent = places[place]
        side[parent] = ~leaf
    n_leaves = n_splits + 1
    return Tree(
        feature=rng.integers(0, n_features, n_splits).astype(np.int32),
        split_bin=rng.integers(0, 255, n_splits).astype(np.uint8),
        threshold=rng.choice([-np.inf, -1.5, -0.0, 0.0, 5e-324, 0.7, np.inf], n_splits),
        default_left=rng.integers(0, 2, n_splits).astype(np.uint8),
        left=left,
        right=right,
        gain=rng.exponential(size=n_splits),
        split_rows=rng.integers(0, 2**40, n_splits),
        split_hess=rng.exponential(size=n_splits),
        leaf_value=rng.normal(size=n_leaves),
        leaf_rows=rng.integers(0, 1000, n_leaves),
        leaf_hess=rng.exponential(size=n_leaves),
    )


@st.composite
def models(draw: st.DrawFn) -> Model:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    names = draw(st.lists(st.text(max_size=8), min_size=1, max_size=5, unique=True))
    n_iterations = draw(st.integers(0, 4))
    objective = draw(st.sampled_from(["binary", "regression", "multiclass", "lambdarank"]))
    n_outputs = draw(st.integers(2, 4)) if objective == "multiclass" else 1
    classes: list[Any] | None = None
    if objective in ("binary", "multiclass"):
        label = st.one_of(st.text(max_size=5).map(lambda text: text + "."), st.integers(-99, 99))
        n_classes = max(n_outputs, 2)
        labels = st.lists(label, min_size=n_classes, max_size=n_classes, unique=True).filter(
            lambda labels: len({type(label) for label in labels}) == 1
        )
        classes = draw(st.none() | labels)
    size = st.integers(0, 12)
    trees = [random_tree(rng, draw(size), len(names)) for _ in range(n_iterations * n_outputs)]
    best = draw(st.none() | st.integers(1, n_iterations)) if n_iterations else None
    params = {"learning_rate": draw(st.floats(0.001, 1.0)), "num_leaves": 31, "label_gain": [0.5]}
    base_score = rng.normal(size=n_outputs)
    return Model(objective, trees, base_score, names, params, classes, best)


def small_model() -> Model:
    """Three multiclass trees: 4 splits, 1 split, and a single leaf."""
    rng = np.random.default_rng(7)
    trees = [random_tree(rng, n_splits, 2) for n_splits in (4, 1, 0)]
    base_score = np.array([0.25, -1.0, 3.5])
    params = {"learning_rate": 0.3, "objective": "multiclass"}
    return Model("multiclass", trees, base_score, ["age", "höhe"], params, ["a", "b", "c"])


def sealed(body: bytes) -> bytes:
    return body + hashlib.sha256(body).digest()


def assemble(header: bytes, payload: bytes, version: int = 2) -> bytes:
    start = PREAMBLE.pack(b"BITGROVE", version, len(header)) + header
    return sealed(start + bytes(-len(start) % 8) + payload)


def take_apart(data: bytes) -> tuple[dict[str, Any], bytearray]:
    size = PREAMBLE.unpack_from(data)[2]
    end = PREAMBLE.size + size
    return json.loads(data[PREAMBLE.size : end]), bytearray(data[end + -end % 8 : -32])


def to_json(header: object) -> bytes:
    return json.dumps(header, sort_keys=True, separators=(",", ":")).encode("ascii")


def forge_header(change: Callable[[dict[str, Any]], object], model: Model | None = None) -> bytes:
    header, payload = take_apart((model or small_model()).to_bytes())
    change(header)
    return assemble(to_json(header), bytes(payload))


def forge_value(section: str, index: int, value: float) -> bytes:
    """Change one number of the payload."""
    header, payload = take_apart(small_model().to_bytes())
    entry = next(entry for entry in header["sections"] if entry["name"] == section)
    np.frombuffer(payload, entry["dtype"], entry["shape"][0], entry["offset"])[index] = value
    return assemble(to_json(header), bytes(payload))


def refused(data: bytes, message: str) -> None:
    with pytest.raises(ModelFormatError, match=re.escape(message)):
        model_file.decode(data)


def assert_same_trees(first: Model, second: Model) -> None:
    assert len(first.trees) == len(second.trees)
    for one, other in zip(first.trees, second.trees, strict=True):
        for name, dtype, per in model_file._SECTIONS:
            if per in ("split", "leaf"):
                a, b = getattr(one, name), getattr(other, name)
                assert b.dtype == np.dtype(dtype)
                assert a.tobytes() == b.tobytes()


def header_of(data: bytes) -> bytes:
    return data[PREAMBLE.size : PREAMBLE.size + PREAMBLE.unpack_from(data)[2]]
