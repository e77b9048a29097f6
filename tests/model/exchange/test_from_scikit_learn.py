"""scikit-learn's HistGradientBoosting becomes a Model that says the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from threadpoolctl import threadpool_limits

import bitgrove as bg


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """scikit-learn's threads wait by spinning, which is slow where others work too."""
    with threadpool_limits(1):
        yield


def frame_and_label() -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    n = 400
    X = pd.DataFrame({
        "x": rng.normal(size=n),
        "c": pd.Categorical(rng.choice(list("hgfedcba"), n)),
        "z": rng.normal(size=n),
        "i": rng.integers(3, 9, n),
    })  # fmt: skip
    X.loc[::7, "x"] = np.nan
    X.loc[::9, "c"] = None
    return X, (X["x"].fillna(0) + X["c"].cat.codes % 3 + X["i"] % 4).to_numpy()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes(n_classes: int) -> None:
    X, y = frame_and_label()
    label = np.array(["no", "yes", "maybe"])[np.digitize(y, [2.0, 4.0][: n_classes - 1])]
    theirs = HistGradientBoostingClassifier(max_iter=5, categorical_features=["c", "i"])
    theirs.fit(X, label)
    model = bg.import_model(theirs)
    other = X.assign(c=X["c"].cat.rename_categories({"a": "new"}), i=X["i"].replace(4, 77))
    for table in (X, other):
        chances = theirs.predict_proba(table)
        found = model.predict(table)
        np.testing.assert_allclose(
            found, chances if n_classes > 2 else chances[:, 1], rtol=1e-13, atol=1e-300
        )
    fitted = bg.BitGroveClassifier.from_model(model)
    assert fitted.predict(X).tolist() == theirs.predict(X).tolist()


@pytest.mark.parametrize(
    ("loss", "objective"),
    [("squared_error", "regression"), ("absolute_error", "mae"), ("poisson", "poisson"),
     ("gamma", "gamma"), ("quantile", "quantile")],
)  # fmt: skip
def test_values(loss: str, objective: str) -> None:
    X, y = frame_and_label()
    table = X[["x", "z"]].to_numpy()
    theirs = HistGradientBoostingRegressor(loss=loss, quantile=0.3, max_iter=5)
    theirs.fit(table, np.abs(y) + 1.0)
    model = bg.import_model(theirs)
    assert model.objective == objective and model.trees[0].split_rows[0] == len(X)
    np.testing.assert_array_equal(model.predict_raw(table), theirs._raw_predict(table)[:, 0])
    np.testing.assert_allclose(model.predict(table), theirs.predict(table), rtol=1e-14)
    if loss == "quantile":
        assert model.params["quantile_alpha"] == [0.3]


def test_training_goes_on() -> None:
    X, y = frame_and_label()
    theirs = HistGradientBoostingRegressor(max_iter=5, categorical_features=["c"]).fit(X, y)
    model = bg.import_model(theirs)
    params = {"objective": "regression", "n_estimators": 20}
    longer = bg.train(params, bg.Dataset(X, y), init_model=model)
    start, end = (np.mean((p - y) ** 2) for p in (theirs.predict(X), longer.predict(X)))
    assert longer.n_iterations == 25 and end < 0.5 * start
    assert bg.Model.from_bytes(model.to_bytes()) == model


def test_other_things_are_refused() -> None:
    with pytest.raises(TypeError, match="got RandomForestRegressor"):
        bg.import_model(RandomForestRegressor())
    with pytest.raises(TypeError, match="not fitted"):
        bg.import_model(HistGradientBoostingRegressor())
    with pytest.raises(TypeError, match="got int"):
        bg.import_model(3)
