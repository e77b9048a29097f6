"""Forged model files with a right checksum: each is refused with a message that says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bitgrove.model import file as model_file
from bitgrove.model.model import Model
from bitgrove.provenance.record import TrainingRecord
from model_cases import (
    assemble,
    forge_header,
    forge_value,
    header_of,
    refused,
    small_model,
    take_apart,
    to_json,
)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'"n_trees":3', b'"n_trees":3,"n_trees":3', "the key 'n_trees' twice"),
        (b'"defaults":', b'"defaults":1,"defaults":', "the key 'defaults' twice"),
        (b'"n_trees":3', b'"n_trees": 3', "not canonical JSON"),
        (b'"n_trees":3', b'"n_trees":03', "not JSON"),
        (b'"best_iteration":null', b'"best_iteration":-0', "not canonical JSON"),
        (b'"learning_rate":0.3', b'"learning_rate":0.30', "not canonical JSON"),
        (b'"learning_rate":0.3', b'"learning_rate":NaN', "the header holds NaN"),
        (b'"learning_rate":0.3', b'"learning_rate":-Infinity', "the header holds -Infinity"),
        (b'"learning_rate":0.3', b'"learning_rate":1e999', "cannot be written as JSON"),
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
    (set_key("objective", "nope"), "objective 'nope' is unknown"),
    (set_key("objective", "x" * 10**6), "is unknown"),
    (set_key("objective", None), "objective is None, not of type str"),
    (set_key("objective", "lambdarank"), "objective 'lambdarank' with 3 outputs"),
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
    (set_key("params", {"a": [[[]]]}), "parameter 'a' holds a list"),
    (set_key("params", {"num_leaves": 31}), "the header spells out defaults: ['num_leaves']"),
    (set_key("params", {"label_gain": None}), "the header spells out defaults: ['label_gain']"),
    (lambda header: header.pop("defaults"), "the header lacks defaults"),
    (set_key("defaults", 1.0), "defaults is 1.0, not of type int"),
    (set_key("defaults", True), "defaults is True, not of type int"),
    (set_key("defaults", 0), "defaults 0 are unknown"),
    (set_key("defaults", -(2**62)), "are unknown; this bitgrove knows 1 to"),
    (set_key("defaults", 2**40), "defaults 1099511627776 are unknown"),
    (set_key("classes", ["a", "b"]), "2 classes, expected 3"),
    (set_key("classes", ["a", "b", "a"]), "the classes are not unique"),
    (set_key("classes", ["a", "b", 3]), "classes must all be"),
    (set_key("classes", ["a", "b", None]), "classes must all be"),
    (set_key("classes", [["a"], ["b"], ["c"]]), "classes must all be"),
    (set_key("classes", []), "classes must all be"),
    (set_key("classes", ["a", "b", "c\0"]), "cannot be held in classes_dtype '<U'"),
    (set_key("classes", ["a", "b", "c" * 2**23]), "the class labels are too long"),
    (set_key("classes", None), "classes_dtype without classes"),
    (set_key("classes_dtype", None), "classes without classes_dtype"),
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


@pytest.mark.parametrize("sigmoid", [0, -1.0, "1", True, None, [1.0]], ids=repr)
def test_a_slope_that_no_probability_can_have(sigmoid: object) -> None:
    model = Model("binary", [], [0.0], ["age"], {})
    forged = forge_header(set_key("params", {"sigmoid": sigmoid}), model)
    refused(forged, f"parameter 'sigmoid' is {sigmoid!r}, not a positive number")


@pytest.mark.parametrize(
    "classes",
    [["a", "b", "c" * 10**6], [["a"], ["b", "c"], "d"], [1, 2.5, True], [[]], ["a", 1, None]],
    ids=["long", "ragged", "mixed", "empty", "kinds"],
)
def test_classes_without_their_type_are_not_guessed(classes: list[Any]) -> None:
    def change(header: dict[str, Any]) -> None:
        header["classes"], header["classes_dtype"] = classes, None

    refused(forge_header(change), "classes without classes_dtype")


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


def test_records_of_a_training() -> None:
    sound = TrainingRecord(rows="0" * 64, labels="f" * 64)
    model = small_model()
    model.record = sound
    assert model_file.decode(model.to_bytes()).record == sound
    wrong: list[tuple[str, object]] = [
        ("rows", None), ("labels", 7), ("rows", "0" * 63), ("rows", "0" * 64 + "\n"),
        ("weights", "F" * 64), ("groups", []), ("version", "1.0 (mine)"), ("version", ""),
        ("version", None), ("reference", "0" * 65),
    ]  # fmt: skip
    for name, value in wrong:
        refused(forge_header(lambda h: h["training"].update({name: value}), model), "training: ")  # noqa: B023
    refused(forge_header(lambda h: h["training"].update(more="0"), model), "training: has the keys")
    refused(forge_header(lambda h: h["training"].pop("rows"), model), "training: has the keys")
    refused(forge_header(set_key("training", "x" * 64), model), "training is")
    header, payload = take_apart(model.to_bytes())
    del header["defaults"]
    refused(assemble(to_json(header), bytes(payload), version=1), "unknown keys: ['training']")
