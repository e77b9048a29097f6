"""Tables that lie on a GPU already: recognised, checked and read where they are.

Receives CuPy arrays and all others with DLPack or __cuda_array_interface__ (PyTorch, JAX, Numba);
returns CuPy views of the same memory. CuPy is imported only once such a table is met. Labels,
weights and samples, which are small and checked on the host, are copied there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.errors import DataError, DataTypeError
from bitgrove.machine.gpu import import_cupy

_CUDA_DEVICES = (2, 13)  # DLPack: CUDA memory, and managed memory
_NARROW = ("float16", "int8", "int16", "uint8", "uint16", "bool")


def is_on_gpu(X: Any) -> bool:
    # Arrow's arrays of text, or with gaps, raise when asked; pandas' columns take long to answer.
    if isinstance(X, np.ndarray) or type(X).__module__.startswith(("pyarrow", "pandas")):
        return False
    if hasattr(X, "__dlpack_device__") and not hasattr(X, "columns"):
        return int(X.__dlpack_device__()[0]) in _CUDA_DEVICES
    return hasattr(X, "__cuda_array_interface__")


def device_of(X: Any) -> str:
    """Where an array lies: "cpu", or the name of a GPU."""
    return f"cuda:{_view(X, 'X').device.id}" if is_on_gpu(X) else "cpu"


def _view(X: Any, what: str) -> Any:
    """A CuPy array of the same memory; work under way on it is waited for."""
    cupy = import_cupy()
    if isinstance(X, cupy.ndarray):
        cupy.cuda.get_current_stream().synchronize()
        return X
    try:
        return cupy.from_dlpack(X) if hasattr(X, "__dlpack__") else cupy.asarray(X)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise DataTypeError(f"{what}: CuPy cannot read this GPU array: {error}") from None


def device_table(X: Any) -> Any:
    """(n_rows, n_features) float32 or float64 on the GPU; a copy only where the type is another."""
    table = _view(X, "X")
    if table.ndim != 2:
        raise DataError(f"Expected 2D array, got {table.ndim}D array instead: X on the GPU")
    if table.dtype.kind not in "fiub":
        raise DataTypeError(f"X has type {table.dtype}; numbers are needed")
    if table.dtype not in (np.float32, np.float64):
        wanted = np.float32 if table.dtype.name in _NARROW else np.float64
        with table.device:
            table = table.astype(wanted)
            import_cupy().cuda.get_current_stream().synchronize()
    return table


def on_host(values: Any) -> Any:
    """GPU arrays as NumPy; everything else as it is."""
    return import_cupy().asnumpy(_view(values, "values")) if is_on_gpu(values) else values


def beside(values: NDArray[Any], column: Any) -> Any:
    """Host values where the column is."""
    if not is_on_gpu(column):
        return values
    with column.device:
        return import_cupy().asarray(values)


def take_rows(column: Any, rows: NDArray[Any] | slice) -> Any:
    """The listed rows of a column, where the column is."""
    if isinstance(column, np.ndarray) or isinstance(rows, slice):
        return column[rows]
    with column.device:
        return column[import_cupy().asarray(rows)]


def require_device(lies_on: str, device: str) -> None:
    """Data on the host goes anywhere; data on a GPU only to that GPU."""
    if lies_on not in ("cpu", device):
        raise DataError(
            f"X lies on {lies_on}, but this runs on {device}: pass device={lies_on!r}, "
            "or bring X to the host first (for CuPy X.get(), for PyTorch X.cpu())"
        )
