"""Where training runs: `reference` (NumPy oracle), `cpu` (C++ core) and `cuda` (one GPU)."""

from __future__ import annotations

import sys

from bitgrove.backends.base import Backend, BinnedMatrix
from bitgrove.data.dataset import Dataset
from bitgrove.data.sparse.tables import table_of
from bitgrove.machine.gpu import free_bytes, usable_gpu
from bitgrove.objectives import Objective
from bitgrove.params import TrainParams

__all__ = ["Backend", "BinnedMatrix", "choose_device", "give_back_memory", "make_backend"]


# Rows from which on a GPU trains faster than the cores beside it, binning included.
_LEAST_GPU_ROWS = 50_000


def choose_device(asked: str, data: Dataset, objective: Objective) -> str:
    """What "auto" means for this data: where it lies; for many rows of the host a GPU with room.

    A user's own loss stays on the CPU: on a GPU it would be given CuPy arrays. So does a sparse
    table: a GPU would need it dense.
    """
    if asked != "auto":
        return asked
    few = data.n_rows < _LEAST_GPU_ROWS or objective.family == "given"
    if data.device != "cpu" or few or table_of(data.columns) is not None:
        return data.device
    gpu = usable_gpu()
    # Bins twice, and what belongs to a row of each output; as much again for histograms.
    n_bytes = data.n_rows * (2 * data.n_features + 64 * objective.n_outputs)
    return gpu if gpu is not None and 2 * n_bytes <= free_bytes(gpu) else "cpu"


def make_backend(params: TrainParams, n_outputs: int = 1) -> Backend:
    """The backend of params.device; n_outputs: of the model, for which a GPU keeps room."""
    if params.device == "reference":
        from bitgrove.backends.reference import ReferenceBackend

        return ReferenceBackend()
    if params.device.startswith("cuda"):
        from bitgrove.backends.cuda.backend import CudaBackend

        return CudaBackend(params, n_outputs)
    from bitgrove.backends.cpu import CpuBackend

    return CpuBackend(params.n_jobs, params.packed)


def give_back_memory() -> None:
    """After a training: memory that devices keep for the next one goes back to the system."""
    cuda_memory = sys.modules.get("bitgrove.backends.cuda.memory")  # without it, nothing was used
    if cuda_memory is not None:
        cuda_memory.POOL.give_back()
