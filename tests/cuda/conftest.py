"""The GPU that the tests of this folder use; without one they are skipped, and say why.

`make emulated` runs them on a GPU that the processor emulates (tests/emulated_gpu).
"""

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


@pytest.fixture(autouse=True)
def skip_what_takes_minutes(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("real_gpu"):
        cupy = request.getfixturevalue("backend").device.cupy
        if "emulated" in cupy.__version__:
            pytest.skip("takes minutes on the emulated GPU")
