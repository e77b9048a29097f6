"""LightGBM's text format: its own library reads what we write, we read what it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bitgrove as bg
from bitgrove.model.exchange import FORMATS, Outgoing
from exchange_cases import TRAINED, predicted, random_model, random_rows, trained

lightgbm = pytest.importorskip("lightgbm", reason="LightGBM (the extra `peers`) reads its format")
FORMAT = FORMATS["lightgbm"]


def booster_of(model: bg.Model, **how: Any) -> Any:
    return lightgbm.Booster(model_str=FORMAT.write(Outgoing(model, **how)).decode())


@pytest.mark.parametrize("name", TRAINED)
def test_lightgbm_adds_the_same_bits(name: str) -> None:
    case = trained(name)
    table, booster = case.table, booster_of(case.model)
    raw = booster.predict(table, raw_score=True)
    np.testing.assert_array_equal(raw, case.expected(table, raw_score=True))
    np.testing.assert_allclose(booster.predict(table), case.expected(table), rtol=1e-14, atol=0)


@pytest.mark.parametrize("name", TRAINED)
def test_what_we_wrote_comes_back(name: str) -> None:
    case = trained(name)
    back = FORMAT.read(FORMAT.write(Outgoing(case.model)))
    table = case.table
    np.testing.assert_array_equal(predicted(back, table), case.expected(table))
    if case.model.encoder is None or not case.model.encoder.statistics:
        assert back.to_bytes() == case.model.to_bytes()


def test_only_the_best_iterations_are_written() -> None:
    case = trained("dart")
    model = bg.Model("binary", case.model.trees, case.model.base_score, case.model.feature_names,
                     case.model.params, best_iteration=2, record=case.model.record)  # fmt: skip
    back = FORMAT.read(FORMAT.write(Outgoing(model)))
    assert back.n_iterations == 2 and back.record is None
    np.testing.assert_array_equal(back.predict(case.X), model.predict(case.X))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([("regression", 1), ("multiclass", 3)]))
def test_random_models_come_back(seed: int, kind: tuple[str, int]) -> None:
    model = random_model(seed, *kind)
    assert FORMAT.read(FORMAT.write(Outgoing(model))).to_bytes() == model.to_bytes()


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32))
def test_random_models_in_lightgbm(seed: int) -> None:
    model = random_model(seed)
    rows = random_rows(model, seed)
    rows[np.abs(rows) < 1e-35] = 0.0  # LightGBM takes them for zero
    found = booster_of(model).predict(rows, raw_score=True)
    np.testing.assert_array_equal(found, predicted(model, rows, raw_score=True))


def test_contributions_are_the_same_there() -> None:
    case = trained("text")
    table = case.model.exported_table(case.X)
    theirs = booster_of(case.model).predict(table, pred_contrib=True)
    ours = case.model.predict(case.X, pred_contrib=True)
    np.testing.assert_allclose(theirs, ours.reshape(theirs.shape), rtol=0, atol=1e-12)


def test_one_against_all_is_not_scaled_there() -> None:
    case = trained("multiclass")
    ova = bg.Model("multiclassova", case.model.trees, case.model.base_score,
                   case.model.feature_names, {"num_class": case.model.n_outputs})  # fmt: skip
    theirs = booster_of(ova).predict(case.X)
    shares = theirs / theirs.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares, ova.predict(case.X), rtol=1e-14)


def test_text_columns_of_pandas() -> None:
    """Its Python package knows the names of levels."""
    case = trained("text")
    frame = case.X.assign(city=case.X["city"].astype("category"), small=case.X["small"].astype(int))
    frame = frame.rename(columns={"a b": "a_b"})
    raw = booster_of(case.model).predict(frame, raw_score=True)
    np.testing.assert_array_equal(raw, case.model.predict_raw(case.X))


def frame_and_label() -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    n = 400
    X = pd.DataFrame({
        "x": rng.normal(size=n),
        "c": pd.Categorical(rng.choice(list("abcdefgh"), n)),
        "z": rng.integers(0, 3, n) * rng.normal(size=n),
    })  # fmt: skip
    X.loc[::7, "x"] = np.nan
    X.loc[::9, "c"] = None
    return X, (X["x"].fillna(0) + X["c"].cat.codes % 3 + X["z"]).to_numpy()


THEIRS: dict[str, dict[str, Any]] = {
    "binary": {"objective": "binary", "sigmoid": 2.0},
    "regression": {"objective": "regression"},
    "multiclass": {"objective": "multiclass", "num_class": 3},
    "ova": {"objective": "multiclassova", "num_class": 3},
    "poisson": {"objective": "poisson"},
    "quantile": {"objective": "quantile", "alpha": 0.3},
    "dart": {"objective": "regression", "boosting": "dart"},
    "rf": {"objective": "regression", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
    "no missing": {"objective": "regression", "use_missing": False},
    "function": {"objective": lambda score, data: (score - data.get_label(), np.ones(len(score)))},
}


def their_label(params: dict[str, Any], y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if "num_class" in params:
        return np.digitize(y, [0.5, 1.5]).astype(float)
    return (y > 1).astype(float) if params["objective"] == "binary" else np.maximum(y, 0.0)


@pytest.mark.parametrize("name", THEIRS)
def test_their_models_predict_the_same_here(name: str, tmp_path: Path) -> None:
    X, y = frame_and_label()
    params = {"verbose": -1, "num_leaves": 8, "min_data_per_group": 5, "cat_smooth": 0.0}
    booster = lightgbm.train(
        params | THEIRS[name], lightgbm.Dataset(X, their_label(THEIRS[name], y)), 5
    )
    booster.save_model(tmp_path / "model.txt")
    model = bg.import_model(tmp_path / "model.txt")
    if name == "rf":  # there a mean of sums, here a sum of shares
        np.testing.assert_allclose(model.predict(X), booster.predict(X), rtol=1e-14)
        return
    np.testing.assert_array_equal(model.predict_raw(X), booster.predict(X, raw_score=True))
    theirs = booster.predict(X)
    if name == "ova":
        theirs /= theirs.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict(X), theirs, rtol=1e-14)
    assert model.trees[0].split_rows[0] == len(X)
    values = booster.predict(X, pred_contrib=True)
    ours = model.predict(X, pred_contrib=True).reshape(values.shape)
    np.testing.assert_allclose(ours, values, rtol=0, atol=1e-12)
    again = lightgbm.Booster(model_str=FORMAT.write(Outgoing(model)).decode())
    table = model.exported_table(X)
    np.testing.assert_array_equal(again.predict(table, raw_score=True), model.predict_raw(X))


def test_parameters_of_the_objective_are_known(tmp_path: Path) -> None:
    X, y = frame_and_label()
    params = {"verbose": -1, **THEIRS["quantile"]}
    lightgbm.train(params, lightgbm.Dataset(X[["x"]], y), 2).save_model(tmp_path / "model.txt")
    assert bg.import_model(tmp_path / "model.txt").params["quantile_alpha"] == [0.3]


def test_training_goes_on_from_their_file(tmp_path: Path) -> None:
    X, y = frame_and_label()
    params = {"verbose": -1, "num_leaves": 8, "min_data_per_group": 5}
    booster = lightgbm.train(params, lightgbm.Dataset(X, y), 5)
    booster.save_model(tmp_path / "model.txt")
    longer = bg.train(
        {"objective": "regression", "n_estimators": 20},
        bg.Dataset(X, y),
        init_model=tmp_path / "model.txt",
    )
    assert longer.n_iterations == 25
    start, end = (np.mean((p - y) ** 2) for p in (booster.predict(X), longer.predict(X)))
    assert end < 0.5 * start
    np.testing.assert_array_equal(longer[:5].predict(X), booster.predict(X))


def test_their_training_goes_on_from_our_file(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    fitted = bg.BitGroveRegressor(n_estimators=3).fit(X, X[:, 0])
    fitted.export(tmp_path / "model.txt")
    data = lightgbm.Dataset(X, X[:, 0])
    longer = lightgbm.train({"verbose": -1}, data, 10, init_model=tmp_path / "model.txt")
    assert longer.num_trees() == 1 + 3 + 10  # the base score is a tree there
    start, end = (np.mean((p - X[:, 0]) ** 2) for p in (fitted.predict(X), longer.predict(X)))
    assert end < 0.5 * start


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"linear_tree": True}, "linear"),
        ({"zero_as_missing": True}, "zero_as_missing"),
        ({"objective": "regression", "reg_sqrt": True}, "sqrt"),
        ({"objective": "cross_entropy_lambda"}, "cross_entropy_lambda"),
    ],
)
def test_what_has_no_counterpart_is_named(
    params: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    X, y = frame_and_label()
    table, label = X[["x", "z"]].fillna(0.5), np.clip(np.abs(y), 0, 1)
    path = tmp_path / "model.txt"
    lightgbm.train({"verbose": -1, **params}, lightgbm.Dataset(table, label), 5).save_model(path)
    with pytest.raises(bg.ModelFormatError, match=reason):
        bg.import_model(path)


def test_columns_of_categories_that_nobody_can_tell_apart(tmp_path: Path) -> None:
    X, y = frame_and_label()
    X["i"] = np.arange(len(X)) % 4
    data = lightgbm.Dataset(X, y, categorical_feature=["c", "i"])
    lightgbm.train({"verbose": -1, "min_data_per_group": 5}, data, 3).save_model(tmp_path / "m.txt")
    with pytest.raises(bg.ModelFormatError, match="does not say which is which"):
        bg.import_model(tmp_path / "m.txt")


def test_many_levels_come_in(tmp_path: Path) -> None:
    """More than a set of ours holds: each set becomes a column of statistics."""
    rng = np.random.default_rng(3)
    X = rng.integers(0, 600, (3000, 1)).astype(float)
    y = (X[:, 0] % 7) + rng.normal(size=3000) / 10
    params = {"verbose": -1, "min_data_per_group": 1, "cat_smooth": 0, "max_bin": 700,
              "min_data_in_leaf": 2, "max_cat_threshold": 300}  # fmt: skip
    booster = lightgbm.train(params, lightgbm.Dataset(X, y, categorical_feature=[0]), 4)
    booster.save_model(tmp_path / "m.txt")
    model = bg.import_model(tmp_path / "m.txt")
    assert model.encoder is not None and len(model.encoder.levels[0]) > 255
    X = np.append(X, [[np.nan], [5000.0]], axis=0)
    np.testing.assert_array_equal(model.predict(X), booster.predict(X))
    assert bg.Model.from_bytes(model.to_bytes()) == model


def test_links_that_it_lacks() -> None:
    case = trained("quantiles")
    crossing = bg.Model("quantile", case.model.trees, case.model.base_score,
                        case.model.feature_names, {"non_crossing": True})  # fmt: skip
    with pytest.raises(bg.ParameterError, match="no sorted link for 3 output"):
        booster_of(crossing)
    raw = booster_of(crossing, raw_score=True).predict(case.X)
    np.testing.assert_array_equal(raw, crossing.predict_raw(case.X))
