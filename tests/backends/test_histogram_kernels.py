"""Histograms: every width, block, layout, thread count and instruction set gives the same sums."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bitgrove.backends.base import GainRules, PackedRows, TreeInputs
from bitgrove.backends.cpu import CpuBackend
from bitgrove.backends.reference import ReferenceBackend
from bitgrove.backends.reference.best_first import SearchPlan
from bitgrove.kernels.plans import ROW_TOTALS, SEARCH_NODE, SUBTRACTION, records
from bitgrove.training.histograms import TOTAL_WIDTHS, WidthPlan
from bitgrove.training.quantize import QuantizedGradients
from kernel_cases import (
    SIMD,
    BinnedCase,
    Step,
    binned,
    builds_of,
    core_tree,
    cpu,
    dirty_pool,
    pack_rows,
    random_binned,
    read_slot,
)

I64 = NDArray[np.int64]
PLAIN = GainRules(1.0, 1.0, 0.0, 0.0, 0.0)
GRAD_LIMIT, HESS_LIMIT = 3, 6
# (local, total): what the planner can ask for.
WIDTHS = [(a, t) for a, t in itertools.product((8, 16, 32, 64), TOTAL_WIDTHS) if a <= t]
# 42 rows of these gradients fit 8-bit halves.
BLOCKS = {8: (1, 7, 42), 16: (1, 13, 4096), 32: (100, 8192), 64: (100, 8192)}


def gradients(rng: np.random.Generator, n_rows: int) -> I64:
    """(n_rows, 2) within the limits."""
    grad = rng.integers(-GRAD_LIMIT, GRAD_LIMIT + 1, size=n_rows)
    return np.stack([grad, rng.integers(0, HESS_LIMIT + 1, size=n_rows)], axis=1)


def expected_sums(case: BinnedCase, integers: I64, rows: NDArray[Any]) -> list[tuple[int, int]]:
    reference = ReferenceBackend()
    pool = reference.new_pool(case.reference, 1, 64)
    allowed = np.ones(case.mapper.n_features, dtype=np.uint8)
    inputs = TreeInputs(PackedRows(integers, records(ROW_TOTALS, 1)), rows, allowed, PLAIN, False)
    builds = builds_of([(0, len(rows), 0, 64, 64, 1)])
    plan = SearchPlan(builds, records(SUBTRACTION, 0), records(SEARCH_NODE, 0))
    reference.start_tree(pool, inputs).search(plan)
    return [(int(g), int(h)) for g, h in pool.storage[0]]


def check_builds(
    backend: CpuBackend,
    case: BinnedCase,
    integers: I64,
    rows: NDArray[np.int32],
    steps: list[Step],
    half_bits: int = 8,
) -> None:
    """Builds the steps in one call and compares every node with the reference."""
    pool = dirty_pool(backend, case.cpu, 1 + max(step[2] for step in steps))
    packed_rows = pack_rows(integers[:, 0], integers[:, 1], half_bits)
    core_tree(backend, pool, rows, packed_rows).build(builds_of(steps))
    for begin, end, slot, _, total, _ in steps:
        found = read_slot(pool, slot, total, case.n_bins)
        assert found == expected_sums(case, integers, rows[begin:end])


def test_reference_counts_rows() -> None:
    """The oracle itself, against a loop in Python."""
    rng = np.random.default_rng(0)
    case = random_binned(rng, 60, [4, 3], [True, False])
    integers = gradients(rng, 60)
    rows = np.arange(0, 60, 2, dtype=np.int32)
    sums = [[0, 0] for _ in range(case.n_bins)]
    for row in rows.tolist():
        for feature in range(2):
            at = int(case.mapper.bin_offset[feature]) + int(case.reference.bins[feature, row])
            sums[at][0] += int(integers[row, 0])
            sums[at][1] += int(integers[row, 1])
    assert expected_sums(case, integers, rows) == [tuple(s) for s in sums]


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(("local", "total"), WIDTHS)
def test_widths_and_blocks(local: int, total: int, packed: bool) -> None:
    rng = np.random.default_rng(1)
    case = random_binned(rng, 500, [255, 2, 16, 9, 100], [True, False, False, True, False])
    integers = gradients(rng, 500)
    rows = rng.permutation(500).astype(np.int32)[:450]
    for block in BLOCKS[local]:
        steps = [(0, 200, 0, local, total, block), (200, 450, 1, local, total, block)]
        check_builds(cpu(packed=packed), case, integers, rows, steps)


@pytest.mark.parametrize("half_bits", [8, 16, 32])
@pytest.mark.parametrize("packed", [True, False])
def test_row_widths(half_bits: int, packed: bool) -> None:
    """Rows of every packed type into every accumulator that is as wide; others are refused."""
    rng = np.random.default_rng(2)
    case = random_binned(rng, 300, [20, 7], [False, True])
    integers = gradients(rng, 300)
    rows = np.arange(300, dtype=np.int32)
    for local, total in WIDTHS:
        steps = [(0, 300, 0, local, total, 40)]
        if local >= half_bits:
            check_builds(cpu(packed=packed), case, integers, rows, steps, half_bits)
            continue
        with pytest.raises(ValueError, match="rows are wider than their sums"):
            check_builds(cpu(packed=packed), case, integers, rows, steps, half_bits)
        check_builds(cpu(packed=packed), case, integers, rows, [(9, 9, *steps[0][2:])], half_bits)


@pytest.mark.parametrize("simd", SIMD)
@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_threads_and_simd(n_threads: int, simd: int) -> None:
    """Many blocks of many nodes at once, with different widths in one call."""
    rng = np.random.default_rng(3)
    case = random_binned(rng, 4000, [255, 3, *[40] * 33], [True, True, *[False] * 33])
    integers = gradients(rng, 4000)
    rows = rng.permutation(4000).astype(np.int32)
    steps = [
        (0, 1000, 3, 8, 16, 42),
        (1000, 1000, 0, 16, 16, 100),
        (1000, 3000, 2, 16, 64, 100),
        (3000, 3999, 4, 32, 32, 10),
        (3999, 4000, 1, 64, 64, 10),
    ]
    for packed in (True, False):
        check_builds(cpu(n_threads, simd, packed), case, integers, rows, steps)


def test_builds_leave_nothing_behind() -> None:
    """Accumulators are reused between calls, widths and matrices: each call starts from zero."""
    rng = np.random.default_rng(5)
    backend = cpu(2)
    wide = random_binned(rng, 300, [255] * 40, [True] * 40)
    small = random_binned(rng, 100, [3], [False])
    integers = gradients(rng, 300)
    rows = np.arange(300, dtype=np.int32)
    for local, total in [*WIDTHS, *WIDTHS[::-1]]:
        check_builds(backend, wide, integers, rows, [(0, 300, 0, local, total, 42)])
        check_builds(backend, small, integers[:100], rows[:100], [(0, 100, 0, local, total, 42)])


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 255), st.booleans()), min_size=1, max_size=36),
    st.integers(0, 300),
    st.integers(0, 2**32 - 1),
    st.booleans(),
    st.sampled_from(SIMD),
    st.sampled_from([1, 2, 4]),
)
def test_any_table_with_planned_widths(
    features: list[tuple[int, bool]], n: int, seed: int, packed: bool, simd: int, n_threads: int
) -> None:
    rng = np.random.default_rng(seed)
    n_values, has_missing = zip(*features, strict=True)
    case = random_binned(rng, max(n, 1), n_values, has_missing)
    integers = gradients(rng, max(n, 1))
    abs_grad, hess = int(np.abs(integers[:, 0]).sum()), int(integers[:, 1].sum())
    limits = (GRAD_LIMIT, HESS_LIMIT)
    plan = WidthPlan(QuantizedGradients(None, 1.0, 1.0, *limits, abs_grad, hess, 0), max(n, 1))
    rows = rng.permutation(max(n, 1)).astype(np.int32)
    borders = np.sort(rng.integers(0, n + 1, size=4))
    steps = []
    for slot, (begin, end) in enumerate(itertools.pairwise(borders.tolist())):
        total = plan.total_width(end - begin)
        local, block = plan.local(end - begin, total)
        steps.append((begin, end, slot, local, total, block))
    check_builds(cpu(n_threads, simd, packed), case, integers, rows, steps)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([1, 2, 2, 2, 3, 4, 7, 16, 60, 255]), st.booleans()),
        min_size=1,
        max_size=70,
    ),
    st.integers(1, 400),
    st.integers(0, 2**32 - 1),
    st.sampled_from(WIDTHS),
    st.booleans(),
    st.sampled_from(SIMD),
    st.sampled_from([1, 2, 4]),
)
def test_features_that_share_a_column(
    features: list[tuple[int, bool]],
    n: int,
    seed: int,
    widths: tuple[int, int],
    packed: bool,
    simd: int,
    n_threads: int,
) -> None:
    """Few bins: their sums are marginals of a joint histogram, in every width."""
    rng = np.random.default_rng(seed)
    n_values, has_missing = zip(*features, strict=True)
    case = random_binned(rng, n, n_values, has_missing)
    integers = gradients(rng, n)
    rows = rng.permutation(n).astype(np.int32)
    middle = int(rng.integers(0, n + 1))
    steps = [(0, middle, 1, *widths, 42), (middle, n, 0, *widths, 30)]
    check_builds(cpu(n_threads, simd, packed), case, integers, rows, steps)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("grad", [GRAD_LIMIT, -GRAD_LIMIT])
def test_marginals_at_the_bound(grad: int, packed: bool) -> None:
    """All sums of a node in one bin of every feature, as large as the node's width allows."""
    n = 10_922  # times 3 and 6 is within 32,767 and 65,535
    bins = np.zeros((9, n), dtype=np.int64)
    bins[0] = np.arange(n) % 2
    case = binned(bins, [2] * 9, [False] * 9)
    integers = np.tile([grad, HESS_LIMIT], (n, 1))
    rows = np.arange(n, dtype=np.int32)
    for local, block in ((8, 42), (16, n)):
        check_builds(cpu(packed=packed), case, integers, rows, [(0, n, 0, local, 16, block)])
