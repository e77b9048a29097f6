"""The width planner: what it allows cannot overflow, and one row more would not be allowed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitgrove.training.histograms import (
    ALL_ROWS,
    BLOCK_ROWS,
    LOCAL_WIDTHS,
    TOTAL_WIDTHS,
    WidthPlan,
    half_range,
)
from bitgrove.training.quantize import QuantizedGradients, row_half_bits
from kernel_cases import cpu, dirty_pool, one_bin, pack_rows, read_slot
from one_tree import build

MANY_ROWS = 2**31
LIMITS = [(1, 1), (1, 2), (3, 6), (7, 14), (127, 254), (5, 1), (1, 200)]
WIDE_LIMITS = [(2**15 - 1, 1), (2**15 - 1, 2**15 - 1), (2**23 - 1, 2**24 - 2), (2**23 - 1, 1)]


def plan_of(
    grad_limit: int, hess_limit: int, abs_grad_sum: int | None = None, hess_sum: int | None = None
) -> WidthPlan:
    """A plan from the limits and sums of rows at the limit, by default of very many."""
    abs_grad = MANY_ROWS * grad_limit if abs_grad_sum is None else abs_grad_sum
    hess = MANY_ROWS * hess_limit if hess_sum is None else hess_sum
    n_rows = max(abs_grad // grad_limit, hess // hess_limit)
    return WidthPlan(
        QuantizedGradients(None, 1.0, 1.0, grad_limit, hess_limit, abs_grad, hess, 0), n_rows
    )


def fits(grad_sum: int, hess_sum: int, width: int) -> bool:
    grad_range, hess_range = half_range(width)
    return grad_sum <= grad_range and hess_sum <= hess_range


def built_sum(
    grad: int, hess: int, n_rows: int, step: tuple[int, int, int], packing: bool, n_threads: int = 1
) -> tuple[int, int]:
    """The kernels' sum of n_rows equal rows in one bin; step is (local, total, block rows)."""
    half_bits = row_half_bits(abs(grad), hess)
    rows = np.repeat(pack_rows([grad], [hess], half_bits), n_rows)
    backend = cpu(n_threads, packed=packing)
    pool = dirty_pool(backend, one_bin(n_rows).cpu, 1)
    build(backend, pool, rows, np.arange(n_rows, dtype=np.int32), (0, n_rows, 0, *step))
    return read_slot(pool, 0, step[1], 1)[0]


def provable() -> list[tuple[tuple[int, int], int]]:
    """Limits and widths whose largest number of rows can be tried."""
    return [
        (limits, width)
        for limits in LIMITS + WIDE_LIMITS
        for width in (8, 16, 32)
        if 0 < plan_of(*limits).rows_that_fit(width) <= 70_000
    ]


def test_every_width_is_tried() -> None:
    assert {width for _, width in provable()} == {8, 16, 32}


def test_ranges() -> None:
    assert half_range(8) == (127, 255)
    assert half_range(16) == (32767, 65535)
    assert half_range(32) == (2**31 - 1, 2**32 - 1)
    assert half_range(64) == (2**63 - 1, 2**63 - 1)


@pytest.mark.parametrize("packing", [True, False])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("limits", "width"), provable())
def test_kernels_at_the_proven_limit(
    limits: tuple[int, int], width: int, sign: int, packing: bool
) -> None:
    """As many rows as fit, all in one bin, all at the limit: the accumulator holds their sum."""
    grad, hess = limits
    n_rows = plan_of(grad, hess).rows_that_fit(width)
    expected = (sign * grad * n_rows, hess * n_rows)
    for total in TOTAL_WIDTHS:
        if total >= width:  # as a local accumulator, and as the total itself
            step = (width, total, n_rows)
            assert built_sum(sign * grad, hess, n_rows, step, packing) == expected
    # hessians at the limit beside gradients at zero, and the other way round
    step = (width, max(width, 16), n_rows)
    assert built_sum(0, hess, n_rows, step, packing) == (0, hess * n_rows)
    assert built_sum(sign * grad, 0, n_rows, step, packing) == (sign * grad * n_rows, 0)


@pytest.mark.parametrize("limits", LIMITS + WIDE_LIMITS)
def test_the_limit_is_tight(limits: tuple[int, int]) -> None:
    """rows_that_fit is the largest number that cannot overflow, to the row."""
    grad, hess = limits
    plan = plan_of(grad, hess)
    for width in LOCAL_WIDTHS:
        n = plan.rows_that_fit(width)
        assert fits(n * grad, n * hess, width)
        assert not fits((n + 1) * grad, (n + 1) * hess, width)


@pytest.mark.parametrize("limits", LIMITS + WIDE_LIMITS)
def test_one_row_past_the_limit_takes_a_wider_total(limits: tuple[int, int]) -> None:
    plan = WidthPlan(QuantizedGradients(None, 1.0, 1.0, *limits, 2**80, 2**80, 0), MANY_ROWS)
    for width, wider in ((16, 32), (32, 64)):
        n = plan.rows_that_fit(width)
        if n > plan.rows_that_fit(width // 2):
            assert plan.total_width(n) == width
            assert plan.total_width(n + 1) == wider
    n = min(plan.rows_that_fit(64), ALL_ROWS)
    assert plan.total_width(n) == 64
    with pytest.raises(OverflowError, match="overflow 64-bit sums"):
        plan.total_width(n + 1)


@pytest.mark.parametrize("limits", LIMITS + WIDE_LIMITS)
def test_sums_are_as_wide_as_rows(limits: tuple[int, int]) -> None:
    """Even where the sums of all rows, which are known, would fit fewer bits than a row may."""
    plan, row_bits = plan_of(*limits, abs_grad_sum=1, hess_sum=1), row_half_bits(*limits)
    for n_rows in (1, 1000):
        total = plan.total_width(n_rows)
        assert row_bits <= plan.local(n_rows, total)[0] <= total


@pytest.mark.parametrize("limits", LIMITS + WIDE_LIMITS)
def test_local_blocks_never_hold_more_rows_than_fit(limits: tuple[int, int]) -> None:
    plan = plan_of(*limits)
    for n_rows in (0, 1, 2, 100, 1023, 1024, 1025, 8192, 10**6):
        total = plan.total_width(n_rows)
        width, block = plan.local(n_rows, total)
        assert width <= total and 1 <= block <= BLOCK_ROWS
        assert min(n_rows, block) <= plan.rows_that_fit(width)
    # One row past what 8 bits hold, a node's accumulator is wider or its block is smaller.
    n = plan.rows_that_fit(8)
    width, block = plan.local(n + 1, 32)
    assert width > 8 or block <= n


def test_small_sums_fit_whatever_the_rows() -> None:
    """Rows that rounded to zero cost no width: the sums of the whole data decide."""
    plan = plan_of(7, 14, abs_grad_sum=127, hess_sum=255)
    assert plan.total_width(10**9) == 16
    assert plan.local(10**9, 16) == (8, BLOCK_ROWS)
    assert plan_of(7, 14, abs_grad_sum=32767, hess_sum=65535).total_width(10**9) == 16
    assert plan_of(7, 14, abs_grad_sum=32768, hess_sum=65535).total_width(10**9) == 32
    assert plan_of(7, 14, abs_grad_sum=32767, hess_sum=65536).total_width(10**9) == 32
    assert plan_of(7, 14, abs_grad_sum=2**31, hess_sum=65536).total_width(10**9) == 64
    # All gradients are zero: nothing can overflow.
    assert plan_of(7, 14, abs_grad_sum=0, hess_sum=0).total_width(2**62) == 16


@pytest.mark.parametrize("packing", [True, False])
@pytest.mark.parametrize("sign", [1, -1])
def test_kernels_at_the_limit_of_the_whole_data(sign: int, packing: bool) -> None:
    """127 in 127 of 20,000 rows: 8-bit accumulators over full blocks."""
    n_rows = 20_000
    grad, hess = np.zeros(n_rows, dtype=int), np.zeros(n_rows, dtype=int)
    grad[100:6000:47] = sign
    hess[5:5105:20] = 1
    assert np.abs(grad).sum() <= 127 and hess.sum() == 255
    plan = plan_of(1, 1, abs_grad_sum=int(np.abs(grad).sum()), hess_sum=255)
    width, block = plan.local(n_rows, plan.total_width(n_rows))
    assert (width, block) == (8, BLOCK_ROWS)
    backend = cpu(packed=packing)
    pool = dirty_pool(backend, one_bin(n_rows).cpu, 1)
    listed = np.arange(n_rows, dtype=np.int32)
    build(backend, pool, pack_rows(grad, hess, 8), listed, (0, n_rows, 0, 8, 16, block))
    assert read_slot(pool, 0, 16, 1) == [(int(grad.sum()), 255)]


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 2**23 - 1) | st.integers(1, 127),
    st.integers(1, 2**24 - 2) | st.integers(1, 254),
    st.integers(0, 2**40) | st.integers(0, 70_000),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
)
def test_no_plan_allows_an_overflow(
    grad: int, hess: int, n_all: int, grad_share: float, hess_share: float, row_share: float
) -> None:
    """Random limits, sums and nodes: the worst case of every chosen width is inside its halves."""
    abs_grad_sum, hess_sum = int(grad_share * n_all * grad), int(hess_share * n_all * hess)
    plan = plan_of(grad, hess, abs_grad_sum, hess_sum)
    n_rows = int(row_share * n_all)
    total = plan.total_width(n_rows)
    worst = (min(n_rows * grad, abs_grad_sum), min(n_rows * hess, hess_sum))
    assert fits(*worst, total)
    local, block = plan.local(n_rows, total)
    in_block = min(n_rows, block)
    worst = (min(in_block * grad, abs_grad_sum), min(in_block * hess, hess_sum))
    assert fits(*worst, local)
    assert local <= total and 1 <= block <= BLOCK_ROWS
    # The total is the narrowest that is proven by the row count or by the sums, and holds a row.
    for narrower in (w for w in TOTAL_WIDTHS if w < total and fits(grad, hess, w)):
        assert not fits(n_rows * grad, n_rows * hess, narrower)
        assert not fits(abs_grad_sum, hess_sum, narrower)
    # A smaller node never takes a wider total.
    assert plan.total_width(n_rows // 2) <= total


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 200),
    st.integers(1, 400),
    st.integers(1, 12_000),
    st.sampled_from([1, -1]),
    st.booleans(),
    st.sampled_from([1, 2]),
)
def test_planned_kernels_equal_python(
    grad: int, hess: int, n_rows: int, sign: int, packing: bool, n_threads: int
) -> None:
    """Whatever the plan says for rows at their limits, the kernels' sums are Python's."""
    plan = plan_of(grad, hess, n_rows * grad, n_rows * hess)
    total = plan.total_width(n_rows)
    local, block = plan.local(n_rows, total)
    found = built_sum(sign * grad, hess, n_rows, (local, total, block), packing, n_threads)
    assert found == (sign * grad * n_rows, hess * n_rows)


@pytest.mark.parametrize("packing", [True, False])
@pytest.mark.parametrize("sign", [1, -1])
def test_wide_integers_in_64_bits(sign: int, packing: bool) -> None:
    """Full precision: sums beyond 32 bits, from 32-bit and 64-bit accumulators."""
    grad, hess = 2**23 - 1, 2**24 - 2
    n_rows = 3000
    plan = plan_of(grad, hess, n_rows * grad, n_rows * hess)
    assert plan.total_width(n_rows) == 64
    expected = (sign * grad * n_rows, hess * n_rows)
    assert abs(expected[0]) > 2**32
    for local, block in ((64, 1024), (32, plan.rows_that_fit(32)), plan.local(n_rows, 64)):
        assert built_sum(sign * grad, hess, n_rows, (local, 64, block), packing, 2) == expected
    # 32-bit accumulators hold 256 such rows, too few for a block: full precision adds in 64.
    assert plan.rows_that_fit(32) == 256
    assert plan.local(n_rows, 64) == (64, BLOCK_ROWS)


def test_kernels_overflow_past_the_limit() -> None:
    """The proof is needed: where a quarter of the rows said to fit does not, 8 bits overflow."""
    n = plan_of(3, 6).rows_that_fit(8)
    for n_rows in (n, n + 1, 10 * n):
        assert built_sum(3, 6, n_rows, (8, 16, n), True) == (3 * n_rows, 6 * n_rows)
    n_rows = n + 1
    assert built_sum(3, 6, n_rows, (8, 16, 4 * n_rows), True) != (3 * n_rows, 6 * n_rows)


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 127),
    st.integers(1, 254),
    st.integers(1, 6000),
    st.sampled_from([1, 2, 3, 4, 5, 64, 256]),
    st.integers(0, 2**32),
)
def test_kernels_watch_the_real_sums(
    grad: int, hess: int, n_rows: int, block: int, seed: int
) -> None:
    """Any rows within the limits: a narrow accumulator never overflows, however many it takes."""
    fitting = plan_of(grad, hess).rows_that_fit(16)
    rng = np.random.default_rng(seed)
    share = rng.random()
    grads = rng.integers(-grad, grad + 1, n_rows) * (rng.random(n_rows) < share)
    hessians = rng.integers(0, hess + 1, n_rows)
    backend = cpu(2)
    pool = dirty_pool(backend, one_bin(n_rows).cpu, 1)
    step = (0, n_rows, 0, 16, 32, min(block, fitting))
    listed = np.arange(n_rows, dtype=np.int32)
    build(backend, pool, pack_rows(grads, hessians, 8), listed, step)
    assert read_slot(pool, 0, 32, 1)[0] == (grads.sum(), hessians.sum())
