"""The team of threads under ThreadSanitizer: small enough to be built and run here."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_teams_have_no_races(tmp_path: Path) -> None:
    compiler, setarch = shutil.which("c++"), shutil.which("setarch")
    if compiler is None or setarch is None or sys.platform != "linux":
        pytest.skip("needs Linux and a C++ compiler")
    program = tmp_path / "team"
    sources = [ROOT / "tests/sanitized/team_stress.cpp", ROOT / "cpp/common/team.cpp"]
    words = ["-std=c++20", "-O1", "-g", "-fsanitize=thread", f"-I{ROOT / 'cpp'}", "-o", program]
    built = subprocess.run(
        [compiler, *words, *sources], capture_output=True, text=True, check=False
    )
    if "cannot find" in built.stderr:
        pytest.skip("the compiler has no ThreadSanitizer")
    assert built.returncode == 0, built.stderr
    # The address space of a process under it may not be laid out at random.
    started = [setarch, platform.machine(), "-R", program]
    done = subprocess.run(started, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr
