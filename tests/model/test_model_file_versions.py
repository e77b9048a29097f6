"""Files of older versions: of the format, and of the defaults that a file does not spell out."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitgrove as bg
from bitgrove.model import file as model_file
from bitgrove.model.model import Model
from bitgrove.params import (
    BY_NAME,
    DEFAULTS_VERSION,
    changed_params,
    complete_params,
    defaults,
    model_params,
    resolve,
    table,
)
from model_cases import assemble, forge_header, refused, small_model, take_apart, to_json

# Trained and written by the code that wrote version 1 last: three trees, labels "no" and "yes".
VERSION_1 = Path(__file__).with_name("version_1.bitgrove")
ROWS = np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [np.nan, -1.0, 0.0]])

# Never edit a line of these: they are what files in the world stand for. If a test fails because a
# default was changed, add the old value to defaults._OLDER.
VERSION_1_DEFAULTS: dict[str, Any] = {
    "objective": None,
    "n_estimators": 100,
    "learning_rate": 0.1,
    "random_state": 0,
    "num_leaves": 31,
    "max_depth": -1,
    "min_child_samples": 20,
    "min_child_weight": 0.001,
    "min_split_gain": 0.0,
    "reg_lambda": 0.0,
    "reg_alpha": 0.0,
    "subsample": 1.0,
    "subsample_freq": 1,
    "colsample_bytree": 1.0,
    "max_bin": 255,
    "bin_sample_rows": 200000,
    "gradient_bits": 4,
    "rounding": "stochastic",
    "refit_leaves": True,
    "gradient_scale": "max",
    "num_class": None,
    "scale_pos_weight": 1.0,
    "sigmoid": 1.0,
    "lambdarank_truncation_level": 30,
    "lambdarank_norm": True,
    "label_gain": None,
    "eval_metric": None,
    "early_stopping_rounds": None,
    "first_metric_only": False,
    "distributed": "data",
    "top_k": 20,
}


def test_a_file_of_version_1_is_read() -> None:
    model = bg.load(VERSION_1)
    expected = [0.38257564588566195, 0.8152723595521627, 0.24285999090898736]
    assert model.predict(ROWS).tolist() == expected
    assert model.classes == ["no", "yes"]
    chosen = {"objective": "binary", "n_estimators": 3, "num_leaves": 4, "learning_rate": 0.3}
    expected_params = {**VERSION_1_DEFAULTS, **chosen, "eval_metric": ["auc", "logloss"]}
    assert {name: model.params[name] for name in VERSION_1_DEFAULTS} == expected_params
    assert model.params["max_delta_step"] == 0.0  # it did not exist: leaves were not bounded


def test_it_is_written_in_the_present_version() -> None:
    model = bg.load(VERSION_1)
    again = Model.from_bytes(model.to_bytes())
    assert (again.params, again.classes) == (model.params, model.classes)
    assert again.predict(ROWS).tolist() == model.predict(ROWS).tolist()
    header, _ = take_apart(model.to_bytes())
    assert header["params"].keys() >= {"objective", "n_estimators", "num_leaves", "learning_rate"}
    assert "reg_alpha" not in header["params"]


def test_keys_of_another_version_are_refused() -> None:
    header, payload = take_apart(VERSION_1.read_bytes())
    assert assemble(to_json(header), bytes(payload), version=1) == VERSION_1.read_bytes()
    refused(assemble(to_json(header), bytes(payload)), "the header lacks defaults")
    header["defaults"] = 1
    refused(assemble(to_json(header), bytes(payload), 1), "has unknown keys: ['defaults']")


def test_the_file_names_what_is_not_the_default() -> None:
    X = np.random.default_rng(0).normal(size=(50, 2))
    given = {"objective": "regression", "n_estimators": 2, "top_k": 20}
    model = bg.train(given, bg.Dataset(X, X[:, 0]))
    header, _ = take_apart(model.to_bytes())
    assert header["params"] == {"objective": "regression", "n_estimators": 2}
    assert header["defaults"] == DEFAULTS_VERSION
    assert (
        Model.from_bytes(model.to_bytes()).params
        == model.params
        == model_params(resolve({"objective": "regression", "n_estimators": 2}))
    )


@pytest.mark.parametrize("value", [31.0, True, "31", None, [31]], ids=repr)
def test_equal_in_python_is_not_the_default(value: object) -> None:
    back = Model.from_bytes(forge_header(lambda h: h["params"].update(num_leaves=value)))
    assert repr(back.params["num_leaves"]) == repr(value)


def test_signed_zero_is_kept() -> None:
    params = complete_params({"reg_alpha": -0.0})
    assert repr(changed_params(params)) == "{'reg_alpha': -0.0}"


def test_older_defaults_are_those_that_files_were_written_with() -> None:
    assert complete_params({}, 1).items() >= VERSION_1_DEFAULTS.items()


def test_a_default_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later versions change defaults and add a parameter: an old file keeps its meaning."""
    old = small_model()
    data, params = old.to_bytes(), old.params
    n_now = DEFAULTS_VERSION
    now = model_params()
    changed = tuple(
        dataclasses.replace(p, default={"num_leaves": 63, "reg_lambda": 1.0}.get(p.name, p.default))
        for p in (*table.PARAMETERS, dataclasses.replace(BY_NAME["sigmoid"], name="new", default=7))
    )
    monkeypatch.setattr(defaults, "PARAMETERS", changed)
    older = (*defaults._OLDER, {"num_leaves": now["num_leaves"]}, {"reg_lambda": now["reg_lambda"]})
    monkeypatch.setattr(defaults, "_OLDER", older)
    monkeypatch.setattr(defaults, "_defaults", defaults._defaults.__wrapped__)  # not remembered
    monkeypatch.setattr(model_file, "DEFAULTS_VERSION", n_now + 2)
    assert complete_params({}, n_now)["num_leaves"] == now["num_leaves"]
    assert complete_params({}, n_now + 1)["num_leaves"] == 63
    assert complete_params({}, n_now + 1)["reg_lambda"] == now["reg_lambda"]
    assert complete_params({}, n_now + 2)["reg_lambda"] == 1.0
    loaded = Model.from_bytes(data)
    assert loaded.params == {**params, "new": 7}
