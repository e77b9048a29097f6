"""Categories on the GPU: training from its memory, and prediction, with the bits of the CPU.

The cases of tests/cases.py (test_same_bits_cuda.py) and the verbs (test_verbs_cuda.py) train on
categories, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bitgrove as bg
from cases import CASES

NAMES = [name for name in sorted(CASES) if name.startswith("categories")]


@pytest.mark.parametrize("name", NAMES)
def test_tables_on_the_gpu(backend: Any, name: str) -> None:
    case = CASES[name]()
    params = {k: v for k, v in case.params.items() if k != "early_stopping_rounds"}
    there = bg.Dataset(backend.device.cupy.asarray(case.X), case.y, **case.kinds)
    here = bg.Dataset(case.X, case.y, **case.kinds)
    model = bg.train({**params, "device": "cuda"}, there)
    assert model.digest() == bg.train(params, here).digest()


@pytest.mark.parametrize("name", NAMES)
def test_predictions(backend: Any, name: str) -> None:
    """From host rows and from device rows; levels that are unseen, missing, or no level at all."""
    case = CASES[name]()
    model = case.train()
    valid = case.X[:0] if case.valid is None else case.valid[0]
    rows = np.concatenate([case.X, valid, case.X[:50]])
    rows[-50:, :4] = [-7.0, 1e9, 0.5, np.nan]
    expected = model.predict(rows)
    np.testing.assert_array_equal(model.predict(rows, device="cuda"), expected)
    found = model.predict(backend.device.cupy.asarray(rows))
    np.testing.assert_array_equal(backend.device.cupy.asnumpy(found), expected)
    assert any(tree.by_subset.any() for tree in model.trees)


def test_statistics_of_many_rows(backend: Any) -> None:
    """Above 10,000 rows every split pays cat_l2 beside them."""
    rng = np.random.default_rng(5)
    user, x = rng.integers(0, 500, 20_000), np.round(rng.normal(size=20_000), 2)
    data = bg.Dataset(np.stack([user, x], axis=1), (user % 7) + x, categorical_feature=[0])
    how = {"objective": "regression", "n_estimators": 3, "num_leaves": 31}
    on_gpu = bg.train({**how, "device": backend.name}, data)
    assert on_gpu.digest() == bg.train(how, data).digest()
