"""The partition: stable, equal to the reference at every instruction set and thread count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.backends.cpu import CpuBackend
from bitgrove.kernels.plans import DIVISION, Records, records
from kernel_cases import SIMD, BinnedCase, core_tree, cpu, random_binned

Rows = NDArray[np.int32]
SIZES = [0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 4097, 8191, 8192, 8193, 16_385, 20_000]


def divisions(*steps: tuple[int, ...], n_zero: int = 0) -> Records:
    """Steps are (begin, end, feature, bin, missing bin, default left).

    At most n_zero rows at the end of each node are zero rows.
    """
    begin, end, feature, split_bin, missing_bin, default_left = np.array(steps).T
    return records(
        DIVISION, len(steps), begin=begin, end=end, feature=feature, bin=split_bin,
        missing_bin=missing_bin, default_left=default_left,
        first_zero=np.maximum(begin, end - n_zero),
    )  # fmt: skip


def expected(case: BinnedCase, rows: Rows, plan: Records) -> tuple[Rows, list[tuple[int, ...]]]:
    """The partition in plain Python."""
    result, counts = rows.copy(), []
    for begin, first_zero, end, feature, split_bin, missing_bin, default_left, _ in plan.tolist():
        left, right, n_left = [], [], [0, 0]
        for i, row in enumerate(rows[begin:end].tolist(), begin):
            b = case.reference.bins[feature, row]
            goes_left = default_left if b == missing_bin else b <= split_bin
            (left if goes_left else right).append(row)
            n_left[i >= first_zero] += int(goes_left)
        result[begin:end] = left + right
        counts.append(tuple(n_left))
    return result, counts


def divide(backend: CpuBackend, case: BinnedCase, rows: Rows, plan: Records) -> list[Any]:
    """Divides the rows in place; the counts gone left."""
    pool = backend.new_pool(case.cpu, 1, 16)
    left: list[Any] = core_tree(backend, pool, rows).divide(plan).tolist()
    return left


def check_divisions(
    case: BinnedCase, rows: Rows, *steps: tuple[int, ...], n_threads: tuple[int, ...] = (1, 2)
) -> None:
    for n_zero in (0, 1, 100, 9000):
        plan = divisions(*steps, n_zero=n_zero)
        wanted, counts = expected(case, rows, plan)
        for simd in SIMD:
            for n in n_threads:
                mine = rows.copy()
                assert divide(cpu(n, simd), case, mine, plan) == counts
                np.testing.assert_array_equal(mine, wanted)


@pytest.fixture(scope="module")
def case() -> BinnedCase:
    rng = np.random.default_rng(0)
    return random_binned(rng, 22_000, [255, 2, 100, 1], [True, False, True, True])


@pytest.mark.parametrize("default_left", [0, 1])
@pytest.mark.parametrize("size", SIZES)
def test_sizes_around_the_borders(case: BinnedCase, size: int, default_left: int) -> None:
    rng = np.random.default_rng(size)
    rows = np.sort(rng.permutation(22_000)[:size]).astype(np.int32)
    check_divisions(case, rows, (0, size, 0, 100, 255, default_left))


@pytest.mark.parametrize("split_bin", [0, 1, 126, 127, 128, 253, 254])
def test_every_kind_of_bin(case: BinnedCase, split_bin: int) -> None:
    """Bins are unsigned bytes: 128 and more are not negative, 255 is the missing one."""
    rows = np.arange(3000, dtype=np.int32)
    for default_left in (0, 1):
        check_divisions(case, rows, (0, 3000, 0, split_bin, 255, default_left), n_threads=(1,))


def test_values_against_missing(case: BinnedCase) -> None:
    """The last cut: all values left, missing right; and a feature with one value bin."""
    rows = np.arange(5000, dtype=np.int32)
    check_divisions(case, rows, (0, 5000, 2, 99, 100, 0), (0, 0, 3, 0, 1, 0))
    check_divisions(case, rows, (0, 2500, 3, 0, 1, 0), (2500, 5000, 3, 0, 1, 1))


@pytest.mark.parametrize("side", ["left", "right"])
def test_all_rows_on_one_side(side: str) -> None:
    case = random_binned(np.random.default_rng(1), 9000, [1, 10], [False, False])
    rows = np.arange(9000, dtype=np.int32)
    step, counts = (0, 9000, 1, 9, 10, 1), (8991, 9)
    if side == "right":
        rows = rows[case.reference.bins[1] > 0]
        step, counts = (0, len(rows), 1, 0, 10, 1), (0, 0)
    assert divide(cpu(2), case, rows.copy(), divisions(step, n_zero=9)) == [counts]
    check_divisions(case, rows, step)


def test_rows_keep_their_order(case: BinnedCase) -> None:
    """Ascending rows stay ascending on both sides, over blocks and threads."""
    rows = np.arange(12_000, dtype=np.int32)
    n_left, _ = divide(cpu(4), case, rows, divisions((0, 12_000, 1, 0, 2, 1)))[0]
    assert np.all(np.diff(rows[:n_left]) > 0) and np.all(np.diff(rows[n_left:]) > 0)
    assert 0 < n_left < 12_000


def test_the_last_row_of_the_table() -> None:
    """Gathers read 32 bits: the row at the very end must not read past the columns."""
    for n in (1, 2, 3, 4, 16, 17):
        case = random_binned(np.random.default_rng(n), n, [3, 200], [True, True])
        rows = np.full(64, n - 1, dtype=np.int32)  # vectors full of the last row
        check_divisions(case, rows, (0, 64, 1, 50, 200, 1))


@pytest.mark.parametrize("step", [2, 3, 7, 8, 9])
def test_rows_close_to_each_other(case: BinnedCase, step: int) -> None:
    """Their bins come from windows of 128 bytes, which end with the column."""
    rng = np.random.default_rng(step)
    for n in (16, 100, 2000):
        gaps = rng.integers(1, 2 * step, n)  # some sixteen fit a window, others do not
        rows = (21_999 - np.cumsum(gaps)[::-1] + gaps[0]).astype(np.int32)
        assert rows[-1] == 21_999
        for feature, split_bin in ((0, 100), (0, 200), (2, 50)):
            check_divisions(case, rows, (0, n, feature, split_bin, 255, 0), n_threads=(1,))
    swapped = rows.copy()
    swapped[4::16], swapped[5::16] = rows[5::16], rows[4::16]
    check_divisions(case, swapped, (0, n, 0, 100, 255, 0), n_threads=(1,))
    check_divisions(case, swapped[::-1].copy(), (0, n, 0, 100, 255, 0), n_threads=(1,))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.sampled_from([300, 6000]))
def test_batches_of_nodes(seed: int, n_nodes: int, n_rows: int) -> None:
    """Several nodes in one call, with gaps between them that stay as they are."""
    rng = np.random.default_rng(seed)
    n_values = rng.integers(1, 256, size=3).tolist()
    case = random_binned(rng, n_rows, n_values, (rng.random(3) < 0.5).tolist())
    rows = rng.permutation(n_rows).astype(np.int32)
    borders = np.sort(rng.integers(0, n_rows + 1, size=2 * n_nodes))
    feature = rng.integers(0, 3, size=n_nodes)
    missing_bin = case.mapper.missing_bin[feature]
    split_bin = rng.integers(0, missing_bin)
    default_left = rng.integers(0, 2, size=n_nodes)
    steps = zip(
        borders[::2], borders[1::2], feature, split_bin, missing_bin, default_left, strict=True
    )
    check_divisions(case, rows, *steps, n_threads=(1, 2, 4))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 50, 5000, 20_000]), st.floats(0.0, 1.0))
def test_zero_rows_go_behind_the_others(seed: int, n_rows: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    listed = np.sort(rng.permutation(n_rows + 10)[:n_rows]).astype(np.int32)
    integers = rng.integers(0, 2, size=(n_rows + 10, 2)) * (rng.random((n_rows + 10, 1)) < share)
    active = integers[listed].any(axis=1)
    wanted = np.concatenate([listed[active], listed[~active]])
    for dtype, half in ((np.int16, 8), (np.int32, 16), (np.int64, 32)):
        packed = ((integers[:, 0] << half) + integers[:, 1]).astype(dtype)
        for n_threads in (1, 2, 4):
            rows, scratch = listed.copy(), np.empty(n_rows, dtype=np.int32)
            n_active = _core.separate_zero_rows(packed, rows, scratch, n_threads)
            assert n_active == active.sum()
            np.testing.assert_array_equal(rows, wanted)
