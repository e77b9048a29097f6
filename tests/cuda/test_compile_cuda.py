"""The kernels compile: by NVRTC alone, which needs no GPU; it is in CuPy's and NVIDIA's wheels."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
from functools import cache
from pathlib import Path

import pytest

from bitgrove import _core
from bitgrove.backends.cuda.module import OPTIONS, kernel_files, kernel_source
from bitgrove.objectives import OBJECTIVES
from objective_cases import make_objective

# What CuPy adds; for an A100, and for an H100 or H200.
CUPY_OPTIONS = ("-ftz=true",)
ARCHITECTURES = ("sm_75", "sm_80", "sm_90")


@cache
def nvrtc() -> ctypes.CDLL | None:
    """The compiler's library: of the wheel nvidia-cuda-nvrtc, or of a CUDA toolkit."""
    spec = importlib.util.find_spec("nvidia")
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    found = [str(path) for folder in folders for path in Path(folder).glob("*/lib/libnvrtc.so.*")]
    system = ctypes.util.find_library("nvrtc")
    for path in [*found, *([system] if system else [])]:
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    return None


def compiled(library: ctypes.CDLL, name: str, architecture: str) -> tuple[int, str, str]:
    """(status, what the compiler says, PTX if the architecture is a virtual one)."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    wanted = (*OPTIONS, *CUPY_OPTIONS, f"-arch={architecture}")
    source, options = kernel_source(name).encode(), [option.encode() for option in wanted]
    file = f"{name}.cu".encode()
    library.nvrtcCreateProgram(ctypes.byref(program), source, file, 0, None, None)
    status = library.nvrtcCompileProgram(
        program, len(options), (ctypes.c_char_p * len(options))(*options)
    )
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    library.nvrtcGetPTXSize(program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(max(size.value, 1))
    library.nvrtcGetPTX(program, ptx)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return status, log.value.decode(), ptx.value.decode()


# Every file for the newest, every third for all: what differs is in headers that they share.
@pytest.mark.parametrize(
    ("name", "architecture"),
    [
        (name, architecture)
        for i, name in enumerate(kernel_files())
        for architecture in (ARCHITECTURES if i % 3 == 0 else ARCHITECTURES[-1:])
    ],
)
def test_kernel_compiles(name: str, architecture: str) -> None:
    library = nvrtc()
    if library is None:
        pytest.skip("no NVRTC library for this platform: the wheel nvidia-cuda-nvrtc has one")
    status, log, _ = compiled(library, name, architecture)
    assert status == 0, log


def test_every_objective_and_link_has_its_kernel() -> None:
    """As the backend will ask for them by name."""
    library = nvrtc()
    if library is None:
        pytest.skip("no NVRTC library for this platform: the wheel nvidia-cuda-nvrtc has one")
    source = {name: compiled(library, name, "compute_80")[2] for name in ("gradients", "ranking")}
    links = compiled(library, "predict", "compute_80")[2]
    for name in OBJECTIVES:
        objective = make_objective(name)
        file = "ranking" if objective.needs_queries else "gradients"
        assert f".entry {objective.kernel}_gradients(" in source[file]
        assert objective.link.kernel is None or f".entry {objective.link.kernel}(" in links


def test_every_metric_has_its_kernel() -> None:
    library = nvrtc()
    if library is None:
        pytest.skip("no NVRTC library for this platform: the wheel nvidia-cuda-nvrtc has one")
    source = compiled(library, "metrics", "compute_80")[2]
    for name in _core.metric_kernels():
        assert f".entry {name}_terms(" in source or f".entry {name}_of_queries(" in source


@pytest.mark.parametrize("name", kernel_files())
def test_source_is_whole(name: str) -> None:
    """Headers are part of the text: CuPy's cache sees every change of theirs."""
    source = kernel_source(name)
    assert '#include "' not in source and "#pragma once" not in source
    assert source.count("struct PackedAs {") == 1  # layouts.h, once


def test_every_kernel_file_is_known() -> None:
    assert kernel_files() == [
        "ahead", "binning", "edges", "gradients", "histogram", "leaves", "metrics", "partition",
        "predict", "quantize", "ranking", "ruled_split", "sampling", "shap", "split",
    ]  # fmt: skip
