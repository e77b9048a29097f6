"""XGBoost's JSON and UBJSON: its own library reads what we write, we read what it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import bitgrove as bg
from bitgrove.model.exchange import FORMATS, Outgoing
from bitgrove.model.exchange.xgboost import less_than
from bitgrove.model.exchange.xgboost_reading import at_most
from exchange_cases import TRAINED, predicted, random_model, random_rows, trained

xgboost = pytest.importorskip("xgboost", reason="XGBoost (the extra `peers`) reads its format")
BOTH = ("xgboost", "xgboost_ubj")


def booster_of(model: bg.Model, format: str = "xgboost_ubj", **how: Any) -> Any:
    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(bytearray(FORMATS[format].write(Outgoing(model, **how))))
    return booster


def matrix(model: bg.Model, table: np.ndarray[Any, Any]) -> Any:
    known = {} if model.encoder is None else model.encoder.levels
    types = ["c" if f in known else "float" for f in range(model.n_features)]
    names = model.feature_names if model.has_names else None
    rows = table.astype(np.float32)
    return xgboost.DMatrix(rows, feature_names=names, feature_types=types, nthread=1,
                           enable_categorical=True)  # fmt: skip


def bound(model: bg.Model) -> float:
    """How far sums of float32 can be from those of float64: see docs/export.md."""
    slope = model.params["sigmoid"] if model.objective == "binary" else 1.0
    sizes = sum(float(np.abs(tree.leaf_value).max()) for tree in model.trees)
    total = sizes + float(np.abs(model.base_score).max())
    return slope * (len(model.trees) / model.n_outputs + 2) * total * 2.0**-24


@pytest.mark.parametrize("format", BOTH)
@pytest.mark.parametrize("name", TRAINED)
def test_xgboost_says_the_same(name: str, format: str) -> None:
    case = trained(name)
    model, table = case.model, case.table.astype(np.float32).astype(np.float64)
    booster, rows = booster_of(model, format), matrix(model, table)
    slope = model.params["sigmoid"] if name == "slope" else 1.0
    raw = slope * case.expected(table, raw_score=True)
    np.testing.assert_allclose(booster.predict(rows, output_margin=True), raw, rtol=0,
                               atol=bound(model))  # fmt: skip
    np.testing.assert_allclose(booster.predict(rows), case.expected(table), rtol=2e-6, atol=1e-6)
    back = FORMATS[format].read(FORMATS[format].write(Outgoing(model)))
    np.testing.assert_allclose(predicted(back, table, raw_score=True), raw, rtol=0,
                               atol=bound(model))  # fmt: skip
    assert (back.objective, back.classes) == (model.objective, model.classes)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([("regression", 1), ("multiclass", 3)]))
def test_every_float32_row_goes_the_same_way(seed: int, kind: tuple[str, int]) -> None:
    """Leaf values that float32 adds exactly: a row on another way would show."""
    model = random_model(seed, *kind)
    rows = random_rows(model, seed)
    rows[np.isinf(rows)] = 0.0  # XGBoost refuses them
    expected = predicted(model, rows, raw_score=True)
    found = booster_of(model).predict(matrix(model, rows), output_margin=True)
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)
    both = [FORMATS[f].read(FORMATS[f].write(Outgoing(model))) for f in BOTH]
    assert both[0].to_bytes() == both[1].to_bytes()
    np.testing.assert_array_equal(predicted(both[0], rows, raw_score=True), expected)


@given(st.floats(width=64, allow_nan=False), st.floats(width=32, allow_nan=False))
def test_thresholds(threshold: float, value: float) -> None:
    one = np.array([threshold])
    assert (np.float32(value) < np.float32(less_than(one)[0])) == (value <= threshold) or (
        np.isposinf(value) and np.isposinf(less_than(one)[0])
    )


@given(st.floats(width=32, allow_nan=False), st.floats(width=64, allow_nan=False))
def test_conditions(condition: float, value: float) -> None:
    """A float64 row goes where XGBoost, which makes it a float32, sends it."""
    assume(condition != -np.inf)  # less than that is nothing
    found = at_most(np.array([condition], dtype=np.float32))[0]
    near = [value, found, np.nextafter(found, np.inf), np.nextafter(found, -np.inf), condition]
    for x in near:
        with np.errstate(over="ignore"):
            assert (np.float32(x) < np.float32(condition)) == (x <= found), x


def test_text_columns_of_pandas() -> None:
    """XGBoost finds text by its levels, where they are plain letters."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"city": rng.choice(["bern", "lima", "oslo"], 300), "x": rng.normal(size=300)})
    y = X["city"].str.len() + X["x"] + (X["city"] == "lima")
    model = bg.train({"objective": "regression", "n_estimators": 3, "min_data_per_group": 5},
                     bg.Dataset(X, y))  # fmt: skip
    frame = X.assign(city=pd.Categorical(X["city"], categories=["oslo", "bern", "lima"]))
    found = booster_of(model).predict(xgboost.DMatrix(frame, enable_categorical=True))
    np.testing.assert_allclose(found, model.predict(X.astype({"x": np.float32})), rtol=1e-5)


def frame_and_label() -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    n = 300
    X = pd.DataFrame({
        "x": rng.normal(size=n),
        "c": pd.Categorical(rng.choice(list("hgfedcba"), n)),
        "i": pd.Categorical(rng.integers(3, 9, n)),
    })  # fmt: skip
    X.loc[::7, "x"] = np.nan
    X.loc[::9, "c"] = None
    return X, (X["x"].fillna(0) + X["c"].cat.codes % 3 + X["i"].cat.codes).to_numpy()


THEIRS: dict[str, dict[str, Any]] = {
    "binary": {"objective": "binary:logistic", "base_score": 0.3},
    "regression": {"objective": "reg:squarederror"},
    "multiclass": {"objective": "multi:softprob", "num_class": 3, "num_parallel_tree": 2},
    "poisson": {"objective": "count:poisson"},
    "quantiles": {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.9]},
    "tweedie": {"objective": "reg:tweedie", "tweedie_variance_power": 1.3},
    "dart": {"booster": "dart", "rate_drop": 0.5},
    "scores": {"objective": "binary:logitraw"},
    "lossguide": {"grow_policy": "lossguide", "max_leaves": 9, "max_depth": 0},
    "pruned": {"tree_method": "exact", "gamma": 20.0},
    "vectors": {"multi_strategy": "multi_output_tree"},
}


COMMON = {"max_cat_to_onehot": 1, "max_depth": 4, "nthread": 1}


def their_booster(name: str, coded: bool = False) -> tuple[Any, Any, Any]:
    """The booster, its rows as XGBoost has them and as we do."""
    X, y = frame_and_label()
    params = THEIRS[name]
    if "num_class" in params:
        y = np.digitize(y, [3.0, 6.0])
    elif params.get("objective", "").startswith("binary"):
        y = (y > 4).astype(float)
    elif name == "vectors":
        y = np.stack([y, -y, y * y], axis=1)
    if name in ("pruned", "vectors"):
        X = X[["x"]]
    types = None
    if coded:  # nothing but numbers: the file does not list the levels
        codes = {c: X[c].cat.codes.where(X[c].notna(), np.nan) for c in X if c != "x"}
        X = X.assign(**codes).to_numpy(dtype=float)
        types = ["q", "c", "c"]
    rows = xgboost.DMatrix(X, np.maximum(y, 0.0) if name != "vectors" else y,
                           feature_types=types, enable_categorical=True)  # fmt: skip
    return xgboost.train({**COMMON, **params}, rows, 5), rows, X


@pytest.mark.parametrize("end", [".json", ".ubj"])
@pytest.mark.parametrize("name", THEIRS)
def test_their_models_predict_the_same_here(name: str, end: str, tmp_path: Path) -> None:
    booster, rows, X = their_booster(name)
    booster.save_model(tmp_path / f"model{end}")
    model = bg.import_model(tmp_path / f"model{end}")
    raw = booster.predict(rows, output_margin=True)
    np.testing.assert_allclose(model.predict_raw(X), raw, rtol=0, atol=bound(model))
    np.testing.assert_allclose(model.predict(X), booster.predict(rows), rtol=2e-6, atol=1e-6)
    assert bg.Model.from_bytes(model.to_bytes()) == model


@pytest.mark.parametrize("name", ["binary", "regression", "multiclass"])
def test_contributions_are_the_same(name: str, tmp_path: Path) -> None:
    """Ours of an imported model against XGBoost's own, which weighs ways by hessians."""
    booster, rows, X = their_booster(name)
    booster.save_model(tmp_path / "model.ubj")
    ours = bg.import_model(tmp_path / "model.ubj").predict(X, pred_contrib=True)
    theirs = booster.predict(rows, pred_contribs=True)
    np.testing.assert_allclose(ours.reshape(theirs.shape), theirs, rtol=0, atol=1e-5)


def test_codes_whose_levels_are_not_listed(tmp_path: Path) -> None:
    booster, rows, X = their_booster("regression", coded=True)
    booster.save_model(tmp_path / "model.json")
    model = bg.import_model(tmp_path / "model.json")
    np.testing.assert_allclose(model.predict(X), booster.predict(rows), atol=bound(model), rtol=0)


def test_training_goes_on_from_their_file(tmp_path: Path) -> None:
    booster, rows, X = their_booster("regression")
    booster.save_model(tmp_path / "model.ubj")
    y = rows.get_label().astype(float)
    longer = bg.train(
        {"objective": "regression", "n_estimators": 20, "min_child_samples": 5},
        bg.Dataset(X, y),
        init_model=tmp_path / "model.ubj",
    )
    start, end = (np.mean((p - y) ** 2) for p in (booster.predict(rows), longer.predict(X)))
    assert longer.n_iterations == 25 and end < 0.5 * start


def test_their_training_goes_on_from_our_file(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    fitted = bg.BitGroveRegressor(n_estimators=3).fit(X, X[:, 0])
    fitted.export(tmp_path / "model.ubj")
    rows = xgboost.DMatrix(X, X[:, 0])
    longer = xgboost.train({"nthread": 1}, rows, 5, xgb_model=str(tmp_path / "model.ubj"))
    assert longer.num_boosted_rounds() == 1 + 3 + 5  # the base score is an iteration there
    start, end = (np.mean((p - X[:, 0]) ** 2) for p in (fitted.predict(X), longer.predict(rows)))
    assert end < 0.5 * start


@pytest.mark.parametrize(
    ("params", "reason"),
    [({"objective": "binary:hinge"}, "binary:hinge"), ({"booster": "gblinear"}, "gblinear")],
)
def test_what_has_no_counterpart_is_named(
    params: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    X = np.random.default_rng(0).normal(size=(50, 2))
    rows = xgboost.DMatrix(X, (X[:, 0] > 0).astype(float))
    xgboost.train({"nthread": 1, **params}, rows, 2).save_model(tmp_path / "model.json")
    with pytest.raises(bg.ModelFormatError, match=reason):
        bg.import_model(tmp_path / "model.json")


def test_links_that_it_lacks() -> None:
    case = trained("multiclass")
    ova = bg.Model("multiclassova", case.model.trees, case.model.base_score,
                   case.model.feature_names, {"num_class": case.model.n_outputs})  # fmt: skip
    with pytest.raises(bg.ParameterError, match="no onevsall link"):
        booster_of(ova)
    table = case.X.astype(np.float32)
    raw = booster_of(ova, raw_score=True).predict(matrix(ova, table))
    np.testing.assert_allclose(raw, ova.predict_raw(table), rtol=0, atol=bound(ova))
