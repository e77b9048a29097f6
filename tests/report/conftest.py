"""Models and rows that the tests of reports share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from report_cases import hostile_rows

import bitgrove as bg
from bitgrove.model.model import Model


@pytest.fixture(scope="module", autouse=True)
def contributions() -> Any:
    """Until models have SHAP values: all of a score is the first feature's."""
    if hasattr(Model, "shap_values"):
        yield
        return

    def shap_values(self: Model, X: Any) -> Any:
        raw = self.predict_raw(X).reshape(X.n_rows, self.n_outputs)
        found = np.zeros((X.n_rows, self.n_outputs, self.n_features + 1))
        found[:, :, -1] = self.base_score
        found[:, :, 0] = raw - self.base_score
        return found.reshape(X.n_rows, -1)

    Model.shap_values = shap_values  # type: ignore[attr-defined]
    yield
    del Model.shap_values  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def hostile() -> tuple[bg.BitGroveClassifier, pd.DataFrame, Any]:
    table, target = hostile_rows()
    model = bg.BitGroveClassifier(n_estimators=12, num_leaves=8, min_child_samples=5)
    model.fit(table, target, eval_set=[(table[:100], target[:100])], eval_names=["<s>set</s>"])
    return model, table, target
