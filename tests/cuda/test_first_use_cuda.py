"""Kernels are compiled once, and it is said: a CuPy that only counts plays the compiler."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bitgrove.backends.cuda.module import Kernels, kernel_files


class OneDevice:
    compute_capability = "90"

    def __init__(self, index: int) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Grows by the source of each file that is compiled."""
    sources: list[str] = []

    class Module:
        def __init__(self, code: str, options: Any) -> None:
            self.code = code

        def compile(self) -> None:
            sources.append(self.code)

    versions = {"runtimeGetVersion": lambda: 13000, "driverGetVersion": lambda: 13010}
    runtime = SimpleNamespace(**versions)
    compiler = SimpleNamespace(CompileException=RuntimeError)
    cuda = SimpleNamespace(Device=OneDevice, runtime=runtime, compiler=compiler)
    cupy = SimpleNamespace(__version__="14", cuda=cuda, RawModule=Module)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "cache"))
    return sources


def test_once_per_version_gpu_and_driver(
    compiled: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = Kernels(0)
    kernels.prepare(say=True)
    kernels.prepare(say=True)
    assert len(set(compiled)) == len(compiled) == len(kernel_files())
    said = capsys.readouterr().err
    assert said.startswith("compiling the kernels, once for this version and GPU ... ")
    assert said.endswith(" s\n") and said.count("\n") == 1
    Kernels(0).prepare(say=True)  # another process: all is on disk
    assert len(compiled) == len(kernel_files()) and capsys.readouterr().err == ""
    newer = SimpleNamespace(runtimeGetVersion=lambda: 13000, driverGetVersion=lambda: 13020)
    monkeypatch.setattr(sys.modules["cupy"].cuda, "runtime", newer)
    Kernels(0).prepare(say=False)
    assert len(compiled) == 2 * len(kernel_files()) and capsys.readouterr().err == ""


def test_a_home_that_cannot_be_written_to(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "file" / "cache"))
    for n in (1, 2):
        Kernels(0).prepare(say=False)
        assert len(compiled) == n * len(kernel_files())
