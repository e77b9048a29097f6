"""The robust scale: an outlier takes larger integers, and the bulk keeps its bits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bitgrove.training.quantize import (
    row_half_bits,
)
from kernel_cases import cpu
from rounding_cases import BITS, example, facts, heavy_tail, limits, run


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_robust_scale_keeps_the_bulk(bits: int) -> None:
    """One outlier: with the plain scale almost all rows are zero, with the robust one few are."""
    grad, hess = heavy_tail(5000, 1000.0)
    plain, rough = run(cpu(), grad, hess, bits, "nearest")
    robust, fine = run(cpu(), grad, hess, bits, "nearest", scale="robust")
    assert plain.grad_limit == limits(bits)[0]
    assert (rough[:, 0] == 0).sum() > (fine[:, 0] == 0).sum()
    # The unit comes from a bound that holds 99.9 % of the rows, not more than a bucket above it.
    inside = robust.grad_scale * limits(bits)[0]
    magnitude = np.abs(grad.astype(np.float64))
    assert (magnitude <= inside).mean() >= 0.999
    assert inside <= 2 * np.quantile(magnitude, 0.9995)
    # The outlier became a larger integer, not a clipped one.
    assert robust.grad_limit == min(2**15 - 1, math.ceil(1000.0 / robust.grad_scale))
    assert abs(fine[17, 0] * robust.grad_scale + 1000.0) <= robust.grad_scale
    # The hessians have no such tail; theirs is the plain scale.
    assert (robust.hess_scale, robust.hess_limit) == (plain.hess_scale, plain.hess_limit)


def test_robust_scale_is_unbiased_for_the_outlier() -> None:
    grad, _ = heavy_tail(2000, 777.7)
    n = 400
    runs = [run(cpu(), grad, None, 2, key=key, scale="robust") for key in range(n)]
    unit = runs[0][0].grad_scale
    mean = np.mean([integers[17, 0] for _, integers in runs])
    assert abs(mean + float(np.float32(777.7)) / unit) <= 6 * 0.5 / math.sqrt(n)


def test_robust_scale_of_an_extreme_outlier() -> None:
    grad, hess = heavy_tail(5000, 1e30)
    quantized, integers = run(cpu(), grad, hess, 4, scale="robust")
    assert quantized.grad_limit == 2**15 - 1
    assert integers[17, 0] == -(2**15 - 1)
    assert row_half_bits(quantized.grad_limit, quantized.hess_limit) == 16
    assert quantized.packed.values.dtype == np.int32


@pytest.mark.parametrize("bits", BITS)
def test_robust_scale_is_the_plain_one_without_a_tail(bits: int | None) -> None:
    grad, hess = example(5000)
    expected, integers = run(cpu(), grad, hess, bits)
    quantized, found = run(cpu(), grad, hess, bits, scale="robust")
    np.testing.assert_array_equal(found, integers)
    assert facts(quantized) == facts(expected)


def test_full_precision_ignores_the_robust_scale() -> None:
    grad, hess = heavy_tail(5000, 1e6)
    expected, _ = run(cpu(), grad, hess, None)
    quantized, _ = run(cpu(), grad, hess, None, scale="robust")
    assert facts(quantized) == facts(expected)
