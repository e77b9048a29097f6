"""Stands in for CuPy in tests without a GPU: the parts of it that bitgrove uses.

Kernels are compiled for this machine's processor and run there, block by block (driver.cpp beside
this folder). Arrays lie in memory of their own and do not become NumPy arrays by themselves, as on
a GPU.
"""

from __future__ import annotations

import operator
import os
import platform
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from cupy import compiling, cuda

if (sys.platform, platform.machine()) != ("linux", "x86_64"):
    raise ImportError("the emulated GPU is written for Linux on x86-64")

__version__ = "14.0.0+emulated"
os.environ.setdefault("CUPY_CACHE_DIR", str(compiling.BUILD / "marks"))


def _host(value: Any) -> Any:
    """What NumPy works on in its place."""
    if isinstance(value, ndarray):
        return value._host
    if isinstance(value, (tuple, list)):
        return type(value)(map(_host, value))
    if isinstance(value, dict):
        return {name: _host(item) for name, item in value.items()}
    return value


def _there(value: Any, *owners: Any) -> Any:
    """A result of NumPy on the device: a view of an owner, or a copy."""
    if isinstance(value, (tuple, list)):
        return type(value)(_there(item, *owners) for item in value)
    if not isinstance(value, (np.ndarray, np.generic)):
        return value
    for owner in owners:
        if isinstance(owner, ndarray) and np.may_share_memory(value, owner._host):
            return ndarray._of(value, owner._memory)
    return asarray(value)


class ndarray:
    _host: np.ndarray
    _memory: Any

    def __init__(
        self, shape: Any, dtype: Any = float, memptr: Any = None, order: str = "C"
    ) -> None:
        shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        dtype = np.dtype(dtype)
        n_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        self._memory = memptr or cuda.allocate(n_bytes)
        interface = {"shape": (n_bytes,), "typestr": "|u1", "version": 3,
                     "data": (self._memory.ptr, False)}  # fmt: skip
        raw = np.asarray(type("Raw", (), {"__array_interface__": interface})())
        self._host = raw.view(dtype).reshape(shape, order=order)

    @classmethod
    def _of(cls, host: np.ndarray, memory: Any) -> ndarray:
        view = cls.__new__(cls)
        view._host, view._memory = host, memory
        return view

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(self._host, name)
        if not callable(value):
            return _there(value, self)
        return lambda *args, **how: _there(value(*_host(args), **_host(how)), self)

    @property
    def data(self) -> cuda.MemoryPointer:
        return cuda.MemoryPointer(self._memory, self._host.ctypes.data)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        interface = dict(self._host.__array_interface__)
        return {key: interface[key] for key in ("shape", "typestr", "data", "strides")} | {
            "version": 3
        }

    def get(
        self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True
    ) -> Any:
        if out is None:
            return self._host.copy(order=order)  # type: ignore[call-overload]
        assert out.shape == self.shape and out.dtype == self.dtype
        out[...] = self._host
        return out

    @property
    def device(self) -> cuda.Device:
        return cuda.Device(0)

    def set(self, values: np.ndarray, stream: Any = None) -> None:
        assert isinstance(values, np.ndarray) and values.shape == self.shape
        assert values.dtype == self.dtype
        self._host[...] = values

    def __len__(self) -> int:
        return len(self._host)

    def __getitem__(self, key: Any) -> Any:
        return _there(self._host[_host(key)], self)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, np.ndarray):
            raise TypeError("values of the host are no values of the device")
        self._host[_host(key)] = _host(value)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self._host)

    def __int__(self) -> int:
        return int(self._host)

    def __float__(self) -> float:
        return float(self._host)

    def __index__(self) -> int:
        return operator.index(self._host.item())

    def __array__(self, *args: Any, **how: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **how: Any) -> Any:
        if any(isinstance(value, np.ndarray) for value in inputs):
            raise TypeError("Unsupported type <class 'numpy.ndarray'>")
        return _there(getattr(ufunc, method)(*_host(inputs), **_host(how)), *how.get("out", ()))

    def __array_function__(self, function: Any, types: Any, args: Any, how: Any) -> Any:
        return _there(function(*_host(args), **_host(how)), *args)


def _binary(name: str) -> Callable[[ndarray, Any], Any]:
    def apply(self: ndarray, other: Any) -> Any:
        if isinstance(other, np.ndarray) and other.ndim > 0:
            raise TypeError("Unsupported type <class 'numpy.ndarray'>")
        return _there(getattr(self._host, name)(_host(other)))

    return apply


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"):
    for _form in (f"__{_name}__", f"__r{_name}__"):
        setattr(ndarray, _form, _binary(_form))
    setattr(ndarray, f"__i{_name}__", lambda self, other, f=f"__i{_name}__": (
        getattr(self._host, f)(_host(other)), self)[1])  # fmt: skip
for _name in ("eq", "ne", "lt", "le", "gt", "ge", "lshift", "rshift", "matmul"):
    setattr(ndarray, f"__{_name}__", _binary(f"__{_name}__"))
for _name in ("neg", "invert", "abs"):
    _unary = getattr(operator, _name)
    setattr(ndarray, f"__{_name}__", lambda self, f=_unary: _there(f(self._host)))
ndarray.__hash__ = None  # type: ignore[assignment]


def asarray(values: Any, dtype: Any = None, order: str | None = None) -> ndarray:
    if isinstance(values, ndarray):
        host = values._host.astype(dtype or values.dtype, order=order or "K", copy=False)
        return values if host is values._host else asarray(host)
    if hasattr(values, "__cuda_array_interface__"):
        interface = dict(values.__cuda_array_interface__)
        view = np.asarray(type("Raw", (), {"__array_interface__": interface})())
        return ndarray._of(view, values)
    host = np.asarray(_host(values), dtype=dtype, order=order)  # type: ignore[call-overload]
    is_columns = host.flags.f_contiguous and not host.flags.c_contiguous
    made = ndarray(host.shape, host.dtype, order="F" if is_columns else "C")
    made._host[...] = host
    return made


array = asarray


def asnumpy(values: Any) -> np.ndarray:
    return values.get() if isinstance(values, ndarray) else np.asarray(values)


def empty(shape: Any, dtype: Any = float) -> ndarray:
    return ndarray(shape, dtype)


def from_dlpack(values: Any) -> ndarray:
    return asarray(values)


def get_default_memory_pool() -> cuda.MemoryPool:
    return cuda.DEFAULT_POOL


class _Function:
    max_dynamic_shared_size_bytes = 0

    def __init__(self, handle: int) -> None:
        self.kernel = type("Kernel", (), {"ptr": handle})()


class RawModule:
    def __init__(self, code: str, options: tuple[str, ...]) -> None:
        self._code = code

    def compile(self) -> None:
        self._library = compiling.compile_kernels(self._code)
        self._handles = compiling.kernels_of(self._library)

    def get_function(self, name: str) -> _Function:
        return _Function(self._handles[name])


def __getattr__(name: str) -> Any:
    """Every other function is NumPy's, of arrays on the device."""
    function = getattr(np, name)
    if not callable(function) or isinstance(function, type):
        return function
    return lambda *args, **how: _there(function(*_host(args), **_host(how)), *args)
