"""Two sums in one integer: packing, adding and subtracting, against Python's integers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitgrove.training.histograms import half_range
from kernel_cases import (
    SIMD,
    Sums,
    binned,
    cpu,
    dirty_pool,
    one_bin,
    pack_rows,
    read_slot,
    unpack_rows,
    write_slot,
)
from one_tree import build, builds, empty_case, run_steps, start_tree, subtract, subtractions

ROW_BITS = [8, 16, 32]
TOTALS = [16, 32, 64]
# (parent, built, out): a child is never wider than its parent.
WIDTHS = [w for w in itertools.product(TOTALS, repeat=3) if w[1] <= w[0] and w[2] <= w[0]]


def sums_in(width: int) -> st.SearchStrategy[tuple[int, int]]:
    """A sum inside the halves of this width, edges often."""
    grad, hess = half_range(width)
    grads = st.integers(-grad, grad) | st.sampled_from([-grad, -1, 0, 1, grad])
    return st.tuples(grads, st.integers(0, hess) | st.sampled_from([0, 1, hess - 1, hess]))


@pytest.mark.parametrize("half_bits", ROW_BITS)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_one_row_through_every_width(half_bits: int, data: st.DataObject) -> None:
    """A row's pair comes out as it went in, also where a negative gradient borrowed."""
    pair = data.draw(sums_in(half_bits))
    rows = pack_rows([pair[0]], [pair[1]], half_bits)
    assert unpack_rows(rows).tolist() == [list(pair)]
    listed = np.zeros(1, dtype=np.int32)
    for packing in (True, False):
        backend = cpu(packed=packing)
        pool = dirty_pool(backend, one_bin(1).cpu, 1)
        for local, total in itertools.product([8, *TOTALS], TOTALS):
            if half_bits <= local <= total:
                build(backend, pool, rows, listed, (0, 1, 0, local, total, 1))
                assert read_slot(pool, 0, total, 1) == [pair]


def adversarial(local: int, half_bits: int) -> list[tuple[list[int], list[int]]]:
    """Rows whose sums end exactly at the limits of the halves of `local` bits."""
    grad_range, hess_range = half_range(local)
    row_grad, row_hess = half_range(half_bits)
    cases = []
    for sign, with_hess in itertools.product((1, -1), (True, False)):
        for step in (row_grad, max(1, row_grad // 3)):
            n_grad, last = divmod(grad_range, step)
            grads = [sign * step] * n_grad + [sign * last] * (last > 0)
            n = len(grads)
            hess = [0] * n
            if with_hess:
                assert hess_range <= n * row_hess
                hess = [hess_range // n + (i < hess_range % n) for i in range(n)]
            cases.append((grads, hess))
    return cases


@pytest.mark.parametrize("packing", [True, False])
@pytest.mark.parametrize(
    ("half_bits", "local", "total"),
    [
        *[(8, 8, 16), (8, 8, 32), (8, 8, 64), (8, 16, 16), (8, 16, 32)],
        *[(16, 16, 64), (32, 32, 32), (32, 32, 64), (32, 64, 64)],
    ],
)
def test_sums_at_the_limit(half_bits: int, local: int, total: int, packing: bool) -> None:
    """Gradients at +limit and -limit, hessians at 0 and at the maximum, in one accumulator."""
    backend = cpu(packed=packing)
    for grads, hess in adversarial(min(local, 32), half_bits):
        n = len(grads)
        rows = pack_rows(grads, hess, half_bits)
        pool = dirty_pool(backend, one_bin(n).cpu, 1)
        build(backend, pool, rows, np.arange(n, dtype=np.int32), (0, n, 0, local, total, n))
        assert read_slot(pool, 0, total, 1) == [(sum(grads), sum(hess))]


@pytest.mark.parametrize(("half_bits", "width"), [(8, 8), (8, 16), (16, 16), (32, 32)])
def test_limits_are_reached(half_bits: int, width: int) -> None:
    """The cases above really end at the last value of each half."""
    grad, hess = half_range(width)
    reached = {(sum(g), sum(h)) for g, h in adversarial(width, half_bits)}
    assert reached == set(itertools.product((grad, -grad), (0, hess)))


@pytest.mark.parametrize("simd", SIMD)
def test_subtraction(simd: int) -> None:
    """parent - built, for every triple of widths; built and rest both fit their own widths."""

    @settings(max_examples=8, deadline=None)
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        for parent, built, out in WIDTHS:
            child = data.draw(st.lists(sums_in(built), min_size=1, max_size=6))
            rest = data.draw(st.lists(sums_in(out), min_size=len(child), max_size=len(child)))
            grad_range, hess_range = half_range(parent)
            pairs = [
                (c, r)
                for c, r in zip(child, rest, strict=True)
                if abs(c[0] + r[0]) <= grad_range and c[1] + r[1] <= hess_range
            ]
            whole: Sums = [(c[0] + r[0], c[1] + r[1]) for c, r in pairs]
            backend = cpu(1, simd)
            pool = dirty_pool(backend, empty_case(max(1, len(whole))).cpu, 3)
            write_slot(pool, 2, parent, whole)
            write_slot(pool, 0, built, [c for c, _ in pairs])
            left = 2 if out == parent else 1
            subtract(backend, pool, (2, 0, left, parent, built, out), bins=(0, len(whole)))
            assert read_slot(pool, left, out, len(whole)) == [r for _, r in pairs]
            assert read_slot(pool, 0, built, len(whole)) == [c for c, _ in pairs]

    check()


@pytest.mark.parametrize("width", TOTALS)
def test_borrows(width: int) -> None:
    """The lower half borrows from the upper one and gives back, at both ends of its range."""
    grad, hess = half_range(width)
    children = [(-grad, 0), (-1, hess), (1, 0), (0, hess), (-grad, hess), (grad, 0)]
    rests = [(grad, hess), (-1, 0), (-1, hess), (-grad, 0), (0, 0), (-grad, hess)]
    whole = [(c[0] + r[0], c[1] + r[1]) for c, r in zip(children, rests, strict=True)]
    backend = cpu()
    pool = dirty_pool(backend, empty_case(len(whole)).cpu, 2)
    write_slot(pool, 0, width, whole)
    write_slot(pool, 1, width, children)
    subtract(backend, pool, (0, 1, 0, width, width, width))
    assert read_slot(pool, 0, width, len(whole)) == rests


@pytest.mark.parametrize("simd", SIMD)
@pytest.mark.parametrize(("parent", "out"), [(64, 16), (64, 32), (32, 16), (32, 32)])
def test_narrowing_over_many_bins(parent: int, out: int, simd: int) -> None:
    """1000 bins, into a slot of their own or, as wide as before, over the parent's."""
    rng = np.random.default_rng(parent + out)
    n = 1000
    rest = [tuple(p) for p in np.stack([rng.integers(-9, 9, n), rng.integers(0, 9, n)], 1).tolist()]
    child = [
        tuple(p) for p in np.stack([rng.integers(-9, 9, n), rng.integers(0, 9, n)], 1).tolist()
    ]
    whole = [(c[0] + r[0], c[1] + r[1]) for c, r in zip(child, rest, strict=True)]
    backend = cpu(2, simd)
    pool = dirty_pool(backend, empty_case(n).cpu, 6)
    for slot in (0, 2):
        write_slot(pool, slot, parent, whole)
        write_slot(pool, slot + 1, 16, child)
    first, second = (0, 2) if out == parent else (4, 5)
    subtract(backend, pool, (0, 1, first, parent, 16, out), (2, 3, second, parent, 16, out))
    assert read_slot(pool, first, out, n) == read_slot(pool, second, out, n) == rest


def test_subtraction_touches_only_its_bins() -> None:
    """A rank subtracts within the bins it owns."""
    backend = cpu()
    pool = dirty_pool(backend, empty_case(10).cpu, 2)
    whole, child = [(7, 5)] * 10, [(-2, 1)] * 10
    write_slot(pool, 0, 32, whole)
    write_slot(pool, 1, 32, child)
    subtract(backend, pool, (0, 1, 0, 32, 32, 32), bins=(3, 6))
    expected = [(9, 4) if 3 <= b < 6 else (7, 5) for b in range(10)]
    assert read_slot(pool, 0, 32, 10) == expected


@pytest.mark.parametrize("width", TOTALS)
def test_the_sums_of_the_first_bins(width: int) -> None:
    """Added up on the host, to the ends of the width's halves."""
    pool = dirty_pool(cpu(), empty_case(10).cpu, 3)
    top_grad, top_hess = half_range(width)
    sums: Sums = [(b - 5, b) for b in range(8)]
    grad, hess = (sum(s[half] for s in sums) for half in (0, 1))
    sums += [(-top_grad - grad, top_hess - hess), (top_grad, 0)]
    write_slot(pool, 2, width, sums)
    host = pool.on_host(np.array([2]))
    for n_bins in range(11):
        expected = [sum(s[half] for s in sums[:n_bins]) for half in (0, 1)]
        assert host.sums(2, width, n_bins).tolist() == expected


def test_built_and_subtracted_children_equal_built_ones() -> None:
    """The same rows both ways: the larger child by subtraction, and by building it."""
    rng = np.random.default_rng(2)
    n = 3000
    bins = np.stack([rng.integers(0, k, n) for k in (255, 3, 17)])
    case = binned(bins, [255, 3, 17], [False] * 3)
    rows = pack_rows(rng.integers(-127, 128, n), rng.integers(0, 255, n), 8)
    listed = np.concatenate([np.arange(0, n, 3), np.setdiff1d(np.arange(n), np.arange(0, n, 3))])
    listed = listed.astype(np.int32)
    for packing in (True, False):
        backend = cpu(2, packed=packing)
        pool = dirty_pool(backend, case.cpu, 3)
        steps = [(0, n, 0, 32, 32, 500), (0, 1000, 1, 16, 32, 250), (1000, n, 2, 16, 32, 250)]
        work = start_tree(backend, pool, rows, listed)
        run_steps(work, builds(*steps), subtractions((0, 1, 0, 32, 32, 32)))
        assert read_slot(pool, 0, 32, case.n_bins) == read_slot(pool, 2, 32, case.n_bins)


@pytest.mark.parametrize(
    "step",
    [(0, 5, 0, 32, 32, 32), (-1, 0, 0, 32, 32, 32), (0, 1, 0, 16, 32, 16), (0, 1, 0, 16, 16, 32),
     (0, 1, 0, 32, 16, 12), (0, 1, 0, 32, 16, 16), (0, 1, 1, 32, 32, 32)],
)  # fmt: skip
def test_wrong_subtractions_are_refused(step: tuple[int, ...]) -> None:
    backend = cpu()
    pool = dirty_pool(backend, empty_case(4).cpu, 2)
    with pytest.raises(ValueError, match="bitgrove core"):
        subtract(backend, pool, step)
    for bins in ((-1, 4), (3, 2), (0, 400)):
        with pytest.raises(ValueError, match="bitgrove core"):
            subtract(backend, pool, (0, 1, 0, 32, 32, 32), bins=bins)


def test_other_records_are_refused() -> None:
    """A plan is known by its dtype: no matrix of numbers is taken for one."""
    backend = cpu()
    work = start_tree(backend, dirty_pool(backend, empty_case(4).cpu, 2), *no_rows())
    matrix = np.array([[0, 1, 0, 32, 32, 32]])
    for built, subtracted in ((builds(), matrix), (subtractions(), subtractions())):
        with pytest.raises(TypeError):
            run_steps(work, built, subtracted)


def no_rows() -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(1, dtype=np.int16), np.zeros(0, dtype=np.int32)
