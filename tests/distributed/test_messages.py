"""Histograms as messages: what was packed is what is added, and nothing else is ever written."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bitgrove.backends.cpu import CpuPool
from bitgrove.backends.host_slots import HostSlots
from bitgrove.backends.reference import ReferenceBackend
from bitgrove.distributed import messages as wire
from bitgrove.distributed.messages import add_messages, pack_messages
from bitgrove.kernels.plans import Records
from bitgrove.training.histograms import half_range
from kernel_cases import SIMD, Sums, cpu, dirty_pool, read_slot, write_slot
from one_tree import empty_case, parts

TOTALS = [16, 32, 64]
HEADER, LENGTH, PADDING = 2, 4, 8  # bytes of a block, of a step, behind a message


def new_pool(n_slots: int, n_bins: int, half_bits: int = 64) -> CpuPool:
    return dirty_pool(cpu(2), empty_case(n_bins).cpu, n_slots, half_bits)


@contextmanager
def instructions(simd: int) -> Iterator[None]:
    with mock.patch.object(wire, "simd_level", lambda: simd):
        yield


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


@pytest.mark.parametrize("width", TOTALS)
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_round_trip(width: int, data: st.DataObject) -> None:
    """Two slots to two messages and into slots of at least that width, in the middle of them."""
    n_bins = data.draw(st.sampled_from([1, 2, 63, 64, 65, 128, 200]), "bins")
    sums = [sums_of_bits(data, width, n_bins) for _ in range(2)]
    first = data.draw(st.integers(0, n_bins), "first")
    last = data.draw(st.integers(first, n_bins), "last")
    out = data.draw(st.sampled_from([w for w in TOTALS if w >= width]), "width of the receiver")
    pool = new_pool(3, n_bins)
    for slot in (0, 1):
        write_slot(pool, slot, width, sums[slot])
    with instructions(data.draw(st.sampled_from(SIMD), "instructions")):
        sent = parts((0, 1, width, first, last), (2, 0, width, first, last))
        one, none, other = pack_messages(pool, sent, 3)
        assert len(none) == 0
        for message, slot in ((one, 1), (other, 0)):
            write_slot(pool, 2, out, [(0, 0)] * n_bins)
            before = pool.storage[:2].copy()
            add_messages(pool, parts((0, 2, out, first, last)), [(0, message)])
            expected = [s if first <= b < last else (0, 0) for b, s in enumerate(sums[slot])]
            assert read_slot(pool, 2, out, n_bins) == expected
            assert (pool.storage[:2] == before).all()


@pytest.mark.parametrize("width", TOTALS)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_ranks_add_up(width: int, data: st.DataObject) -> None:
    """The sum of all ranks needs the whole width; each message only what its own sums need."""
    n_ranks, n_bins = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 70))
    top_grad, top_hess = (top // n_ranks for top in half_range(width))
    share = st.tuples(st.integers(-top_grad, top_grad), st.integers(0, top_hess))
    bins = st.lists(share | st.just((0, 0)), min_size=n_bins, max_size=n_bins)
    ranks: list[Sums] = [data.draw(bins) for _ in range(n_ranks)]
    pool = new_pool(n_ranks, n_bins)
    for rank, sums in enumerate(ranks):
        write_slot(pool, rank, width, sums)
    sent = parts(*[(rank, rank, width, 0, n_bins) for rank in range(n_ranks)])
    messages = list(enumerate(pack_messages(pool, sent, n_ranks)))[1:]
    add_messages(pool, sent[:1], messages)
    expected = [(sum(s[b][0] for s in ranks), sum(s[b][1] for s in ranks)) for b in range(n_bins)]
    assert read_slot(pool, 0, width, n_bins) == expected


def test_backends_understand_each_other() -> None:
    """A message says its own widths: any backend reads what another one wrote."""
    rng = np.random.default_rng(0)
    sums = np.stack([rng.integers(-50, 50, (3, 40)), rng.integers(0, 90, (3, 40))], axis=-1)
    # The reference has one width and does not look at that of a plan.
    sent = [(0, 0, 3, 30), (0, 2, 5, 40), (1, 1, 0, 0), (1, 1, 2, 9)]
    into = [(0, 1, 0, 27), (0, 0, 5, 40)]
    wrote: list[list[bytes]] = []
    for writer, reader in itertools.product(POOLS, repeat=2):
        pool, width = filled_pool(writer, sums)
        messages = pack_messages(pool, with_width(sent, width), 2)
        wrote.append([message.tobytes() for message in messages])
        pool, width = filled_pool(reader, sums)
        plan = with_width(into, width)
        add_messages(pool, plan, [(0, messages[0])], added=(1, 2))
        expected = sums.copy()
        expected[0, 5:40] += sums[2, 5:40]
        np.testing.assert_array_equal(contents(pool, width), expected)
        with pytest.raises(ValueError, match="rank 7 sent histograms that do not fit"):
            add_messages(pool, plan, [(7, messages[1])])
    assert all(messages == wrote[0] for messages in wrote)


POOLS = ["reference", "16", "32", "64"]


def with_width(steps: list[tuple[int, int, int, int]], width: int) -> Records:
    return parts(*[(message, slot, width, *bins) for message, slot, *bins in steps])


def filled_pool(kind: str, sums: NDArray[np.int64]) -> tuple[Any, int]:
    """A pool that holds these sums, and the width that plans say of it."""
    if kind == "reference":
        pool: Any = ReferenceBackend().new_pool(empty_case(sums.shape[1]).reference, 3, 64)
        pool.storage[:] = sums
        return pool, 16
    width = int(kind)
    pool = new_pool(len(sums), sums.shape[1])
    for slot, pairs in enumerate(sums.tolist()):
        write_slot(pool, slot, width, [tuple(pair) for pair in pairs])
    return pool, width


def contents(pool: Any, width: int) -> NDArray[np.int64]:
    if not isinstance(pool, CpuPool):
        return np.asarray(pool.storage)
    n_bins = int(pool.matrix.mapper.bin_offset[-1])
    return np.array([read_slot(pool, slot, width, n_bins) for slot in range(pool.n_slots)])


def test_copies_of_some_slots_are_read_by_their_numbers() -> None:
    """As from a device: memory holds only the slots asked for, in one width."""
    sums = np.arange(3 * 10 * 2).reshape(3, 10, 2)
    whole = filled_pool("64", sums)[0].on_host(np.arange(3))
    slots = np.array([0, 2])
    host = HostSlots(whole.memory[slots].copy(), width=64, slots=slots)
    assert host.sums(2, 16, 4).tolist() == sums[2, :4].sum(axis=0).tolist()
    placed = host.place(parts((0, 2, 16, 0, 10), (1, 0, 16, 3, 4)))
    assert placed[["slot", "width"]].tolist() == [(1, 64), (0, 64)]


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
    pool = new_pool(1, len(sums))
    write_slot(pool, 0, 64, sums)
    (message,) = pack_messages(pool, parts((0, 0, 64, 0, len(sums))), 1)
    assert len(message) == LENGTH + HEADER + n_bytes + PADDING


def noisy_message(n_bins: int) -> tuple[CpuPool, NDArray[np.uint8]]:
    """A pool of three slots of 16 + 16 bits, and a message of two steps, one of them sparse."""
    rng = np.random.default_rng(n_bins)
    pool = new_pool(3, n_bins, half_bits=16)
    dense = [(int(g), int(h)) for g, h in zip(*rng.integers(0, 99, (2, n_bins)), strict=True)]
    sparse = [s if b % 9 == 0 else (0, 0) for b, s in enumerate(dense)]
    for slot, sums in enumerate((dense, sparse)):
        write_slot(pool, slot, 16, sums)
    sent = parts((0, 0, 16, 0, n_bins), (0, 1, 16, 0, n_bins))
    return pool, pack_messages(pool, sent, 1)[0]


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_malformed_message_writes_nowhere_else(data: st.DataObject) -> None:
    n_bins = data.draw(st.sampled_from([1, 64, 100]))
    pool, message = noisy_message(n_bins)
    bad = message.copy()
    for _ in range(data.draw(st.integers(1, 4))):
        bad[data.draw(st.integers(0, len(bad) - 1))] = data.draw(st.integers(0, 255))
    bad = bad[: data.draw(st.just(len(bad)) | st.integers(0, len(bad)))]
    halves = parts((0, 1, 16, 0, n_bins // 2), (0, 1, 16, n_bins // 2, n_bins))
    whole = parts((0, 1, 16, 0, n_bins), (0, 1, 16, 0, n_bins))
    before = pool.storage[[0, 2]].copy()
    for plan in (halves, whole):
        try:
            add_messages(pool, plan, [(3, bad)])
        except ValueError as error:
            assert "rank 3 sent histograms that do not fit the plan" in str(error)
    assert (pool.storage[[0, 2]] == before).all()


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
    pool, message = noisy_message(100)
    plan = parts((0, 0, 16, 0, 100), (0, 1, 16, 0, 100))
    add_messages(pool, plan, [(3, message)])
    with pytest.raises(ValueError, match="rank 3 sent histograms that do not fit the plan"):
        add_messages(pool, plan, [(3, spoil(message))])


@pytest.mark.parametrize(
    "step", [[0, 3, 16, 0, 4], [0, -1, 16, 0, 4], [0, 0, 16, 2, 1], [0, 0, 16, -1, 4],
             [0, 0, 12, 0, 4], [0, 0, 16, 0, 400], [1, 0, 16, 0, 4], [-1, 0, 16, 0, 4]]
)  # fmt: skip
def test_wrong_plans_are_refused(step: list[int]) -> None:
    pool = new_pool(3, 4, half_bits=16)
    with pytest.raises(ValueError, match="bitgrove core"):
        pack_messages(pool, parts(step), 1)
    if step[0] == 0:
        with pytest.raises(ValueError, match="bitgrove core"):
            add_messages(pool, parts(step), [])
    with pytest.raises(ValueError, match="bitgrove core: bad range of parts"):
        add_messages(pool, parts([0, 0, 16, 0, 4]), [], added=(0, 2))
