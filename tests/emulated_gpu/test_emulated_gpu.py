"""What the emulated GPU itself promises: without that, tests on it would say little."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from bitgrove import _core

cupy = pytest.importorskip("cupy")
if "emulated" not in cupy.__version__:
    pytest.skip("a real CuPy is installed", allow_module_level=True)

SOURCE = """
#include_layouts
extern "C" __global__ void reverse(int64_t* values) {
  extern __shared__ __align__(16) int64_t all[];
  all[threadIdx.x] = values[threadIdx.x];
  __syncthreads();
  values[threadIdx.x] = all[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void neighbours(int64_t* values) {
  const int64_t mine = values[threadIdx.x];
  const int64_t left = __shfl_up_sync(0xFFFFFFFFu, mine, 1);
  const unsigned odd = __ballot_sync(0xFFFFFFFFu, mine % 2 != 0);
  values[threadIdx.x] = 1000 * left + __popc(odd);
}
extern "C" __global__ void wait_for_half(int64_t* values) {
  if (threadIdx.x < 16) __syncwarp();
  else __syncthreads();
}
extern "C" __global__ void past_the_end(int64_t* values) { values[blockDim.x] = 1; }
""".replace("#include_layouts", "typedef long long int64_t;")


def launched(kernel: str, values: Any, threads: int, shared_bytes: int = 0) -> Any:
    module = cupy.RawModule(code=SOURCE, options=())
    module.compile()
    handle = int(module.get_function(kernel).kernel.ptr)
    there = cupy.asarray(values)
    _core.Stream(0).launch(_core.Kernel(handle, threads, shared_bytes), (1, 1), there.data.ptr)
    return cupy.asnumpy(there)


def test_threads_wait_for_each_other() -> None:
    values = np.arange(64, dtype=np.int64)
    assert launched("reverse", values, 64, 512).tolist() == values[::-1].tolist()


def test_lanes_hear_each_other() -> None:
    values = np.arange(64, dtype=np.int64)
    left = np.where(values % 32 == 0, values, values - 1)
    assert launched("neighbours", values, 64).tolist() == (1000 * left + 16).tolist()


def test_waiting_for_ever_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="a kernel failed on the GPU"):
        launched("wait_for_half", np.zeros(32, dtype=np.int64), 32)
    assert "wait_for_half: threads of a block wait for each other" in capfd.readouterr().err


@pytest.mark.parametrize("order", ["backward", "mixed"])
def test_any_order_of_threads(order: str) -> None:
    """Unwritten memory, other orders and what lies past the end: in a process of its own."""
    words = [sys.executable, "-m", "pytest", "-k", "hear or wait_for_each", __file__]
    done = subprocess.run(words, env={**os.environ, "EMULATED_ORDER": order}, capture_output=True)
    assert done.returncode == 0, done.stdout.decode()


def test_writing_past_the_end_ends_the_process() -> None:
    code = (
        "import numpy as np; from test_emulated_gpu import launched; "
        "launched('past_the_end', np.zeros(32, dtype=np.int64), 32)"
    )
    folder = os.path.dirname(__file__)
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True)
    assert done.returncode < 0  # by a signal


def test_arrays_of_the_device_stay_there() -> None:
    there = cupy.asarray(np.arange(6.0).reshape(2, 3))
    with pytest.raises(TypeError, match="Implicit conversion"):
        np.asarray(there)
    with pytest.raises(TypeError):
        there + np.ones((2, 3))
    row = there[1]
    row += 1.0  # a view
    assert cupy.asnumpy(there).tolist() == [[0.0, 1.0, 2.0], [4.0, 5.0, 6.0]]
    assert float(cupy.exp(there).max()) == np.exp(6.0)
