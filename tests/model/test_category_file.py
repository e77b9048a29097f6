"""Categories in the model file: round trips, and forged files with a right checksum."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bitgrove as bg
from bitgrove.errors import ModelFormatError
from bitgrove.model.model import Model
from model_cases import assemble, refused, take_apart, to_json

N_ROWS = 600


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "text": rng.choice(["é", "b", "", "日本", "e", "f"], N_ROWS),
            "x": rng.normal(size=N_ROWS),
            "whole": pd.Categorical(rng.integers(-3, 4, N_ROWS) * 2**60),
            "real": pd.Categorical(rng.integers(0, 5, N_ROWS) / 4),
            "many": pd.Categorical([f"id {i}" for i in rng.integers(0, 400, N_ROWS)]),
        }
    )


@cache
def category_model() -> Model:
    X = frame()
    y = X["text"].map(hash_of).to_numpy() + X["real"].astype(float).to_numpy() + X["x"].to_numpy()
    y = y + X["whole"].cat.codes.to_numpy() % 3
    params = {"objective": "regression", "n_estimators": 3, "num_leaves": 8, "min_child_samples": 5}
    rules = {"min_data_per_group": 5, "cat_smooth": 0.0, "cat_l2": 0.0, "max_cat_to_onehot": 1}
    return bg.train(params | rules, bg.Dataset(X, y))


def hash_of(text: str) -> int:
    return len(text.encode()) % 3


def test_round_trip() -> None:
    model = category_model()
    again = Model.from_bytes(model.to_bytes())
    assert again.to_bytes() == model.to_bytes()
    np.testing.assert_array_equal(again.predict(frame()), model.predict(frame()))
    assert again.encoder is not None and model.encoder is not None
    for f, levels in model.encoder.levels.items():
        assert again.encoder.levels[f].kind == levels.kind
        assert again.encoder.levels[f].values.tolist() == levels.values.tolist()
    for ours, theirs in zip(again.trees, model.trees, strict=True):
        assert ours.left_bins.tolist() == theirs.left_bins.tolist()
    assert again.truncate(1).to_bytes() == model.truncate(1).to_bytes()


def test_a_model_without_categories_has_no_such_sections() -> None:
    X = frame()[["x"]]
    header, _ = take_apart(bg.train({"objective": "regression"}, bg.Dataset(X, X["x"])).to_bytes())
    assert "categories" not in header and len(header["sections"]) == 14


def forged(change: Callable[[dict[str, Any], dict[str, Any]], object]) -> bytes:
    """The model's file after a change of its header and arrays; the sections follow the header."""
    header, payload = take_apart(category_model().to_bytes())
    arrays = {
        s["name"]: np.frombuffer(payload, s["dtype"], s["shape"][0], s["offset"]).copy()
        for s in header["sections"]
    }
    change(header, arrays)
    pieces, offset = [], 0
    for section in header["sections"]:
        raw = arrays[section["name"]].tobytes()
        section["shape"], section["offset"] = [len(arrays[section["name"]])], offset
        raw += bytes(-len(raw) % 8)
        pieces.append(raw)
        offset += len(raw)
    return assemble(to_json(header), b"".join(pieces))


def put(name: str, index: Any, value: Any) -> Callable[[Any, Any], object]:
    return lambda _, arrays: arrays[name].__setitem__(index, value)


def describe(index: int, **fields: Any) -> Callable[[Any, Any], object]:
    return lambda header, _: header["categories"]["features"][index].update(fields)


def entry(**fields: Any) -> Callable[[Any, Any], object]:
    return lambda header, _: header["categories"].update(fields)


FORGERIES: list[tuple[Callable[[Any, Any], object], str]] = [
    (entry(n_sets=-1), "n_sets is -1"),
    (entry(n_sets=True), "n_sets is True"),
    (entry(n_sets=10**18), "set_split"),
    (entry(text_bytes=3.0), "text_bytes is 3.0"),
    (entry(more=1), "does not have the keys"),
    (entry(features=[]), "there are none"),
    (entry(features=[7]), "does not have the keys"),
    (lambda header, _: header.update(categories=[]), "categories is \\[\\], not of type dict"),
    (describe(0, feature=9), "feature 9 is out of range"),
    (describe(1, feature=0), "feature 0 is out of range or out of order"),
    (describe(0, kind="date"), "kind 'date' are unknown"),
    (describe(0, kind=3), "kind is 3"),
    (describe(0, n_levels=-2), "n_levels is -2"),
    (describe(0, n_levels=10**15), "without statistics"),
    (describe(3, n_columns=0), "without statistics"),
    (describe(3, n_columns=10**12), "statistics"),
    (describe(0, has_sets=True), "feature 0 cannot have sets beside statistics"),
    (describe(3, has_sets=True), "feature 4 cannot have sets beside statistics"),
    (describe(3, has_sets=1), "has_sets is 1"),
    (describe(0, kind="integer"), "level_numbers"),
    (put("level_ends", 0, -1), "ends of texts"),
    (put("level_ends", 1, 10**9), "ends of texts|do not fill"),
    (put("level_ends", -1, 0), "ends of texts|do not fill"),
    (put("level_text", -1, 0xFF), "not UTF-8"),
    (put("level_text", 0, ord("z")), "do not increase|UTF-8"),
    (put("level_numbers", 0, 2**62), "levels of feature 2 do not increase"),
    (put("level_numbers", -1, 0x7FF8 << 48), "level of feature 3 is not finite"),
    (put("statistics", 5, np.nan), "a statistic of feature 4 is not finite"),
    (put("set_split", 0, -1), "out of range or out of order"),
    (put("set_split", -1, 10**6), "out of range or out of order"),
    (put("set_split", slice(0, 2), 3), "out of range or out of order"),
    (put("left_bins", slice(0, 4), 0), "its set is empty"),
    (put("left_bins", 3, 1 << 63), "levels that there are not"),
    (put("feature", slice(None), 1), "do not come together"),
    (put("feature", 0, 5), "feature is not in"),
]


@pytest.mark.parametrize("index", range(len(FORGERIES)))
def test_forgeries(index: int) -> None:
    change, message = FORGERIES[index]
    with pytest.raises(ModelFormatError, match=message):
        Model.from_bytes(forged(change))


def test_the_untouched_file_is_accepted() -> None:
    assert forged(lambda *_: None) == category_model().to_bytes()


def test_the_bit_of_missing_levels_says_what_the_default_says() -> None:
    tree = category_model().trees[0]
    split = int(np.flatnonzero(tree.by_subset)[0])
    flipped = put("default_left", split, 1 - tree.default_left[split])
    refused(forged(flipped), "its set is empty or holds")


def test_hostile_bits_never_crash() -> None:
    """Every byte of the sections of categories, changed: refused, or a model that predicts."""
    data = category_model().to_bytes()
    header, payload = take_apart(data)
    start = next(s["offset"] for s in header["sections"] if s["name"] == "set_split")
    rng = np.random.default_rng(1)
    for at in rng.choice(np.arange(start, len(payload)), 150, replace=False):
        changed = bytearray(payload)
        changed[at] ^= 1 << int(rng.integers(8))
        try:
            model = Model.from_bytes(assemble(to_json(header), bytes(changed)))
        except ModelFormatError:
            continue
        assert np.isfinite(model.predict(frame().iloc[:50])).all()
