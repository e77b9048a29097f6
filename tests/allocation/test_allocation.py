"""An allocation that fails is a MemoryError, wherever it is; and the next call works.

Some of the allocations of each work; `make test-allocation` goes through all of them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
STEPS = {"train_features": 41, "explain": 13, "ranks": 29}  # the others are much alike


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("c++")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs Linux and a C++ compiler")
    built = tmp_path_factory.mktemp("allocation") / "failing_new.so"
    words = [compiler, "-std=c++20", "-O1", "-fPIC", "-shared", "-o", str(built)]
    subprocess.run([*words, str(HERE / "failing_new.cpp")], check=True)
    return built


@pytest.mark.parametrize("work", STEPS)
def test_failing_allocations(library: Path, work: str) -> None:
    words = [sys.executable, "-X", "faulthandler", str(HERE / "walk.py"), work, str(STEPS[work])]
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    *_, last = done.stdout.splitlines() or [""]
    assert done.returncode == 0, f"{last}\n{done.stderr[-3000:]}"
    n_errors = int(last.split()[-2])
    assert n_errors > 3, last
