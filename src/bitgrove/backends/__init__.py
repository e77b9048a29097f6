"""Where training runs: `reference` (NumPy oracle), `cpu` (C++ core) and `cuda` (one GPU)."""

from __future__ import annotations

from bitgrove.backends.base import Backend, BinnedMatrix
from bitgrove.params import TrainParams

__all__ = ["Backend", "BinnedMatrix", "make_backend"]


def make_backend(params: TrainParams) -> Backend:
    """The backend of params.device."""
    if params.device == "reference":
        from bitgrove.backends.reference import ReferenceBackend

        return ReferenceBackend()
    if params.device.startswith("cuda"):
        from bitgrove.backends.cuda import CudaBackend

        return CudaBackend(params)
    from bitgrove.backends.cpu import CpuBackend

    return CpuBackend(params.n_jobs)
