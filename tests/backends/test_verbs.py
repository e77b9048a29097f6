"""The verbs of the CPU: every thread count, instruction set and layout of sums."""

from __future__ import annotations

from typing import Any

import pytest

from bitgrove.machine.simd import SIMD_LEVELS
from kernel_cases import SIMD, cpu
from verb_suite import VerbSuite

NAMES = {level: name for name, level in SIMD_LEVELS.items()}
# (threads, instruction set, accumulators that hold both halves of a sum in one integer)
PLACES = [(1, simd, True) for simd in SIMD]
PLACES += [(4, SIMD[-1], True)]
PLACES += [(1, SIMD[0], False), (4, SIMD[-1], False)]


def name_of(place: tuple[int, int, bool]) -> str:
    n_threads, simd, packed = place
    return f"{n_threads}-{NAMES[simd]}-{'packed' if packed else 'apart'}"


@pytest.fixture(scope="module", params=PLACES, ids=name_of)
def backend(request: pytest.FixtureRequest) -> Any:
    return cpu(*request.param)


class TestVerbs(VerbSuite):
    """On the CPU."""
