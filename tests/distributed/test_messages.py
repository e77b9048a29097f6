"""Histograms as messages: what was packed is what is added, and nothing else is ever written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bitgrove.backends.cpu import CpuBackend
from bitgrove.backends.reference import ReferenceBackend
from bitgrove.training.histograms import half_range
from kernel_cases import SIMD, Sums, cpu, dirty_pool, read_slot, write_slot

TOTALS = [16, 32, 64]
HEADER, LENGTH, PADDING = 2, 4, 8  # bytes of a block, of a step, behind a message


def sums_of_bits(data: st.DataObject, width: int, n_bins: int) -> Sums:
    """Sums of any magnitude up to the width's; empty bins often."""
    top_grad, top_hess = half_range(width)
    grad = min(top_grad, 2 ** data.draw(st.integers(0, width - 1), "bits of gradients"))
    hess = min(top_hess, 2 ** data.draw(st.integers(0, width), "bits of hessians"))
    share_empty = data.draw(st.sampled_from([0, 1, 5, 50]), "empty bins")
    seed = data.draw(st.integers(0, 2**32), "seed")
    rng = np.random.default_rng(seed)
    grads = rng.integers(-grad, grad, n_bins, endpoint=True).tolist()
    hessians = rng.integers(0, hess, n_bins, endpoint=True).tolist()
    filled = rng.integers(0, share_empty, n_bins, endpoint=True) == 0
    edges = [(-top_grad, top_hess), (top_grad, 0), (0, 0), (-1, 0), (0, 1)]
    sums = [(g, h) if f else (0, 0) for g, h, f in zip(grads, hessians, filled, strict=True)]
    for edge in data.draw(st.lists(st.sampled_from(edges), max_size=2), "extremes"):
        sums[data.draw(st.integers(0, n_bins - 1))] = edge
    return sums


@pytest.mark.parametrize("packing", [True, False])
@pytest.mark.parametrize("width", TOTALS)
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_round_trip(width: int, packing: bool, data: st.DataObject) -> None:
    """Two slots to two messages and into slots of at least that width, in the middle of them."""
    n_bins = data.draw(st.sampled_from([1, 2, 63, 64, 65, 128, 200]), "bins")
    sums = [sums_of_bits(data, width, n_bins) for _ in range(2)]
    first = data.draw(st.integers(0, n_bins), "first")
    last = data.draw(st.integers(first, n_bins), "last")
    out = data.draw(st.sampled_from([w for w in TOTALS if w >= width]), "width of the receiver")
    backend = CpuBackend(2)
    backend.simd = data.draw(st.sampled_from(SIMD), "instructions")
    pool = dirty_pool(backend, 3, n_bins)
    for slot in (0, 1):
        write_slot(backend, pool, slot, width, sums[slot], packing)
    write_slot(backend, pool, 2, out, [(0, 0)] * n_bins, packing)
    plan = np.array([[0, 1, width, first, last], [2, 0, width, first, last]])
    one, none, other = backend.pack_messages(pool, plan, 3, packing)
    assert len(none) == 0
    for message, slot in ((one, 1), (other, 0)):
        write_slot(backend, pool, 2, out, [(0, 0)] * n_bins, packing)
        before = pool[:2].copy()
        step = np.array([[2, out, first, last]])
        backend.add_messages(pool, step, (0, 1), [(0, message)], packing)
        expected = [s if first <= b < last else (0, 0) for b, s in enumerate(sums[slot])]
        assert read_slot(backend, pool, 2, out, n_bins, packing) == expected
        assert (pool[:2] == before).all()


@pytest.mark.parametrize("packing", [True, False])
@pytest.mark.parametrize("width", TOTALS)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_ranks_add_up(width: int, packing: bool, data: st.DataObject) -> None:
    """The sum of all ranks needs the whole width; each message only what its own sums need."""
    n_ranks, n_bins = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 70))
    top_grad, top_hess = (top // n_ranks for top in half_range(width))
    share = st.tuples(st.integers(-top_grad, top_grad), st.integers(0, top_hess))
    bins = st.lists(share | st.just((0, 0)), min_size=n_bins, max_size=n_bins)
    ranks: list[Sums] = [data.draw(bins) for _ in range(n_ranks)]
    backend = cpu()
    pool = dirty_pool(backend, n_ranks, n_bins)
    for rank, sums in enumerate(ranks):
        write_slot(backend, pool, rank, width, sums, packing)
    plan = np.array([[rank, rank, width, 0, n_bins] for rank in range(n_ranks)])
    messages = list(enumerate(backend.pack_messages(pool, plan, n_ranks, packing)))[1:]
    backend.add_messages(pool, plan[:1, 1:], (0, 1), messages, packing)
    expected = [(sum(s[b][0] for s in ranks), sum(s[b][1] for s in ranks)) for b in range(n_bins)]
    assert read_slot(backend, pool, 0, width, n_bins, packing) == expected


def test_the_reference_adds_the_same_sums() -> None:
    """Its messages are plain integers; plans and steps mean the same."""
    rng = np.random.default_rng(0)
    sums = np.stack([rng.integers(-50, 50, (3, 40)), rng.integers(0, 90, (3, 40))], axis=-1)
    plan = np.array([[0, 0, 64, 3, 30], [0, 2, 64, 5, 40], [1, 1, 64, 0, 0], [1, 1, 64, 2, 9]])
    into = np.array([[1, 64, 0, 27], [0, 64, 5, 40]])
    found = []
    for backend in (cpu(), ReferenceBackend()):
        pool: NDArray[Any] = sums.copy()
        seen = pool if backend.name == "reference" else pool.view(np.uint8).reshape(3, -1)
        messages = backend.pack_messages(seen, plan, 2, True)
        backend.add_messages(seen, into, (1, 2), [(0, messages[0])], True)
        found.append(pool)
        with pytest.raises(ValueError, match="rank 7 sent histograms that do not fit"):
            backend.add_messages(seen, into, (0, 2), [(7, messages[1])], True)
    np.testing.assert_array_equal(*found)
    sums[0, 5:40] += sums[2, 5:40]
    np.testing.assert_array_equal(found[0], sums)


@pytest.mark.parametrize(
    ("sums", "n_bytes"),
    [
        ([(0, 0)] * 64, 0),
        ([(-1, 1)] * 64, 64 * 2 / 8),  # a sign and a hessian
        ([(1, 3)] * 64, 64 * 4 / 8),
        ([(-8, 200)] * 32, 32 * 12 / 8),
        ([(0, 0)] * 63 + [(2**30, 2**31)], 8 + 8),  # which bin, and its two halves
    ],
)
def test_few_bits(sums: Sums, n_bytes: int) -> None:
    backend = cpu()
    pool = dirty_pool(backend, 1, len(sums))
    write_slot(backend, pool, 0, 64, sums)
    (message,) = backend.pack_messages(pool, np.array([[0, 0, 64, 0, len(sums)]]), 1, True)
    assert len(message) == LENGTH + HEADER + n_bytes + PADDING


def noisy_message(n_bins: int) -> tuple[CpuBackend, NDArray[Any], NDArray[np.uint8]]:
    """A pool of three slots of 16 + 16 bits, and a message of two steps, one of them sparse."""
    rng = np.random.default_rng(n_bins)
    backend = cpu()
    pool = dirty_pool(backend, 3, n_bins, 16)
    dense = [(int(g), int(h)) for g, h in zip(*rng.integers(0, 99, (2, n_bins)), strict=True)]
    sparse = [s if b % 9 == 0 else (0, 0) for b, s in enumerate(dense)]
    for slot, sums in enumerate((dense, sparse)):
        write_slot(backend, pool, slot, 16, sums)
    plan = np.array([[0, slot, 16, 0, n_bins] for slot in (0, 1)])
    return backend, pool, backend.pack_messages(pool, plan, 1, True)[0]


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_malformed_message_writes_nowhere_else(data: st.DataObject) -> None:
    n_bins = data.draw(st.sampled_from([1, 64, 100]))
    backend, pool, message = noisy_message(n_bins)
    bad = message.copy()
    for _ in range(data.draw(st.integers(1, 4))):
        bad[data.draw(st.integers(0, len(bad) - 1))] = data.draw(st.integers(0, 255))
    bad = bad[: data.draw(st.just(len(bad)) | st.integers(0, len(bad)))]
    step = np.array([[1, 16, 0, n_bins // 2], [1, 16, n_bins // 2, n_bins]])
    whole = np.array([[1, 16, 0, n_bins], [1, 16, 0, n_bins]])
    before = pool[[0, 2]].copy()
    for plan in (step, whole):
        try:
            backend.add_messages(pool, plan, (0, 2), [(3, bad)], True)
        except ValueError as error:
            assert "rank 3 sent histograms that do not fit the plan" in str(error)
    assert (pool[[0, 2]] == before).all()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda m: m[:0],
        lambda m: m[:7],
        lambda m: m[:-1],
        lambda m: np.append(m, np.uint8(0)),
        lambda m: np.concatenate([m[:8], [np.uint8(17)], m[9:]]),  # bits of a gradient: 17 of 16
        lambda m: np.concatenate([m[:8], [np.uint8(0)], m[9:]]),
        lambda m: np.concatenate([[m[0] + np.uint8(1), *m[1:4], m[4] - np.uint8(1)], m[5:]]),
    ],
)
def test_malformed_messages_are_refused(spoil: Any) -> None:
    backend, pool, message = noisy_message(100)
    plan = np.array([[0, 16, 0, 100], [1, 16, 0, 100]])
    backend.add_messages(pool, plan, (0, 2), [(3, message)], True)
    with pytest.raises(ValueError, match="rank 3 sent histograms that do not fit the plan"):
        backend.add_messages(pool, plan, (0, 2), [(3, spoil(message))], True)


@pytest.mark.parametrize(
    "step", [[0, 3, 16, 0, 4], [0, -1, 16, 0, 4], [0, 0, 16, 2, 1], [0, 0, 16, -1, 4],
             [0, 0, 12, 0, 4], [0, 0, 16, 0, 400], [1, 0, 16, 0, 4], [-1, 0, 16, 0, 4]]
)  # fmt: skip
def test_wrong_plans_are_refused(step: list[int]) -> None:
    backend = cpu()
    pool = dirty_pool(backend, 3, 4, 16)
    with pytest.raises(ValueError, match="bitgrove core"):
        backend.pack_messages(pool, np.array([step]), 1, True)
    if step[0] == 0:
        with pytest.raises(ValueError, match="bitgrove core"):
            backend.add_messages(pool, np.array([step[1:]]), (0, 1), [], True)
