"""Data that tests make, and the places a model can be trained in."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases import CASES, Case

# Test bodies outside of test modules: their assertions say what they compared, too.
pytest.register_assert_rewrite(
    "verbs_of_data", "verbs_of_growth", "verbs_of_histograms", "verbs_of_leaves"
)

# A shell's background job ignores Ctrl-C, and so would every process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=sorted(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    """Each training case in turn."""
    make: Callable[[], Case] = CASES[request.param]
    return make()


@pytest.fixture(scope="session")
def solo_digests() -> dict[str, str]:
    """The committed digest of each case: tests/golden proves that training alone gives it."""
    digests: dict[str, str] = json.loads(
        (Path(__file__).parent / "golden/digests.json").read_text()
    )
    return digests


@pytest.fixture
def solo_digest(request: pytest.FixtureRequest, case: Case, solo_digests: dict[str, str]) -> str:
    return solo_digests[request.node.callspec.params["case"]]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def pytest_configure(config: Any) -> None:
    config.addinivalue_line("markers", "real_gpu: takes minutes on the emulated one")
