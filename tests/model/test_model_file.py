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

from bitgrove.errors import ModelFormatError
from bitgrove.machine import headers
from bitgrove.model import file as model_file
from bitgrove.model.model import Model
from bitgrove.model.tree import Tree
from bitgrove.params import DEFAULTS_VERSION
from model_cases import (
    PREAMBLE,
    assemble,
    assert_same_trees,
    header_of,
    models,
    random_tree,
    refused,
    sealed,
    small_model,
    take_apart,
    to_json,
)

JSON_LETTERS = '0123456789"[]{},:-.etrufalsn \\é\0'


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


def test_the_format_has_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_file, "DEFAULTS_VERSION", 1)  # it may rise without the format
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
    assert len(data) == 1216
    assert data.startswith(b'BITGROVE\x02\0\0\0\xfd\x03\0\0\0\0\0\0{"best_iteration":null,')
    assert hashlib.sha256(data).hexdigest() == (
        "c35619e297f09428f217cec2f2031e54fe102611d751dd72de553a3cc4d78398"
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
    for version in (0, 3, 2**32 - 1):
        start = PREAMBLE.pack(b"BITGROVE", version, 2) + b"{}  "
        refused(sealed(start), f"format version {version} is unknown; this bitgrove reads 1 to 2")
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
    start = PREAMBLE.pack(b"BITGROVE", 2, len(text)) + text
    padding = b"\0" * (-len(start) % 8 - 1) + b"\1"
    refused(sealed(start + padding + bytes(payload)), "the padding after the header is not zero")
    entry = next(entry for entry in header["sections"] if entry["name"] == "split_bin")
    payload[entry["offset"] + entry["shape"][0]] = 1
    refused(assemble(text, bytes(payload)), "section split_bin: the padding after it is not zero")


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
    if take_apart(data)[0]["defaults"] == DEFAULTS_VERSION:  # others are written anew
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


@pytest.mark.parametrize("text", ["plain", "\x7f", "é", "\U0001f333", '"\\\n\t\x00', "a\x7fé"])
def test_json_has_one_spelling(text: str) -> None:
    value = {"b": [1, 2.5, None], "a": text}
    spelled = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    assert headers.canonical_json(value) == spelled.encode("ascii")
    with pytest.raises(headers.BadHeader, match="surrogates not allowed"):
        headers.canonical_json([text, "\ud800"])
