"""Gradients to integers: the paper's scales, unbiased rounding, limits, and the same everywhere."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitgrove.backends.base import Targets, TreeInputs
from bitgrove.backends.reference import ReferenceBackend, output_gradients
from bitgrove.distributed import run_threads
from bitgrove.distributed.comm import Comm
from bitgrove.errors import TrainingError
from bitgrove.objectives import Regression
from bitgrove.training.quantize import (
    QuantizedGradients,
    Scale,
    row_half_bits,
)
from kernel_cases import SIMD, cpu, one_bin
from one_tree import PLAIN_RULES, root_sums
from rounding_cases import BITS, I64, example, facts, heavy_tail, limits, run


@pytest.mark.parametrize("rounding", ["stochastic", "nearest"])
@pytest.mark.parametrize("bits", BITS)
def test_cpu_equals_reference(bits: int | None, rounding: str) -> None:
    for n, with_hess in ((1, True), (7, False), (8200, True), (8200, False)):
        grad, hess = example(n, seed=n)
        args = (grad, hess if with_hess else None, bits, rounding, 2**64 - n, 2**40 + n)
        expected, integers = run(ReferenceBackend(), *args)
        for simd in SIMD:
            for n_threads in (1, 2):
                quantized, found = run(cpu(n_threads, simd), *args)
                np.testing.assert_array_equal(found, integers)
                assert facts(quantized) == facts(expected)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=30),
    st.sampled_from(BITS),
    st.sampled_from(["max", "robust"]),
    st.integers(0, 2**64 - 1),
)
def test_any_gradients(values: list[float], bits: int | None, scale: str, key: int) -> None:
    grad = np.array(values, dtype=np.float32)
    expected, integers = run(ReferenceBackend(), grad, np.abs(grad), bits, key=key, scale=scale)
    for simd in SIMD:
        quantized, found = run(cpu(1, simd), grad, np.abs(grad), bits, key=key, scale=scale)
        np.testing.assert_array_equal(found, integers)
        assert facts(quantized) == facts(expected)
    assert np.abs(integers[:, 0]).max() <= expected.grad_limit
    assert integers[:, 1].min() >= 0 and integers[:, 1].max() <= expected.hess_limit
    # No integer is a whole unit away from its value: nothing is clipped.
    for column, unit in ((0, expected.grad_scale), (1, expected.hess_scale)):
        exact = (grad if column == 0 else np.abs(grad)).astype(np.float64)
        assert np.all(np.abs(integers[:, column] * unit - exact) <= unit * (1 + 1e-9))


@pytest.mark.parametrize("bits", BITS)
def test_scales_of_the_paper(bits: int | None) -> None:
    grad, hess = example(500)
    quantized, integers = run(cpu(), grad, hess, bits)
    grad_limit, hess_limit = limits(bits)
    assert (quantized.grad_limit, quantized.hess_limit) == (grad_limit, hess_limit)
    assert quantized.grad_scale == float(np.abs(grad).max()) / grad_limit
    assert quantized.hess_scale == float(hess.max()) / hess_limit
    # The largest gradient and hessian take the last level.
    assert abs(integers[np.abs(grad).argmax(), 0]) == grad_limit
    assert integers[hess.argmax(), 1] == hess_limit
    assert np.abs(integers[:, 0]).max() == grad_limit


def test_constant_hessian_is_the_count() -> None:
    grad, _ = example(100)
    for backend in (ReferenceBackend(), cpu()):
        quantized, integers = run(backend, grad, None, 3)
        assert integers[:, 1].tolist() == [1] * 100
        assert (quantized.hess_scale, quantized.hess_limit, quantized.hess_sum) == (1.0, 1, 100)


def test_totals_are_those_of_the_integers() -> None:
    grad, hess = example(3000)
    quantized, integers = run(cpu(2), grad, hess, 2)
    grads, hesses = integers.T.tolist()
    assert quantized.abs_grad_sum == sum(map(abs, grads))
    assert quantized.hess_sum == sum(hesses)
    zeros = sum(g == 0 and h == 0 for g, h in zip(grads, hesses, strict=True))
    assert quantized.zero_rows == zeros > 0


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([2, 3, 4, 5, 8]), st.floats(0.01, 1000.0), st.integers(0, 2**64 - 1))
def test_noise_is_the_variance_that_rounding_adds(bits: int, top: float, key: int) -> None:
    grad, _ = heavy_tail(20_000, top)
    quantized, _ = run(cpu(), grad, None, bits, key=key)
    x = np.abs(grad.astype(np.float64)) / quantized.grad_scale
    part = x - np.floor(x)
    noise = (part * (1.0 - part)).sum()
    assert quantized.rounding_noise == pytest.approx(noise / (noise + (x * x).sum()), abs=0.06)


def test_noise_of_gradients_that_are_integers_zero_or_lost() -> None:
    whole = np.array([3.0, -2.0, 1.0, 0.0], dtype=np.float32)
    assert run(cpu(), whole, None, 3)[0].rounding_noise == 0.0
    assert run(cpu(), 0.0 * whole, None, 3)[0].rounding_noise == 0.0
    assert run(cpu(), whole / 3, None, None)[0].rounding_noise == 0.0  # full precision
    small = np.full(5000, 0.1, dtype=np.float32)
    small[0] = 1.0  # the others are lost by rounding to the nearest
    assert run(cpu(), small, None, 2, "nearest")[0].rounding_noise == 1.0


@pytest.mark.parametrize("simd", SIMD)
def test_nearest_rounds_half_up(simd: int) -> None:
    """RN(x) = floor(x + 1/2): with unit one the integers can be read off."""
    values = [127.0, -127.0, 0.0, 0.5, -0.5, 1.5, -1.5, 0.49, -0.49, -0.51, 2.5, -2.5, 126.5]
    grad = np.array(values, dtype=np.float32)
    hess = np.array([254.0, 0.5, 1.5, 0.25, 253.5, *[0.0] * 8], dtype=np.float32)
    quantized, integers = run(cpu(1, simd), grad, hess, 8, "nearest")
    assert quantized.grad_scale == quantized.hess_scale == 1.0
    assert integers[:, 0].tolist() == [math.floor(v + 0.5) for v in grad.astype(float).tolist()]
    assert integers[:, 1].tolist() == [254, 1, 2, 0, 254, *[0] * 8]


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_stochastic_rounding_takes_a_neighbour(bits: int) -> None:
    grad, hess = example(4000)
    quantized, integers = run(cpu(), grad, hess, bits)
    for column, values, unit in (
        (0, grad, quantized.grad_scale),
        (1, hess, quantized.hess_scale),
    ):
        below = np.floor(values.astype(np.float64) * (1.0 / unit))
        assert set(np.unique(integers[:, column] - below)) == {0.0, 1.0}


def test_integers_are_not_rounded() -> None:
    """A value on the grid stays there, whatever the noise."""
    grad = np.array([7, -7, 3, -3, 0, 1, -1], dtype=np.float32)
    hess = np.array([14, 0, 1, 2, 3, 7, 13], dtype=np.float32)
    for key in range(200):
        _, integers = run(cpu(), grad, hess, 4, key=key)
        np.testing.assert_array_equal(integers, np.stack([grad, hess], axis=1))


def test_full_precision_is_not_random() -> None:
    grad, hess = example(1000)
    _, a = run(cpu(), grad, hess, None, key=1)
    _, b = run(cpu(), grad, hess, None, key=2)
    np.testing.assert_array_equal(a, b)


@settings(max_examples=30, deadline=None)
@given(st.floats(-1.0, 1.0, width=32), st.floats(0.0, 1.0, width=32), st.integers(0, 2**64 - 1))
def test_unbiased_over_rows(x: float, h: float, key: int) -> None:
    n = 20_000
    grad = np.full(n, x, dtype=np.float32)
    hess = np.full(n, h, dtype=np.float32)
    grad[0] = hess[0] = 1.0  # sets the scales
    quantized, integers = run(cpu(), grad, hess, 3, key=key)
    for column, value, unit in (
        (0, x, quantized.grad_scale),
        (1, h, quantized.hess_scale),
    ):
        scaled = value / unit
        up = scaled - math.floor(scaled)
        # Six standard errors, and the little by which the noise falls short of one.
        tolerance = 6 * math.sqrt(up * (1 - up) / n) + 20 / n
        assert abs(integers[1:, column].mean() - scaled) <= tolerance


def test_unbiased_over_keys() -> None:
    """One row, many trees: the mean of its integer approaches its value."""
    grad = np.array([1.0, 0.3, -0.3, 0.77], dtype=np.float32)
    n = 4000
    samples = np.array([run(cpu(), grad, None, 2, key=key)[1][:, 0] for key in range(n)])
    exact = grad.astype(np.float64)
    up = exact - np.floor(exact)
    error = np.abs(samples.mean(axis=0) - exact)
    assert np.all(error <= 6 * np.sqrt(up * (1 - up) / n))
    assert np.all(samples.std(axis=0)[1:] > 0.1)


def test_noise_of_gradient_and_hessian_is_independent() -> None:
    n = 40_000
    grad = np.full(n, 0.5, dtype=np.float32)
    grad[0] = 1.0
    hess = np.full(n, 0.25, dtype=np.float32)
    hess[0] = 1.0  # half a unit again: the integers are coin tosses
    _, integers = run(cpu(), grad, hess, 2)
    g, h = integers[1:, 0], integers[1:, 1]
    assert abs(np.corrcoef(g, h)[0, 1]) < 6 / math.sqrt(n)
    assert abs(np.corrcoef(g[1:], g[:-1])[0, 1]) < 6 / math.sqrt(n)  # and that of neighbours


@pytest.mark.parametrize("scale", ["max", "robust"])
@pytest.mark.parametrize("backend", [ReferenceBackend(), cpu(2)], ids=["reference", "cpu"])
def test_shards_round_as_the_whole(backend: Any, scale: str) -> None:
    grad, hess = example(1001)
    grad[700] = 300.0
    whole, integers = run(backend, grad, hess, 3, scale=scale, first_row=5)
    borders = [0, 100, 100, 900, 1001]  # one rank holds nothing

    def work(comm: Comm) -> tuple[QuantizedGradients, I64]:
        mine = slice(borders[comm.rank], borders[comm.rank + 1])
        first = 5 + borders[comm.rank]
        return run(backend, grad[mine], hess[mine], 3, first_row=first, scale=scale, comm=comm)

    parts = run_threads(4, work)
    np.testing.assert_array_equal(np.concatenate([p[1] for p in parts]), integers)
    assert {facts(p[0]) for p in parts} == {facts(whole)}


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("scale", ["max", "robust"])
def test_all_zero(bits: int | None, scale: str) -> None:
    zeros = np.zeros(50, dtype=np.float32)
    zeros[::2] = -0.0
    for backend in (ReferenceBackend(), cpu()):
        quantized, integers = run(backend, zeros, np.abs(zeros), bits, scale=scale)
        assert not integers.any()
        assert (quantized.grad_scale, quantized.hess_scale) == (0.0, 0.0)
        assert (quantized.abs_grad_sum, quantized.hess_sum, quantized.zero_rows) == (0, 0, 50)
    assert Scale(0.0, 7).inverse == 0.0


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("top", [1.4e-45, 1e-40, 1.1754944e-38, 3.4e38])
def test_smallest_and_largest_floats(bits: int | None, top: float) -> None:
    grad = np.array([top, -top, top / 2, 0.0], dtype=np.float32)
    reference, expected = run(ReferenceBackend(), grad, np.abs(grad), bits, "nearest")
    quantized, integers = run(cpu(), grad, np.abs(grad), bits, "nearest")
    np.testing.assert_array_equal(integers, expected)
    assert facts(quantized) == facts(reference)
    grad_limit, hess_limit = limits(bits)
    assert integers[:2].tolist() == [[grad_limit, hess_limit], [-grad_limit, hess_limit]]
    assert integers[3].tolist() == [0, 0]


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("backend", [ReferenceBackend(), cpu()], ids=["reference", "cpu"])
def test_overflow_is_an_error(backend: Any, bad: float) -> None:
    grad, hess = example(10)
    spoiled = grad.copy()
    spoiled[3] = bad
    with pytest.raises(TrainingError, match="gradients overflowed"):
        run(backend, spoiled, hess)
    with pytest.raises(TrainingError, match="hessians overflowed"):
        run(backend, grad, np.abs(spoiled))


def test_magnitudes() -> None:
    """Bounds read from bit patterns: exact, and the same on every backend."""
    grad, _ = heavy_tail(9000, 1e30)
    grad[:4] = [0.0, 0.0, 1e-30, -3.4e38]
    expected = output_gradients(grad, None).magnitudes
    assert expected["grad_top"].view(np.float32) == np.abs(grad).max()
    assert expected["grad_logs"] == sum(int(b) >> 20 for b in np.abs(grad).view(np.uint32))
    assert expected["grad_rows"] == np.count_nonzero(grad)
    assert expected["hess_top"] == expected["hess_logs"] == expected["hess_rows"] == 0
    targets = Targets(np.zeros(9000), None, ())  # gradients of squared error are the scores then
    for simd in SIMD:
        for n_threads in (1, 4):
            backend, scores = cpu(n_threads, simd), grad.astype(np.float64)[None]
            found = backend.gradients(Regression(), scores, targets).output(0)
            assert found.grad.tobytes() == grad.tobytes()
            assert found.magnitudes == expected


@pytest.mark.parametrize("simd", SIMD)
@pytest.mark.parametrize("bits", [2, 8, None])
def test_row_sums(bits: int | None, simd: int) -> None:
    n = 20_000
    grad, hess = example(n)
    quantized, integers = run(cpu(), grad, hess, bits)
    case, reference = one_bin(n), ReferenceBackend()
    pool = reference.new_pool(case.reference, 2, 64)
    for rows in (np.arange(n)[:-1], np.arange(n)[:0:-1], np.arange(0, n, 3), np.zeros(0)):
        listed = rows.astype(np.int32)
        expected = tuple(int(s) for s in integers[listed].sum(axis=0))
        for n_threads in (1, 2):
            backend = cpu(n_threads, simd)
            cpu_pool = backend.new_pool(case.cpu, 2, 64)
            assert root_sums(backend, cpu_pool, quantized.packed.values, listed) == expected
        assert root_sums(reference, pool, integers, listed) == expected
    # Of all rows nothing is summed again: a tree takes what rounding found.
    rows = np.arange(n, dtype=np.int32)
    inputs = TreeInputs(quantized.packed, rows, np.ones(1, np.uint8), PLAIN_RULES, False)
    assert cpu().start_tree(cpu_pool, inputs).root[:2] == tuple(integers.sum(axis=0))


@pytest.mark.parametrize(
    ("grad_limit", "hess_limit", "half_bits"),
    [
        (1, 1, 8),
        (127, 255, 8),
        (128, 255, 16),
        (127, 256, 16),
        (32767, 65535, 16),
        (32768, 1, 32),
        (1, 65536, 32),
        (2**23 - 1, 2**24 - 2, 32),
    ],
)
def test_row_half_bits(grad_limit: int, hess_limit: int, half_bits: int) -> None:
    assert row_half_bits(grad_limit, hess_limit) == half_bits
