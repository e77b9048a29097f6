"""The GPUs of this machine: finds CuPy and the device that a name means.

Owns what can be wrong with a machine (no CuPy, no driver, no such device): a ParameterError says it
in one sentence.
"""

from __future__ import annotations

from typing import Any

from bitgrove.errors import ParameterError


def import_cupy() -> Any:
    try:
        import cupy
    except ImportError as error:
        raise ParameterError(
            "device='cuda' needs CuPy: pip install 'bitgrove[cuda]' "
            f"(for CUDA 12: cupy-cuda12x); importing it failed with: {error}"
        ) from None
    return cupy


def usable_gpu() -> str | None:
    """The current GPU, such as "cuda:0"; None where CuPy, the driver or a GPU is missing."""
    try:
        return f"cuda:{find_device('cuda')}"
    except ParameterError:
        return None


def free_bytes(name: str) -> int:
    """Memory of a GPU that nobody uses."""
    cupy = import_cupy()
    with cupy.cuda.Device(find_device(name)):
        free, _ = cupy.cuda.runtime.memGetInfo()
    return int(free)


def find_device(name: str) -> int:
    """The number of the device that 'cuda' or 'cuda:1' names; ParameterError if there is none."""
    cupy = import_cupy()
    runtime = cupy.cuda.runtime
    try:
        n_devices = int(runtime.getDeviceCount())
    except runtime.CUDARuntimeError as error:
        raise ParameterError(
            f"device={name!r}: the NVIDIA driver does not answer ({error}); "
            "install or update it, or use device='cpu'"
        ) from None
    if n_devices == 0:
        raise ParameterError(f"device={name!r}: no GPU found; use device='cpu'")
    _, colon, number = name.partition(":")
    index = int(number) if colon else int(runtime.getDevice())
    if index >= n_devices:
        raise ParameterError(
            f"device={name!r}: there are {n_devices} GPUs, numbered from 0 to {n_devices - 1}"
        )
    return index
