"""Compiles the driver of the emulated GPU, and kernels for it, with the machine's C++ compiler.

Owns driver, compile_kernels and kernels_of; what was compiled is kept in build/emulated_gpu.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path

HERE = Path(__file__).parents[1]
BUILD = HERE.parents[1] / "build" / "emulated_gpu"
# As the contract of sameness asks of every compiler: a*b+c rounds twice.
OPTIONS = ("-std=c++20", "-O2", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing", "-w")
# Kernels of one name in two files are not one kernel, nor is what their threads share.
HIDDEN = "-fvisibility=hidden"
_BOUNDS = r"(?:\s+__launch_bounds__\((?:[^()]|\([^()]*\))*\))?"
_KERNEL = re.compile(rf"__global__\s+void{_BOUNDS}\s+(\w+)\s*\(")
_DYNAMIC = re.compile(r"extern\s+__shared__(?:\s+__align__\(\d+\))?\s+(\w+)\s+(\w+)\[\];")


class CompileError(Exception):
    """What the compiler says."""


def _compiler() -> str:
    return os.environ.get("CXX", "c++")


def _run(*words: str) -> str:
    done = subprocess.run([_compiler(), *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise CompileError(done.stderr)
    return done.stdout


def _library(text: str, name: str, *options: str) -> Path:
    """The library of a text: it is named after it, so an old one is never taken for a new one."""
    known = hashlib.sha256(repr((text, options, _compiler())).encode()).hexdigest()[:16]
    library = BUILD / f"{name}-{known}.so"
    if not library.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILD) as folder:
            source, made = Path(folder) / f"{name}.cpp", Path(folder) / "made.so"
            source.write_text(text)
            _run(*OPTIONS, "-shared", *options, "-o", str(made), str(source))
            made.rename(library)
    return library


@cache
def driver() -> ctypes.CDLL:
    """Loaded so that whoever asks for libcuda.so.1 afterwards finds it."""
    text = "".join((HERE / file).read_text() for file in ("driver.cpp", "graphs.cpp"))
    library = _library(text, "driver", "-Wl,-soname,libcuda.so.1", "-O2")
    return ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


def compile_kernels(source: str) -> ctypes.CDLL:
    """A library whose `emulated_kernels` lists the kernels of a CUDA source."""
    driver()
    source = _DYNAMIC.sub(
        r"auto* \2 = static_cast<\1*>(emulated::emulated_dynamic_memory);", source
    )
    header = (HERE / "device.h").read_text()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernels.cpp"
        file.write_text(f"{header}\n{source}")
        expanded = _run("-std=c++20", "-E", "-P", "-D__global__=__global__", str(file))
    names = sorted(set(_KERNEL.findall(expanded)))
    calls = ((name, f"emulated::Caller<{name}>") for name in names)
    table = "".join(f'{{"{name}", {its}::call, {its}::sizes}},' for name, its in calls)
    end = f'extern "C" SEEN emulated::Kernel emulated_kernels[] = {{{table} {{}}}};'
    text = f"{header}\n#define __global__\n{source}\n{end}\n"
    return ctypes.CDLL(str(_library(text, "kernels", HIDDEN)))


class _Kernel(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("call", ctypes.c_void_p), ("sizes", ctypes.c_void_p))


def kernels_of(library: ctypes.CDLL) -> dict[str, int]:
    """The handle of each kernel, as a launch takes it."""
    start = ctypes.addressof(_Kernel.in_dll(library, "emulated_kernels"))
    found = {}
    while (kernel := _Kernel.from_address(start)).name is not None:
        found[kernel.name.decode()] = start
        start += ctypes.sizeof(_Kernel)
    return found
