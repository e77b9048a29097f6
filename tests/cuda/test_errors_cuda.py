"""What is wrong with a machine is said in one sentence; these run without a GPU."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from bitgrove.backends.cuda.memory import DeviceMemory, Pool
from bitgrove.backends.cuda.module import Kernels
from bitgrove.errors import DeviceMemoryError, ParameterError, TrainingError
from bitgrove.machine.gpu import find_device
from bitgrove.params import resolve


class Broken(RuntimeError):
    pass


def fake_cupy(n_devices: Any, **more: Any) -> Any:
    def count() -> int:
        if isinstance(n_devices, Exception):
            raise n_devices
        return int(n_devices)

    runtime = SimpleNamespace(
        getDeviceCount=count,
        getDevice=lambda: 0,
        CUDARuntimeError=Broken,
        memGetInfo=lambda: (2**30, 2**31),
    )
    pool = SimpleNamespace(free_all_blocks=lambda: None)
    return SimpleNamespace(
        __version__="0",
        cuda=SimpleNamespace(runtime=runtime, MemoryPool=lambda: pool, **more),
        get_default_memory_pool=lambda: pool,
    )


def use(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    monkeypatch.setitem(sys.modules, "cupy", module)


def test_no_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, None)  # importing it fails
    with pytest.raises(ParameterError, match=r"pip install 'bitgrove\[cuda\]'"):
        find_device("cuda")


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, fake_cupy(Broken("cudaErrorInsufficientDriver")))
    with pytest.raises(ParameterError, match=r"driver does not answer.*InsufficientDriver"):
        find_device("cuda")


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, fake_cupy(0))
    with pytest.raises(ParameterError, match="no GPU found"):
        find_device("cuda")
    use(monkeypatch, fake_cupy(2))
    assert [find_device(name) for name in ("cuda", "cuda:0", "cuda:1")] == [0, 0, 1]
    with pytest.raises(ParameterError, match="'cuda:2': there are 2 GPUs, numbered from 0 to 1"):
        find_device("cuda:2")


@pytest.mark.parametrize("name", ["cuda:", "cuda:N", "cuda:-1", "cuda1", "gpu"])
def test_bad_names(name: str) -> None:
    with pytest.raises(ParameterError, match="device="):
        resolve({"device": name})


class OneDevice(nullcontext[None]):
    id = 0


def test_not_enough_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bitgrove.backends.cuda.memory.POOL", Pool())
    memory = DeviceMemory(fake_cupy(1, Device=OneDevice))
    memory.require(2**30, "this")
    with pytest.raises(DeviceMemoryError, match=r"this needs about 1\.5 GiB.*1\.0 are free"):
        memory.require(3 * 2**29, "this")
    assert issubclass(DeviceMemoryError, (MemoryError, TrainingError))


def test_kernel_that_does_not_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    class CompileException(Exception):
        pass

    class Module:
        def __init__(self, **_: Any) -> None: ...

        def compile(self) -> None:
            raise CompileException("expected a ;")

    class Device:
        def __init__(self, _: int) -> None: ...

        def __enter__(self) -> None: ...

        def __exit__(self, *_: Any) -> None: ...

    compiler = SimpleNamespace(CompileException=CompileException)
    cupy = fake_cupy(1, compiler=compiler, Device=Device)
    cupy.RawModule = Module
    use(monkeypatch, cupy)
    with pytest.raises(TrainingError, match=r"split\.cu does not compile.*expected a ;"):
        Kernels(0).get("split", "find_splits_32", 256)
