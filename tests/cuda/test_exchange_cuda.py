"""Models of other libraries on the GPU: the bits of the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bitgrove.model.exchange import FORMATS, Outgoing
from exchange_cases import trained


@pytest.mark.parametrize("name", ["early stopping", "categories multiclass", "text"])
@pytest.mark.parametrize("format", ["lightgbm", "xgboost_ubj"])
def test_predictions(backend: Any, name: str, format: str) -> None:
    case = trained(name)
    model = FORMATS[format].read(FORMATS[format].write(Outgoing(case.model)))
    there = model.predict(case.X, device=backend.name)
    np.testing.assert_array_equal(there, model.predict(case.X, device="cpu"))
