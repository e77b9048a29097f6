"""Where training runs: `reference` (NumPy oracle), `cpu` (C++ core) and `cuda` (one GPU)."""

from __future__ import annotations

import sys

from bitgrove.backends.base import Backend, BinnedMatrix
from bitgrove.params import TrainParams

__all__ = ["Backend", "BinnedMatrix", "give_back_memory", "make_backend"]


def make_backend(params: TrainParams) -> Backend:
    """The backend of params.device."""
    if params.device == "reference":
        from bitgrove.backends.reference import ReferenceBackend

        return ReferenceBackend()
    if params.device.startswith("cuda"):
        from bitgrove.backends.cuda.backend import CudaBackend

        return CudaBackend(params)
    from bitgrove.backends.cpu import CpuBackend

    return CpuBackend(params.n_jobs, params.packed)


def give_back_memory() -> None:
    """After a training: memory that devices keep for the next one goes back to the system."""
    cuda_memory = sys.modules.get("bitgrove.backends.cuda.memory")  # without it, nothing was used
    if cuda_memory is not None:
        cuda_memory.POOL.give_back()
