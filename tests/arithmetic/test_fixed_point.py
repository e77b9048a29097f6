"""Fixed-point sums: exact, and the same for every order of rows and every way to deal them."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bitgrove.arithmetic.fixed_point import (
    fixed_point_sums,
    to_float,
    unit_exponent,
)
from bitgrove.backends.reference import ReferenceBackend
from bitgrove.distributed import SoloComm, run_threads
from bitgrove.distributed.comm import Comm
from kernel_cases import SIMD, cpu, one_bin
from one_tree import leaf_sums, start_tree

F64 = NDArray[np.float64]
finite = st.floats(-1e38, 1e38, allow_nan=False)


def total_of(values: F64) -> float:
    return float(fixed_point_sums([values], SoloComm())[0])


def exact_sum(values: list[float]) -> tuple[Fraction, Fraction]:
    """(the sum of the rounded values, the unit they were rounded to)."""
    exponent = unit_exponent(max(map(abs, values), default=0.0), len(values))
    unit = Fraction(2) ** -exponent
    return sum((round(Fraction(v) / unit) for v in values), start=0) * unit, unit


@settings(max_examples=100, deadline=None)
@given(st.lists(finite, min_size=1, max_size=50))
def test_sum_is_exact(values: list[float]) -> None:
    rounded, unit = exact_sum(values)
    total = total_of(np.array(values))
    assert Fraction(total) == Fraction(float(rounded))  # the one rounding, at the end
    assert abs(rounded - sum(map(Fraction, values))) <= len(values) * unit / 2
    # A value keeps 49 bits or more: far more than a float32 gradient has.
    top = max(map(abs, values))
    assert top == 0.0 or unit <= Fraction(top) / 2**49


@settings(max_examples=60, deadline=None)
@given(st.lists(finite, min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_order_does_not_matter(values: list[float], random: object) -> None:
    total = total_of(np.array(values))
    shuffled = values.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert total_of(np.array(shuffled)) == total


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(finite, finite), min_size=1, max_size=40),
    st.integers(2, 4),
    st.integers(0, 2**32 - 1),
)
def test_ranks_do_not_matter(pairs: list[tuple[float, float]], n_ranks: int, seed: int) -> None:
    table = np.array(pairs).T
    owner = np.random.default_rng(seed).integers(n_ranks, size=table.shape[1])
    alone = fixed_point_sums(table, SoloComm())

    def work(comm: Comm) -> F64:
        return fixed_point_sums(table[:, owner == comm.rank], comm)

    for sums in run_threads(n_ranks, work):  # a rank may hold nothing at all
        assert sums.tobytes() == alone.tobytes()


def test_a_float_sum_would_depend_on_order() -> None:
    """The tests above can fail: plain float addition gives two answers here."""
    values = [1e16, 1.0, -1e16, 1.0]
    # Not sum(), which mends rounding since Python 3.12.
    assert reduce(add, values) != reduce(add, sorted(values))
    totals = {total_of(np.array(v)) for v in (values, sorted(values))}
    assert len(totals) == 1


@settings(max_examples=100, deadline=None)
@given(st.floats(5e-324, 1.7e308), st.integers(1, 2**40))
def test_the_unit_leaves_room(bound: float, n: int) -> None:
    exponent = unit_exponent(bound, n)
    largest = round(Fraction(bound) * Fraction(2) ** exponent)
    assert largest <= 2**50
    assert n * largest < 2**62
    # and it wastes at most a few bits of either range
    assert largest >= 2**48 or 4 * (n + 1) * (largest + 1) >= 2**62


@pytest.mark.parametrize("n", [1, 4095, 4096, 4097, 50_000])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("value", [1.0, math.nextafter(2.0, 0.0), 5e-324, 1e38])
def test_no_overflow_at_the_bound(n: int, sign: float, value: float) -> None:
    """All values at the maximum: the sum is n times the value, not a wrapped integer."""
    total = total_of(np.full(n, sign * value))
    assert total == pytest.approx(sign * n * value, rel=1e-13)
    unit = Fraction(2) ** -unit_exponent(value, n)
    assert total == float(n * round(Fraction(sign * value) / unit) * unit)


def test_zeros_and_nothing() -> None:
    assert total_of(np.zeros(5)) == 0.0
    assert fixed_point_sums(np.zeros((3, 0)), SoloComm()).tolist() == [0.0] * 3
    assert unit_exponent(0.0, 10) == 0 and unit_exponent(1.0, 0) == 0


@settings(max_examples=60, deadline=None)
@given(st.integers(-(2**62), 2**62), st.integers(-900, 900))
def test_to_float_rounds_correctly(total: int, exponent: int) -> None:
    assert to_float(total, exponent) == float(Fraction(total) / Fraction(2) ** exponent)


@pytest.mark.parametrize("with_hess", [True, False])
@pytest.mark.parametrize("simd", SIMD)
@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_leaf_sums_kernel(
    n_threads: int, simd: int, with_hess: bool, rng: np.random.Generator
) -> None:
    """Sums of a leaf's original gradients: reference = cpu = Python, whatever the row order."""
    n = 30_000
    grad = (rng.normal(size=n) * 10.0 ** rng.integers(-12, 3, size=n)).astype(np.float32)
    hess = rng.exponential(size=n).astype(np.float32) if with_hess else None
    borders = np.array([0, 0, 1, 9000, 9001, n])  # an empty leaf and one that spans blocks
    begins, ends = borders[:-1].copy(), borders[1:].copy()
    rows = rng.permutation(n).astype(np.int32)
    units = tuple(
        2.0 ** unit_exponent(float(np.abs(v).max()), n) if v is not None else 1.0
        for v in (grad, hess)
    )

    case = one_bin(n)

    def sums_of(backend: Any, matrix: Any, listed: NDArray[np.int32]) -> NDArray[np.int64]:
        packed = np.zeros(n, dtype=np.int16) if backend.name == "cpu" else np.zeros((n, 2), int)
        work = start_tree(backend, backend.new_pool(matrix, 2, 32), packed, listed.copy())
        return leaf_sums(work, (begins, ends), (grad, hess), units)

    sums = sums_of(cpu(n_threads, simd), case.cpu, rows)
    expected = sums_of(ReferenceBackend(), case.reference, rows)
    np.testing.assert_array_equal(sums, expected)
    mine = rows[1:9000]
    assert sums[2, 0] == sum(round(Fraction(v) * Fraction(units[0])) for v in grad[mine].tolist())
    shuffled = rows.copy()
    shuffled[1:9000] = rng.permutation(mine)
    again = sums_of(cpu(n_threads, simd), case.cpu, shuffled)
    np.testing.assert_array_equal(again, sums)


@pytest.mark.parametrize("n", [4095, 4096, 40_000])
def test_leaf_sums_kernel_at_the_bound(n: int) -> None:
    top = np.nextafter(np.float32(2.0), np.float32(0.0))
    grad = np.full(n, -top, dtype=np.float32)
    unit = 2.0 ** unit_exponent(float(top), n)
    rows = np.arange(n, dtype=np.int32)
    backend = cpu(2)
    pool = backend.new_pool(one_bin(n).cpu, 2, 32)
    work = start_tree(backend, pool, np.zeros(n, dtype=np.int16), rows)
    sums = leaf_sums(work, (np.array([0]), np.array([n])), (grad, -grad), (unit, unit))
    largest = round(Fraction(float(top)) * Fraction(unit))
    assert sums.tolist() == [[-n * largest, n * largest]]
    assert 2**60 < n * largest < 2**62
