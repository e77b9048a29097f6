"""SciPy matrices whose arrays point outside of them are refused before anything reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import bitgrove as bg
from bitgrove.errors import DataError

PARAMS: dict[str, Any] = {"objective": "regression", "n_estimators": 3, "min_child_samples": 2}
X = np.random.default_rng(0).normal(size=(60, 6))
X[np.random.default_rng(1).random(X.shape) < 0.7] = 0.0
Y = X[:, 0] - 2 * X[:, 1]


def _broken(kind: str) -> Any:
    """A table whose arrays point outside of it; SciPy believes that they do not."""
    form, what = kind.split()
    table = getattr(sparse, f"{form}_array")(X)
    if form == "coo":
        (table.col if what == "wide" else table.row)[3] = 10**6 if what != "negative" else -1
        return table
    assert form == "bsr" or table.has_canonical_format  # is remembered
    if what in ("wide", "negative"):
        table.indices[3] = 10**6 if what == "wide" else -1
    elif what == "falling":
        table.indptr[2] = table.indptr[3] + 1
    elif what == "long":
        table.indptr[-1] = 10**6
    elif what == "late":
        table.indptr[0] = 1
    elif what == "short":
        table.indptr = table.indptr[:-2]
    else:
        table.data = table.data[:-1]
    return table


_FAULTS = ("wide", "negative", "falling", "long", "late", "short", "cut")


@pytest.mark.parametrize(
    "kind",
    [f"{form} {what}" for form in ("csr", "csc", "bsr") for what in _FAULTS]
    + ["coo wide", "coo tall", "coo negative"],
)
def test_a_broken_table_is_refused_before_it_is_read(kind: str) -> None:
    model = bg.train(PARAMS, bg.Dataset(X, Y))
    fitted = bg.BitGroveRegressor(n_estimators=2).fit(X, Y)
    asked = (bg.Dataset, model.predict, model.predict_leaf, model.shap_values, fitted.predict,
             lambda table: fitted.fit(table, Y))  # fmt: skip
    for ask in asked:
        with pytest.raises(DataError, match=f"no sound {kind[:3].upper()} matrix"):
            ask(_broken(kind))


def test_a_list_of_rows_that_is_broken_is_refused() -> None:
    table = sparse.lil_array(X)
    table.rows[0] = [7] * len(table.rows[0])
    with pytest.raises(DataError, match="no sound CSR matrix"):
        bg.Dataset(table)


def test_arrays_that_are_longer_than_needed() -> None:
    table = sparse.csr_array(X)
    table.indices, table.data = np.append(table.indices, 99), np.append(table.data, 0.5)
    model = bg.train(PARAMS, bg.Dataset(table, Y))
    assert model.to_bytes() == bg.train(PARAMS, bg.Dataset(X, Y)).to_bytes()
