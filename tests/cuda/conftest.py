"""The GPU that the tests of this folder use; without one they are skipped, and say why."""

from __future__ import annotations

from typing import Any

import pytest

from bitgrove.backends import make_backend
from bitgrove.errors import ParameterError
from bitgrove.params import resolve


@pytest.fixture(scope="session")
def backend() -> Any:
    try:
        return make_backend(resolve({"device": "cuda"}))
    except ParameterError as error:
        pytest.skip(str(error))
