"""The kernels of a GPU: compiled by CuPy when they are first wanted, ready to be launched.

The kernels are the .cu files of kernels/cuda and kernels/growth; the headers they include are
pasted into the source, since CuPy's disk cache does not look into them. It keeps machine code by
source, options, compiler and architecture; a mark beside it says that all files of this version are
there. Says in one sentence that one does not compile.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from bitgrove import _core
from bitgrove.errors import TrainingError
from bitgrove.machine.gpu import import_cupy
from bitgrove.machine.threads import available_cores

KERNELS = Path(__file__).parents[2] / "kernels"
_ROOMS = ("cuda", "growth")  # with kernels; headers are also elsewhere
# Contraction off is part of the contract of sameness: a*b+c must round twice everywhere.
OPTIONS = ("--std=c++17", "--fmad=false")
_INCLUDE = re.compile(r'^#include "([\w.]+)"$', re.MULTILINE)


def kernel_files() -> list[str]:
    """Names of the kernel files, without their suffix."""
    return sorted(path.stem for room in _ROOMS for path in (KERNELS / room).glob("*.cu"))


def kernel_source(name: str) -> str:
    """One kernel file with all its headers, each pasted once where it is first included."""
    seen: set[str] = set()

    def paste(file: str) -> str:
        if file in seen:
            return ""
        seen.add(file)
        folders = [KERNELS / folder for folder in (*_ROOMS, "device", "shared")]
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
        self._is_prepared = False
        self._kernels: dict[tuple[str, str, int], tuple[Any, Any]] = {}

    def get(self, file: str, kernel: str, threads: int, shared_bytes: int = 0) -> Any:
        """The kernel for _core.Stream.launch; shared_bytes is dynamic memory of a block."""
        key = (file, kernel, shared_bytes)
        if key not in self._kernels:
            self._kernels[key] = self._make(file, kernel, threads, shared_bytes)
        return self._kernels[key][0]

    def prepare(self, say: bool) -> None:
        """At the first use of this version on such a GPU: compiles all files, by several threads.

        Later ones are read from disk when they are wanted. say: a line on standard error.
        """
        if self._is_prepared:
            return
        self._is_prepared = True
        mark = _cache_folder() / f"bitgrove-{self._fingerprint()}"
        if mark.exists():
            return
        started = time.perf_counter()
        if say:
            text = "compiling the kernels, once for this version and GPU ... "
            print(text, end="", file=sys.stderr, flush=True)
        with ThreadPoolExecutor(available_cores()) as threads:
            list(threads.map(self._module, kernel_files()))
        if say:
            print(f"{time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)
        try:
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
        except OSError:
            pass  # a home that cannot be written to: CuPy keeps nothing there, either

    def _fingerprint(self) -> str:
        """Of everything that the machine code may depend on: version, compiler, GPU and driver."""
        runtime, device = self._cupy.cuda.runtime, self._cupy.cuda.Device(self._device)
        versions = (self._cupy.__version__, runtime.runtimeGetVersion(), runtime.driverGetVersion())
        facts = (versions, device.compute_capability, OPTIONS)
        sources = [kernel_source(name) for name in kernel_files()]
        return hashlib.sha256(repr((facts, sources)).encode()).hexdigest()[:32]

    def _make(self, file: str, kernel: str, threads: int, shared_bytes: int) -> tuple[Any, Any]:
        """(the kernel, CuPy's object, which keeps it loaded)."""
        module = self._module(file)
        with self._cupy.cuda.Device(self._device):
            function = module.get_function(kernel)
            if shared_bytes > 48 << 10:  # more than the default must be asked for
                function.max_dynamic_shared_size_bytes = shared_bytes
            return _core.Kernel(int(function.kernel.ptr), threads, shared_bytes), function

    def _module(self, file: str) -> Any:
        if file not in self._modules:
            module = self._cupy.RawModule(code=kernel_source(file), options=OPTIONS)
            try:
                with self._cupy.cuda.Device(self._device):
                    module.compile()
            except self._cupy.cuda.compiler.CompileException as error:
                raise TrainingError(
                    f"kernels/cuda/{file}.cu does not compile on this machine "
                    f"(CuPy {self._cupy.__version__}, NVRTC of its CUDA): {error}"
                ) from error
            self._modules[file] = module
        return self._modules[file]


def _cache_folder() -> Path:
    """Where CuPy keeps what it compiled."""
    return Path(os.environ.get("CUPY_CACHE_DIR") or Path.home() / ".cupy" / "kernel_cache")


@cache
def kernels_of(device: int) -> Kernels:
    return Kernels(device)
