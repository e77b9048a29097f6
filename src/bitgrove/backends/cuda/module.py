"""The kernels of a GPU: compiled by CuPy when they are first wanted, ready to be launched.

The kernels are the .cu files of kernels/cuda; the headers they include are pasted into the source,
since CuPy's disk cache does not look into them. Says in one sentence that one does not compile.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from bitgrove import _core
from bitgrove.errors import TrainingError
from bitgrove.machine.gpu import import_cupy

KERNELS = Path(__file__).parents[2] / "kernels"
# Contraction off is part of the contract of sameness: a*b+c must round twice everywhere.
OPTIONS = ("--std=c++17", "--fmad=false")
_INCLUDE = re.compile(r'^#include "([\w.]+)"$', re.MULTILINE)


def kernel_files() -> list[str]:
    """Names of the kernel files, without their suffix."""
    return sorted(path.stem for path in (KERNELS / "cuda").glob("*.cu"))


def kernel_source(name: str) -> str:
    """One kernel file with all its headers, each pasted once where it is first included."""
    seen: set[str] = set()

    def paste(file: str) -> str:
        if file in seen:
            return ""
        seen.add(file)
        folders = [KERNELS / folder for folder in ("cuda", "device", "shared")]
        path = next(folder / file for folder in folders if (folder / file).exists())
        text = path.read_text(encoding="utf-8").replace("#pragma once\n", "")
        return _INCLUDE.sub(lambda match: paste(match.group(1)), text)

    return paste(f"{name}.cu")


class Kernels:
    """The compiled kernels of one device; a file is compiled when one of its kernels is wanted."""

    def __init__(self, device: int) -> None:
        self._cupy = import_cupy()
        self._device = device
        self._modules: dict[str, Any] = {}
        self._kernels: dict[tuple[str, str, int], tuple[Any, Any]] = {}

    def get(self, file: str, kernel: str, threads: int, shared_bytes: int = 0) -> Any:
        """The kernel for _core.Stream.launch; shared_bytes is dynamic memory of a block."""
        key = (file, kernel, shared_bytes)
        if key not in self._kernels:
            self._kernels[key] = self._make(file, kernel, threads, shared_bytes)
        return self._kernels[key][0]

    def _make(self, file: str, kernel: str, threads: int, shared_bytes: int) -> tuple[Any, Any]:
        """(the kernel, CuPy's object, which keeps it loaded)."""
        with self._cupy.cuda.Device(self._device):
            function = self._module(file).get_function(kernel)
            if shared_bytes > 48 << 10:  # more than the default must be asked for
                function.max_dynamic_shared_size_bytes = shared_bytes
            return _core.Kernel(int(function.kernel.ptr), threads, shared_bytes), function

    def _module(self, file: str) -> Any:
        if file not in self._modules:
            module = self._cupy.RawModule(code=kernel_source(file), options=OPTIONS)
            try:
                module.compile()
            except self._cupy.cuda.compiler.CompileException as error:
                raise TrainingError(
                    f"kernels/cuda/{file}.cu does not compile on this machine "
                    f"(CuPy {self._cupy.__version__}, NVRTC of its CUDA): {error}"
                ) from error
            self._modules[file] = module
        return self._modules[file]


@cache
def kernels_of(device: int) -> Kernels:
    return Kernels(device)
