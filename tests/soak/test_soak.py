"""The rule of flat memory can fail, and a few steps of the soak hold."""

from __future__ import annotations

import random
from pathlib import Path

import cycles
import pytest


def test_memory_that_grows_is_found() -> None:
    flat = [200 << 20, *[260 << 20] * 39]
    assert not cycles.has_grown(flat)
    assert not cycles.has_grown([look + (i % 7 << 20) for i, look in enumerate(flat)])
    assert cycles.has_grown([look + (i << 20) for i, look in enumerate(flat)])


def test_a_few_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: cycles.CASES[name] for name in ("few values",)}
    monkeypatch.setattr(cycles, "CASES", few)
    monkeypatch.setattr(cycles, "STREAMED", [*few])
    soak = cycles.Soak(tmp_path, random.Random(0))
    done = {soak.step() for _ in range(30)}
    assert done == {*cycles.STEPS}
    with pytest.raises(AssertionError, match="and before"):
        soak.check("model few values", "another")
