"""exp, log, sigmoid and the hash: NumPy twin = compiled kernels, bit for bit, and close to libm."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.arithmetic.exact_math import (
    exact_exp,
    exact_log,
    exact_sigmoid,
    hash_key,
    mix64,
    numpy_exp,
    numpy_log,
    numpy_sigmoid,
    numpy_to_gradient,
    row_hash,
)
from bitgrove.backends.base import Targets
from bitgrove.objectives import Regression
from kernel_cases import SIMD, cpu

F64 = NDArray[np.float64]
MASK = 2**64 - 1
PHI = 0x9E3779B97F4A7C15
TINY = float(np.finfo(np.float64).tiny)
EXP_EDGES = [0.0, -0.0, 5e-324, -5e-324, 1e-300, -708.0, 708.0, 709.0, 709.9, -708.5, 1e308, -1e308]
EXP_EDGES += [math.inf, -math.inf, 0.5 * math.log(2), -0.5 * math.log(2)]
LOG_EDGES = [TINY, 1.0, math.nextafter(1, 0), math.nextafter(1, 2), math.sqrt(2), 2.0, 0.5]
LOG_EDGES += [math.nextafter(math.sqrt(2), 2), 1.7976931348623157e308, 5e-324, 1e-310]

numbers = st.floats(-750.0, 750.0) | st.sampled_from(EXP_EDGES) | st.floats(allow_nan=False)
positives = st.floats(min_value=TINY, allow_infinity=False) | st.sampled_from(LOG_EDGES)


def run(kernel: Callable[..., Any], x: F64, simd: int, n_threads: int = 1) -> F64:
    out = np.full_like(x, np.nan)
    kernel(x, out, n_threads, simd)
    return out


def assert_same_bits(a: NDArray[Any], b: NDArray[Any]) -> None:
    assert a.dtype == b.dtype
    assert a.tobytes() == b.tobytes()


def ulps(value: float, exact: float) -> float:
    return abs(value - exact) / math.ulp(exact)


@settings(max_examples=100, deadline=None)
@given(st.lists(numbers, min_size=1, max_size=40))
def test_exp_and_sigmoid_equal_their_twins(values: list[float]) -> None:
    x = np.array(values)
    for simd in SIMD:
        assert_same_bits(run(_core.exp, x, simd), numpy_exp(x))
        assert_same_bits(run(_core.sigmoid, x, simd), numpy_sigmoid(x))


@settings(max_examples=100, deadline=None)
@given(st.lists(positives, min_size=1, max_size=40))
def test_log_equals_its_twin(values: list[float]) -> None:
    x = np.array(values)
    for simd in SIMD:
        assert_same_bits(run(_core.log, x, simd), numpy_log(x))


@pytest.mark.parametrize("simd", SIMD)
@pytest.mark.parametrize("n_threads", [1, 4])
def test_long_arrays_over_threads(simd: int, n_threads: int, rng: np.random.Generator) -> None:
    x = rng.normal(scale=200.0, size=20_011)
    assert_same_bits(run(_core.exp, x, simd, n_threads), numpy_exp(x))
    assert_same_bits(run(_core.sigmoid, x, simd, n_threads), numpy_sigmoid(x))
    assert_same_bits(run(_core.log, np.abs(x) + TINY, simd, n_threads), numpy_log(np.abs(x) + TINY))


def test_exp_is_close_to_libm(rng: np.random.Generator) -> None:
    x = np.concatenate([rng.uniform(-708, 709, 5000), rng.uniform(-2, 2, 5000), [-708.0, 709.0]])
    worst = max(
        ulps(y, math.exp(v)) for v, y in zip(x.tolist(), exact_exp(x).tolist(), strict=True)
    )
    assert worst <= 2.0


def test_log_is_close_to_libm(rng: np.random.Generator) -> None:
    powers = np.ldexp(rng.uniform(1, 2, 4000), rng.integers(-1021, 1023, 4000))
    near_one = 1.0 + rng.normal(size=2000) * np.logspace(-15, -1, 2000)
    x = np.concatenate([powers, near_one[near_one > 0], rng.uniform(0.5, 3, 4000)])
    pairs = zip(x.tolist(), exact_log(x).tolist(), strict=True)
    assert max(ulps(y, math.log(v)) for v, y in pairs) <= 2.5


def test_sigmoid_is_close_to_libm(rng: np.random.Generator) -> None:
    x = rng.uniform(-700, 40, 5000)
    pairs = zip(x.tolist(), exact_sigmoid(x).tolist(), strict=True)
    assert max(ulps(y, 1.0 / (1.0 + math.exp(-v))) for v, y in pairs) <= 3.0


def test_edges_of_exp() -> None:
    # Beyond its range exp stays at the last value: finite, positive and never a denormal.
    x = np.array([-math.inf, -1e308, -709.0, -708.0, 709.0, 710.0, 1e308, math.inf])
    y = exact_exp(x)
    assert len(set(y[:4].tolist())) == 1 and len(set(y[4:].tolist())) == 1
    assert TINY <= y[0] < 1e-307 and 1e307 < y[-1] < math.inf
    assert exact_exp(np.array([0.0, -0.0, 5e-324, -5e-324, 1e-300])).tolist() == [1.0] * 5


def test_edges_of_sigmoid_and_log() -> None:
    p = exact_sigmoid(np.array([-math.inf, -800.0, 0.0, 40.0, 1e300, math.inf]))
    assert p[0] == p[1] > 0.0 and p[2] == 0.5 and p[3:].tolist() == [1.0, 1.0, 1.0]
    assert exact_log(np.array([1.0]))[0] == 0.0
    assert np.all(np.diff(exact_sigmoid(np.linspace(-30, 30, 10_001))) >= 0.0)


def test_shape_is_kept() -> None:
    x = np.linspace(0.1, 3.0, 12).reshape(3, 4)
    for function, twin in ((exact_exp, numpy_exp), (exact_log, numpy_log)):
        assert_same_bits(function(x.T), np.ascontiguousarray(twin(np.ascontiguousarray(x.T))))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
def test_float32_gradients_flush_denormals(values: list[float]) -> None:
    """to_gradient in the compiled loss equals its twin: no denormal, one zero."""
    edges = [1e-45, -1e-45, 1.1754943e-38, 1.17549435e-38, -1.1754942e-38, -0.0, 3.5e38, 1e-30]
    x = np.array(values + edges)
    expected = numpy_to_gradient(x)
    for simd in SIMD:
        targets = Targets(np.zeros_like(x), None, ())
        assert_same_bits(cpu(1, simd).gradients(Regression(), x[None], targets).grad[0], expected)
    small = np.abs(expected) < np.finfo(np.float32).tiny
    assert not np.signbit(expected[small]).any() and not expected[small].any()


def test_hash_is_splitmix64() -> None:
    """The published outputs of splitmix64 from seed 0."""
    known = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert row_hash(0, np.array([1, 2, 3], dtype=np.uint64)).tolist() == known
    assert [mix64((i * PHI) & MASK) for i in (1, 2, 3)] == known


@settings(max_examples=100, deadline=None)
@given(st.integers(0, MASK), st.integers(0, 2**63), st.integers(1, 20))
def test_row_hash_is_the_same_in_python_numpy_and_the_kernel(key: int, first: int, n: int) -> None:
    hashes = [mix64((key + (first + i) * PHI) & MASK) for i in range(n)]
    assert row_hash(key, np.arange(first, first + n, dtype=np.uint64)).tolist() == hashes
    rows = np.empty(1, dtype=np.int32)
    for i, value in enumerate(hashes):
        # The kernel compares with a threshold: exactly one value lies between h and h + 1.
        assert _core.select_rows(key, first + i, value, rows) == 0
        if value < MASK:
            assert _core.select_rows(key, first + i, value + 1, rows) == 1


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**63 - 1), st.lists(st.integers(0, 10**6), min_size=1, max_size=3))
def test_hash_keys_are_64_bits_and_depend_on_every_part(seed: int, parts: list[int]) -> None:
    key = hash_key(seed, *parts)
    assert 0 <= key <= MASK
    assert key == hash_key(seed, *parts)
    others = {hash_key(seed + 1, *parts), hash_key(seed, *parts, 0)}
    others |= {hash_key(seed, *parts[:i], p + 1, *parts[i + 1 :]) for i, p in enumerate(parts)}
    assert key not in others and len(others) == len(parts) + 2


def test_hash_bits_are_balanced() -> None:
    n = 20_000
    hashes = row_hash(hash_key(3, 1), np.arange(n, dtype=np.uint64))
    share = np.array([((hashes >> np.uint64(b)) & np.uint64(1)).mean() for b in range(64)])
    assert np.abs(share - 0.5).max() < 5 * 0.5 / math.sqrt(n)
