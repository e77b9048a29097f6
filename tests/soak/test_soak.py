"""The rule of flat memory can fail, a few steps of the soak hold, and kills meet all processes."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import cycles
import kills
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


def _is_alive(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


STARTER = """
import subprocess, threading
threading.Thread(target=subprocess.run, args=(["sleep", "60"],)).start()
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="Linux tells children")
def test_a_strike_meets_what_another_thread_started() -> None:
    """As Dask starts its workers."""
    process = subprocess.Popen([sys.executable, "-c", STARTER])
    while not (children := kills._children(process.pid)) and process.poll() is None:
        time.sleep(0.02)
    kills._strike(process.pid, one_of_them=False)
    assert process.wait() == -9
    while any(map(_is_alive, children)):
        time.sleep(0.02)
    assert len(children) == 1
    assert kills._children(process.pid) == []
