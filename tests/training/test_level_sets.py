"""Categories of many levels that are split by sets beside their statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import bitgrove as bg

PARAMS: dict[str, Any] = {
    "objective": "regression", "n_estimators": 10, "min_data_per_group": 5, "cat_smooth": 1.0,
    "min_child_samples": 5, "n_jobs": 2,
}  # fmt: skip


def slopes(n_rows: int, n_levels: int = 100) -> tuple[pd.DataFrame, NDArray[np.float64]]:
    """Every level turns another number into the label."""
    rng = np.random.default_rng(5)
    code, x = np.arange(n_rows) % n_levels, rng.normal(size=n_rows)
    frame = pd.DataFrame({"code": pd.Categorical(code), "x": x})
    return frame, rng.normal(size=n_levels)[code] * x


@pytest.mark.parametrize(("n_rows", "max_bin", "expected"), [
    (25 * 100 - 1, 255, set()), (25 * 100, 255, {0}), (25 * 100, 99, set()),
])  # fmt: skip
def test_where_statistics_have_sets_beside_them(n_rows: int, max_bin: int, expected: Any) -> None:
    X, y = slopes(n_rows)
    weight = np.append(np.ones(n_rows), 0.0)  # rows of weight zero do not count
    data = bg.Dataset(pd.concat([X, X[:1]]), np.append(y, 0.0), weight=weight)
    encoder = bg.train({**PARAMS, "n_estimators": 1, "max_bin": max_bin}, data).encoder
    assert encoder is not None and set(encoder.statistics) == {0} and encoder.kept == expected


def test_slopes_of_many_levels() -> None:
    """Sets tell levels apart where x says what they do; what statistics alone cannot."""
    X, y = slopes(8_000)
    model = bg.train({"objective": "regression", "n_jobs": 2}, bg.Dataset(X[:6000], y[:6000]))
    error = np.square(model.predict(X[6000:]) - y[6000:]).mean()
    assert error < 0.4 * y.var()
    assert model.feature_importance("split")[0] > 0


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_sets_beside_statistics_gain_what_they_do(device: str) -> None:
    """They are chosen by a share of their gain, but the tree says all of it."""
    X, y = slopes(6_000)
    data = bg.Dataset(X, y)
    tree = bg.train({**PARAMS, "n_estimators": 1, "device": device}, data).trees[0]
    sets = np.flatnonzero(tree.by_subset)
    assert len(sets) and (tree.feature[sets] == 0).all()
    gain = {i: tree.gain[i] for i in range(tree.n_splits)}
    parent = {int(link): i for i in range(tree.n_splits) for link in (tree.left[i], tree.right[i])}
    assert any(gain[int(i)] > 2.0 * gain[parent[int(i)]] for i in sets if int(i) in parent)
