"""Gradients to round, and how: what the tests of rounding and of its scales share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends.reference import output_gradients
from bitgrove.data.row_ids import one_run
from bitgrove.distributed import SoloComm
from bitgrove.distributed.comm import Comm
from bitgrove.kernels.plans import ROW_TOTALS, SQUARED_ERROR_UNITS
from bitgrove.params import resolve
from bitgrove.training.quantize import (
    QuantizedGradients,
    quantize,
)
from kernel_cases import unpack_rows

F32 = NDArray[np.float32]
I64 = NDArray[np.int64]
BITS = [2, 3, 4, 5, 6, 7, 8, None]


def run(
    backend: Any,
    grad: F32,
    hess: F32 | None,
    bits: int | None = 4,
    rounding: str = "stochastic",
    key: int = 12345,
    first_row: int = 0,
    scale: str = "max",
    comm: Comm | None = None,
) -> tuple[QuantizedGradients, I64]:
    """The record and its integers, (n, 2)."""
    params = resolve({"gradient_bits": bits, "rounding": rounding, "gradient_scale": scale})
    gradients = output_gradients(grad, hess)
    quantized = quantize(
        backend, gradients, params, key, one_run(len(grad), first_row), comm or SoloComm()
    )
    packed = quantized.packed.values
    integers = packed if packed.ndim == 2 else unpack_rows(packed)
    check_totals(quantized, integers)
    return quantized, integers


def check_totals(quantized: QuantizedGradients, integers: I64) -> None:
    """The totals that travel with packed rows are those of this rank's integers."""
    totals = quantized.packed.totals
    assert totals.dtype == ROW_TOTALS
    grad, hess = integers[:, 0], integers[:, 1]
    zeros = int(((grad == 0) & (hess == 0)).sum())
    sums = (np.abs(grad).sum(), grad.sum(), hess.sum(), zeros)
    assert totals[0].item()[:4] == sums
    is_full = quantized.grad_limit >= 2**15
    assert totals["squared_grad"] == (0 if is_full else (grad**2).sum())
    assert 0 <= totals["squared_error"] <= (0 if is_full else SQUARED_ERROR_UNITS * len(grad))


def facts(q: QuantizedGradients) -> tuple[Any, ...]:
    scales = (q.grad_scale, q.hess_scale, q.grad_limit, q.hess_limit)
    return (*scales, q.abs_grad_sum, q.hess_sum, q.zero_rows, q.rounding_noise)


def example(n: int, seed: int = 0) -> tuple[F32, F32]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=n).astype(np.float32), rng.exponential(size=n).astype(np.float32)


def limits(bits: int | None) -> tuple[int, int]:
    bits = bits or 24
    return 2 ** (bits - 1) - 1, 2**bits - 2


def heavy_tail(n: int, top: float) -> tuple[F32, F32]:
    grad, hess = example(n)
    grad[17] = -top
    return grad, hess
