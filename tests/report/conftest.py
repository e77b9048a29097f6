"""Models and rows that the tests of reports share."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from report_cases import hostile_rows

import bitgrove as bg


@pytest.fixture(scope="session")
def hostile() -> tuple[bg.BitGroveClassifier, pd.DataFrame, Any]:
    table, target = hostile_rows()
    model = bg.BitGroveClassifier(n_estimators=12, num_leaves=8, min_child_samples=5)
    model.fit(table, target, eval_set=[(table[:100], target[:100])], eval_names=["<s>set</s>"])
    return model, table, target
