"""The model file: round trips, damage, and files forged with a correct checksum."""

from __future__ import annotations

import hashlib
import json
import re
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitgrove import model_file
from bitgrove.errors import ModelFormatError
from bitgrove.model import Model
from bitgrove.tree import Tree

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
    params = {"learning_rate": 0.1, "sigmoid": 1.0, "objective": "multiclass"}
    return Model("multiclass", trees, base_score, ["age", "höhe"], params, ["a", "b", "c"])


def sealed(body: bytes) -> bytes:
    return body + hashlib.sha256(body).digest()


def assemble(header: bytes, payload: bytes) -> bytes:
    start = PREAMBLE.pack(b"BITGROVE", 1, len(header)) + header
    return sealed(start + bytes(-len(start) % 8) + payload)


def take_apart(data: bytes) -> tuple[dict[str, Any], bytearray]:
    size = PREAMBLE.unpack_from(data)[2]
    end = PREAMBLE.size + size
    return json.loads(data[PREAMBLE.size : end]), bytearray(data[end + -end % 8 : -32])


def to_json(header: object) -> bytes:
    return json.dumps(header, sort_keys=True, separators=(",", ":")).encode("ascii")


def forge_header(change: Callable[[dict[str, Any]], object]) -> bytes:
    header, payload = take_apart(small_model().to_bytes())
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


@settings(max_examples=60, deadline=None)
@given(models())
def test_round_trip_is_bit_identical(model: Model) -> None:
    data = model_file.encode(model)
    back = model_file.decode(data)
    assert_same_trees(model, back)
    assert back.base_score.tobytes() == model.base_score.tobytes()
    for name in ("objective", "feature_names", "params", "classes", "classes_dtype"):
        assert getattr(back, name) == getattr(model, name)
    assert back.best_iteration == model.best_iteration
    assert model_file.encode(back) == data


def test_the_format_has_not_changed() -> None:
    # Made of plain numbers only, so that nothing but the format can change it.
    two = np.arange(2)
    tree = Tree(
        feature=np.array([0], np.int32),
        split_bin=np.array([3], np.uint8),
        threshold=np.array([1.5]),
        default_left=np.array([1], np.uint8),
        left=np.array([~0], np.int32),
        right=np.array([~1], np.int32),
        gain=np.array([2.5]),
        split_rows=np.array([10], np.int64),
        split_hess=np.array([4.0]),
        leaf_value=two - 0.5,
        leaf_rows=np.array([4, 6], np.int64),
        leaf_hess=two + 1.0,
    )
    data = Model("binary", [tree], [0.5], ["x"], {"num_leaves": 2}, [False, True]).to_bytes()
    assert len(data) == 1200
    assert data.startswith(b'BITGROVE\x01\0\0\0\xf0\x03\0\0\0\0\0\0{"best_iteration":null,')
    assert hashlib.sha256(data).hexdigest() == (
        "e30b47a968d9ea316a4f52ec73998c81c43a267faa29ef25c25d9faa62154322"
    )


def test_arrays_are_aligned_and_read_only() -> None:
    tree = model_file.decode(small_model().to_bytes()).trees[0]
    for name in ("threshold", "leaf_value", "left"):
        flags = getattr(tree, name).flags
        assert flags.aligned
        assert flags.c_contiguous
        assert not flags.writeable


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_any_bytes_can_be_decoded(kind: Callable[[bytes], Any]) -> None:
    data = small_model().to_bytes()
    assert model_file.decode(kind(data)).to_bytes() == data
    with pytest.raises(TypeError):
        model_file.decode(12)  # type: ignore[arg-type]


def test_every_changed_byte_is_refused() -> None:
    data = bytearray(small_model().to_bytes())
    for index in range(len(data)):
        for flip in (0x01, 0x80, 0xFF):
            data[index] ^= flip
            with pytest.raises(ModelFormatError):
                model_file.decode(data)
            data[index] ^= flip
    assert model_file.decode(data) == small_model()


def test_every_truncation_is_refused() -> None:
    data = small_model().to_bytes()
    for size in range(len(data)):
        with pytest.raises(ModelFormatError):
            model_file.decode(data[:size])


def test_every_truncation_with_a_right_checksum_is_refused() -> None:
    body = small_model().to_bytes()[:-32]
    for size in range(len(body)):
        with pytest.raises(ModelFormatError):
            model_file.decode(sealed(body[:size]))


def test_envelope() -> None:
    data = small_model().to_bytes()
    header, payload = take_apart(data)
    text = to_json(header)
    assert assemble(text, bytes(payload)) == data  # the forger's own work is sound
    refused(b"", "not a bitgrove model file")
    refused(b"PK\x03\x04" + data, "not a bitgrove model file")
    refused(b"BITGROVE", "cut off: only 8 bytes")
    refused(data + b"\0", "checksum mismatch")
    refused(sealed(PREAMBLE.pack(b"BITGROVE", 2, 2) + b"{}  "), "format version 2 is unknown")
    refused(assemble(text, bytes(payload) + bytes(8)), "bytes, its sections need")
    refused(assemble(text, bytes(payload[:-8])), "bytes, its sections need")
    for size in (len(data), 2**64 - 1):
        claim = data[:12] + struct.pack("<Q", size) + data[20:-32]
        refused(sealed(claim), f"a header of {size} bytes does not fit into the file")


def test_the_header_is_limited_in_both_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    data = small_model().to_bytes()
    monkeypatch.setattr(model_file, "MAX_HEADER_BYTES", len(header_of(data)) - 1)
    refused(data, "is over the limit of")
    with pytest.raises(ModelFormatError, match="is over the limit of"):
        small_model().to_bytes()


def test_padding_must_be_zero() -> None:
    data = small_model().to_bytes()
    header, payload = take_apart(data)
    name = next(name for name in range(8) if (PREAMBLE.size + len(to_json(header)) + name) % 8)
    header["feature_names"][0] += "x" * name
    text = to_json(header)
    start = PREAMBLE.pack(b"BITGROVE", 1, len(text)) + text
    padding = b"\0" * (-len(start) % 8 - 1) + b"\1"
    refused(sealed(start + padding + bytes(payload)), "the padding after the header is not zero")
    entry = next(entry for entry in header["sections"] if entry["name"] == "split_bin")
    payload[entry["offset"] + entry["shape"][0]] = 1
    refused(assemble(text, bytes(payload)), "section split_bin: the padding after it is not zero")


def header_of(data: bytes) -> bytes:
    return data[PREAMBLE.size : PREAMBLE.size + PREAMBLE.unpack_from(data)[2]]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'"n_trees":3', b'"n_trees":3,"n_trees":3', "the key 'n_trees' twice"),
        (b'"sigmoid":1.0', b'"sigmoid":1.0,"sigmoid":1.0', "the key 'sigmoid' twice"),
        (b'"n_trees":3', b'"n_trees": 3', "not canonical JSON"),
        (b'"n_trees":3', b'"n_trees":03', "not JSON"),
        (b'"best_iteration":null', b'"best_iteration":-0', "not canonical JSON"),
        (b'"learning_rate":0.1', b'"learning_rate":0.10', "not canonical JSON"),
        (b'"learning_rate":0.1', b'"learning_rate":NaN', "the header holds NaN"),
        (b'"learning_rate":0.1', b'"learning_rate":-Infinity', "the header holds -Infinity"),
        (b'"learning_rate":0.1', b'"learning_rate":1e999', "cannot be written as JSON"),
        (b'"n_trees":3', b'"n_trees":' + b"9" * 5000, "an integer of 5000 digits"),
        (b"h\\u00f6he", b"h\\u00F6he", "not canonical JSON"),
        (b"h\\u00f6he", "höhe".encode(), "not JSON"),
        (b"h\\u00f6he", b"h\\ud800he", "surrogates not allowed"),
        (b'"age"', b'"\\u0061ge"', "not canonical JSON"),
        (b'"params":{', b'"params":{"a":' + b"[" * 10**5 + b"]" * 10**5 + b",", "not JSON"),
        (b"}", b"", "not JSON"),
    ],
)
def test_spelling_of_the_header(old: bytes, new: bytes, message: str) -> None:
    data = small_model().to_bytes()
    assert old in header_of(data)
    refused(assemble(header_of(data).replace(old, new), bytes(take_apart(data)[1])), message)


@pytest.mark.parametrize("text", [b"[]", b"null", b"{}", b"", b"1", b'"x"'])
def test_header_of_another_kind(text: bytes) -> None:
    refused(assemble(text, bytes(take_apart(small_model().to_bytes())[1])), "header")


def set_key(key: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda header: header.__setitem__(key, value)


def set_section(index: int, key: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda header: header["sections"][index].__setitem__(key, value)


HOSTILE_HEADERS: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda header: header.pop("params"), "the header lacks params"),
    (set_key("author", "x"), "the header has unknown keys: ['author']"),
    (set_key("n_trees", 3.0), "n_trees is 3.0, not of type int"),
    (set_key("n_trees", True), "n_trees is True, not of type int"),
    (set_key("n_trees", -3), "n_trees is -3"),
    (set_key("n_splits", -1), "n_splits is -1"),
    (set_key("n_splits", 6), "section 2 (feature): shape is [5], expected [6]"),
    (set_key("n_outputs", 1), "section 0 (base_score): shape is [3], expected [1]"),
    (set_key("n_outputs", 2**62), "section 0 (base_score): shape is [3], expected"),
    (set_key("objective", "huber"), "objective 'huber' is unknown"),
    (set_key("objective", "x" * 10**6), "is unknown"),
    (set_key("objective", None), "objective is None, not of type str"),
    (set_key("objective", "binary"), "objective 'binary' with 3 outputs"),
    (set_key("feature_names", []), "feature is not in 0..-1"),
    (set_key("feature_names", ["age", "age"]), "the feature names are not unique"),
    (set_key("feature_names", ["age", 1]), "a feature name is not a string"),
    (set_key("feature_names", ["age"]), "feature is not in 0..0"),
    (set_key("feature_names", "ab"), "feature_names is 'ab', not of type list"),
    (set_key("best_iteration", 2), "best_iteration 2 is not in 1..1"),
    (set_key("best_iteration", 0), "best_iteration 0 is not in 1..1"),
    (set_key("best_iteration", True), "best_iteration is True"),
    (set_key("params", []), "params is [], not of type dict"),
    (set_key("params", {"a": {}}), "parameter 'a' holds a dict"),
    (set_key("params", {"a": [[]]}), "parameter 'a' holds a list"),
    (set_key("params", {"sigmoid": 0}), "'sigmoid' is 0, not a positive number"),
    (set_key("params", {"sigmoid": "1"}), "'sigmoid' is '1', not a positive number"),
    (set_key("params", {"sigmoid": True}), "'sigmoid' is True, not a positive number"),
    (set_key("classes", ["a", "b"]), "2 classes, expected 3"),
    (set_key("classes", ["a", "b", "a"]), "the classes are not unique"),
    (set_key("classes", ["a", "b", 3]), "classes must all be"),
    (set_key("classes", ["a", "b", None]), "classes must all be"),
    (set_key("classes", [["a"], ["b"], ["c"]]), "classes must all be"),
    (set_key("classes", []), "classes must all be"),
    (set_key("classes", ["a", "b", "c\0"]), "cannot be held in classes_dtype '<U'"),
    (set_key("classes", ["a", "b", "c" * 2**23]), "the class labels are too long"),
    (set_key("classes", None), "classes_dtype without classes"),
    (set_key("classes_dtype", "<i8"), "cannot be held in classes_dtype '<i8'"),
    (set_key("classes_dtype", "<U1"), "classes_dtype '<U1' is unknown"),
    (set_key("classes_dtype", "<U999999999"), "classes_dtype '<U999999999' is unknown"),
    (set_key("classes_dtype", "V8,O"), "classes_dtype 'V8,O' is unknown"),
    (set_key("sections", []), "there are 0 sections, expected 14"),
    (lambda header: header["sections"].pop(), "there are 13 sections, expected 14"),
    (lambda header: header["sections"].append(1), "there are 15 sections, expected 14"),
    (lambda header: header["sections"].reverse(), "section 0 (base_score): name is 'leaf_hess'"),
    (lambda header: header["sections"].__setitem__(1, 5), "section 1 is not an object"),
    (lambda header: header["sections"][1].pop("shape"), "section 1 lacks shape"),
    (set_section(1, "x", 1), "section 1 has unknown keys: ['x']"),
    (set_section(2, "name", "feature2"), "section 2 (feature): name is 'feature2'"),
    (set_section(2, "dtype", "<i8"), "section 2 (feature): dtype is '<i8', expected '<i4'"),
    (set_section(2, "dtype", ">i4"), "section 2 (feature): dtype is '>i4', expected '<i4'"),
    (set_section(2, "dtype", "|O"), "section 2 (feature): dtype is '|O', expected '<i4'"),
    (set_section(2, "shape", [-5]), "section 2 (feature): shape is [-5], expected [5]"),
    (set_section(2, "shape", [2**62]), "section 2 (feature): shape is [4611686018427387904]"),
    (set_section(2, "shape", [5, 1]), "section 2 (feature): shape is [5, 1], expected [5]"),
    (set_section(2, "shape", [5.0]), "section 2 (feature): shape is [5.0], expected [5]"),
    (set_section(2, "shape", []), "section 2 (feature): shape is [], expected [5]"),
    (set_section(3, "offset", 0), "section 3 (split_bin): offset is 0, expected 64"),
    (set_section(3, "offset", 72), "section 3 (split_bin): offset is 72, expected 64"),
    (set_section(3, "offset", -8), "section 3 (split_bin): offset is -8, expected 64"),
    (set_section(0, "offset", False), "section 0: offset is False, not of type int"),
]


@pytest.mark.parametrize(
    ("change", "message"), HOSTILE_HEADERS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_hostile_header(change: Callable[[dict[str, Any]], object], message: str) -> None:
    refused(forge_header(change), message)


def test_trees_must_be_shared_evenly_by_the_outputs() -> None:
    header, payload = take_apart(small_model().to_bytes())
    header["n_outputs"] = 2
    header["classes"] = ["a", "b"]
    sections, _ = model_file._layout(2, 3, 5)
    header["sections"] = sections
    refused(assemble(to_json(header), bytes(payload[8:])), "3 trees cannot be shared by 2 outputs")


def test_huge_counts_do_not_allocate() -> None:
    # Everything agrees with everything, except with the size of the file.
    for counts in ((3, 3, 2**58), (3, 3 * 2**50, 5), (2**60, 0, 0)):
        header, payload = take_apart(small_model().to_bytes())
        header.update(zip(("n_outputs", "n_trees", "n_splits"), counts, strict=True))
        header["sections"], size = model_file._layout(*counts)
        message = f"the payload has {len(payload)} bytes, its sections need {size}"
        refused(assemble(to_json(header), bytes(payload)), message)


HOSTILE_VALUES = [
    ("base_score", 1, np.inf, "a base score is not finite"),
    ("base_score", 1, np.nan, "a base score is not finite"),
    ("tree_splits", 0, -4, "tree 0 has a negative number of splits"),
    ("tree_splits", 0, 5, "the trees have 6 splits, expected 5"),
    ("tree_splits", 2, 2**31 - 1, "splits, expected 5"),
    ("feature", 4, 2, "tree 1, split 0: feature is not in 0..1"),
    ("feature", 2, -1, "tree 0, split 2: feature is not in 0..1"),
    ("threshold", 0, np.nan, "tree 0, split 0: threshold is NaN"),
    ("default_left", 3, 2, "tree 0, split 3: default_left is neither 0 nor 1"),
    ("gain", 1, np.nan, "tree 0, split 1: gain is not finite"),
    ("gain", 1, np.inf, "tree 0, split 1: gain is not finite"),
    ("gain", 1, -1.0, "tree 0, split 1: gain is negative"),
    ("split_rows", 4, -1, "tree 1, split 0: number of rows is negative"),
    ("split_hess", 4, np.nan, "tree 1, split 0: hessian sum is not finite"),
    ("leaf_rows", 7, -1, "tree 2, leaf 0: number of rows is negative"),
    ("leaf_hess", 6, np.inf, "tree 1, leaf 1: hessian sum is not finite"),
    ("leaf_value", 5, np.inf, "tree 1, leaf 0: value is not finite"),
    ("leaf_value", 4, np.nan, "tree 0, leaf 4: value is not finite"),
    ("left", 1, 4, "tree 0, split 1: left child does not exist"),
    ("left", 1, 2**31 - 1, "tree 0, split 1: left child does not exist"),
    ("right", 1, ~5, "tree 0, split 1: right child does not exist"),
    ("right", 4, ~2, "tree 1, split 0: right child does not exist"),
    ("right", 4, -(2**31), "tree 1, split 0: right child does not exist"),
    ("left", 2, 0, "tree 0, split 2: left child does not come after its parent"),
    ("right", 3, 1, "tree 0, split 3: right child does not come after its parent"),
    ("right", 3, 3, "tree 0, split 3: right child does not come after its parent"),
]


@pytest.mark.parametrize(("section", "index", "value", "message"), HOSTILE_VALUES)
def test_hostile_value(section: str, index: int, value: float, message: str) -> None:
    refused(forge_value(section, index, value), message)


def test_two_parents() -> None:
    tree, stump, _ = small_model().trees
    message = "tree 1, split 0: left child has two parents"
    refused(forge_value("left", 4, stump.right[0]), message)
    side, parent = next(
        (side, parent)
        for side in ("left", "right")
        for parent in range(3)
        if getattr(tree, side)[parent] < 0
    )
    refused(forge_value(side, parent, 3), "child has two parents")


@pytest.mark.parametrize("change", [lambda m: m, lambda m: m.truncate(0)], ids=["1", "0"])
def test_no_iterations_and_one(change: Callable[[Model], Model]) -> None:
    model = change(small_model())
    assert model_file.decode(model.to_bytes()).n_iterations == len(model.trees) // 3


def test_encode_refuses_what_decode_would() -> None:
    model = small_model()
    model.trees[1].leaf_value[0] = np.inf
    with pytest.raises(ModelFormatError, match="tree 1, leaf 0: value is not finite"):
        model.to_bytes()
    for params, message in (
        ({"a": "\ud800"}, "surrogates not allowed"),
        ({"a": 10**30}, "an integer of 31 digits"),
    ):
        with pytest.raises(ModelFormatError, match=message):
            Model("binary", [], [0.0], ["x"], params).to_bytes()


def test_encode_refuses_arrays_that_do_not_fit() -> None:
    tree = small_model().trees[1]
    fields = {name: getattr(tree, name) for name, _, _ in model_file._SECTIONS[2:]}
    for change, message in (
        ({"feature": tree.feature.astype(np.int64)}, "the trees' feature arrays: Cannot cast"),
        ({"gain": np.zeros(2)}, "gain array does not have one value per split"),
        ({"leaf_rows": np.zeros(1, np.int64)}, "leaf_rows array does not have one value per leaf"),
    ):
        model = Model("regression", [Tree(**{**fields, **change})], [0.0], ["x", "y"], {})
        with pytest.raises(ModelFormatError, match=message):
            model.to_bytes()


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_forged_payloads_are_refused_or_harmless(data: st.DataObject) -> None:
    header, payload = take_apart(small_model().to_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    check_refused_or_harmless(assemble(to_json(header), bytes(payload)))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_forged_headers_are_refused_or_harmless(data: st.DataObject) -> None:
    whole = small_model().to_bytes()
    header, payload = bytearray(header_of(whole)), take_apart(whole)[1]
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(header)))
        end = start + data.draw(st.integers(0, 3))
        header[start:end] = data.draw(st.text(JSON_LETTERS, max_size=3)).encode()
    check_refused_or_harmless(assemble(bytes(header), bytes(payload)))


def check_refused_or_harmless(data: bytes) -> None:
    try:
        model = model_file.decode(data)
    except ModelFormatError as error:
        assert len(str(error)) < 500
        return
    assert model.to_bytes() == data
    rows = np.array([[0.0] * model.n_features, [np.nan] * model.n_features])
    with np.errstate(all="ignore"):
        assert model.predict(rows, n_jobs=1).shape == (2, model.n_outputs)


def test_a_large_forest_loads_quickly() -> None:
    tree = random_tree(np.random.default_rng(0), 254, 28)
    names = [f"f{index}" for index in range(28)]
    data = Model("regression", [tree] * 2000, [0.0], names, {}).to_bytes()
    start = time.perf_counter()
    model = model_file.decode(data)
    seconds = time.perf_counter() - start
    assert len(model.trees) == 2000
    assert seconds < 2  # takes about 0.1; a loop over the 508,000 splits would take far longer


def test_the_documented_reader_works() -> None:
    page = Path(__file__).parents[2] / "docs" / "model_format.md"
    code = re.search(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    assert code is not None
    names: dict[str, Any] = {}
    exec(code.group(1), names)
    model = small_model()
    header, arrays = names["read"](model.to_bytes())
    assert header["feature_names"] == model.feature_names
    expected = np.concatenate([tree.leaf_value for tree in model.trees])
    np.testing.assert_array_equal(arrays["leaf_value"], expected)
    assert arrays["tree_splits"].tolist() == [4, 1, 0]
