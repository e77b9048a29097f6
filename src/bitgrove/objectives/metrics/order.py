"""The order of all rows by their predictions, whichever ranks they are on.

Each rank adds up the whole weights of equal predictions: its steps. Ranks then own ranges of
predictions: steps travel to the owner of their range, who merges them, and what is below and above
a range is a sum of few numbers. No rank sees the rows of all. Integer sums alone are left, so every
number of ranks gives the same ones.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.arithmetic.selection import float64_keys

if TYPE_CHECKING:
    from bitgrove.distributed.comm import Comm

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
_SAMPLES_PER_RANK = 64


class Steps(NamedTuple):
    """Keys of distinct predictions, which ascend, and the whole weights of the two classes."""

    key: U64
    positive: I64
    negative: I64


class Around(NamedTuple):
    """Whole weights outside a range of steps."""

    negative_below: int
    positive_above: int
    negative_above: int


class OrderSums(NamedTuple):
    """Whole weights of both classes, twice the ordered pairs, and positives times precision."""

    positive: int
    negative: int
    area: int
    precision: int

    @classmethod
    def of(cls, sums: I64) -> OrderSums:
        positive, negative, *digits, precision = map(int, sums)
        area = sum(digit << (32 * i) for i, digit in enumerate(digits))
        return cls(positive, negative, area, precision)


# (predictions or keys, positive, negative) -> steps
StepsOf = Callable[[NDArray[Any], I64, I64], Steps]
# (the same, and what is around them) -> N_ORDER_SUMS numbers, as OrderSums.of reads them
SumsOf = Callable[[NDArray[Any], I64, I64, Around], I64]


class OrderMaker(NamedTuple):
    """A way of sorting and adding up."""

    steps_of: StepsOf
    sums_of: SumsOf


def _numpy_steps(values: NDArray[Any], positive: I64, negative: I64) -> Steps:
    keys = values if values.dtype == np.uint64 else float64_keys(values.astype(np.float64))
    order = np.argsort(keys)  # equal ones in any order: they are added up as one
    keys = keys[order]
    is_first = np.ones(len(keys), dtype=np.bool_)
    is_first[1:] = keys[1:] != keys[:-1]
    starts = np.flatnonzero(is_first)
    sides = (np.add.reduceat(side[order], starts) for side in (positive, negative))
    return Steps(keys[starts], *(sides if len(starts) else (positive, negative)))


def _numpy_sums(values: NDArray[Any], positive: I64, negative: I64, around: Around) -> I64:
    _, positive, negative = _numpy_steps(values, positive, negative)
    below = around.negative_below + np.cumsum(negative) - negative
    area = _whole_dot(positive, 2 * below + negative)
    found = around.positive_above + np.cumsum(positive[::-1])
    seen = found + around.negative_above + np.cumsum(negative[::-1])
    precision = np.rint(positive[::-1] * (found / np.maximum(seen, 1))).astype(np.int64)
    digits = [area >> 32 * i & 0xFFFFFFFF for i in range(4)]
    return np.array([positive.sum(), negative.sum(), *digits, precision.sum()], dtype=np.int64)


def _whole_dot(a: I64, b: I64) -> int:
    """The exact sum of the products, by digits of 16 bits that cannot overflow for 2^31 rows."""
    shifts = (0, 16, 32, 48)
    digits_a, digits_b = ([x >> shift & 0xFFFF for shift in shifts] for x in (a, b))
    return sum(
        int(x @ y) << (i + j)
        for i, x in zip(shifts, digits_a, strict=True)
        for j, y in zip(shifts, digits_b, strict=True)
    )


NUMPY_ORDER = OrderMaker(_numpy_steps, _numpy_sums)


def range_sums(
    values: NDArray[Any], positive: I64, negative: I64, comm: Comm, maker: OrderMaker
) -> I64:
    """This rank's part of the sums: those of the range of predictions that it owns."""
    if comm.size == 1:
        return maker.sums_of(values, positive, negative, Around(0, 0, 0))
    own = _own_range(maker.steps_of(values, positive, negative), comm)
    mine = np.array([own.positive.sum(), own.negative.sum()], dtype=np.int64)
    weights = np.array(comm.allgather(mine, equal=True)).reshape(comm.size, 2)
    positive_above, negative_above = weights[comm.rank + 1 :].sum(axis=0)
    below = weights[: comm.rank, 1].sum()
    return maker.sums_of(*own, Around(int(below), int(positive_above), int(negative_above)))


def _own_range(steps: Steps, comm: Comm) -> Steps:
    """The steps of all ranks in the range of keys that this one owns, in any order."""
    n_samples = min(len(steps.key), _SAMPLES_PER_RANK)
    sample = steps.key[np.arange(n_samples) * len(steps.key) // max(n_samples, 1)]
    samples = np.sort(np.concatenate(comm.allgather(sample.view(np.int64))).view(np.uint64))
    borders = samples[len(samples) * np.arange(1, comm.size) // comm.size]
    cuts = [0, *np.searchsorted(steps.key, borders).tolist(), len(steps.key)]
    blocks = [
        np.concatenate([part[a:b].view(np.int64) for part in steps]) for a, b in pairwise(cuts)
    ]
    came = [block.reshape(3, -1) for block in comm.alltoall(blocks)]
    keys, positive, negative = np.ascontiguousarray(np.concatenate(came, axis=1))
    return Steps(keys.view(np.uint64), positive, negative)


def core_order(n_threads: int) -> OrderMaker:
    """By the threads of the core."""

    def steps_of(values: NDArray[Any], positive: I64, negative: I64) -> Steps:
        return Steps(*_core.order_steps(values, positive, negative, n_threads))

    def sums_of(values: NDArray[Any], positive: I64, negative: I64, around: Around) -> I64:
        sums = np.empty(_core.N_ORDER_SUMS, dtype=np.int64)
        below, above = around.negative_below, (around.positive_above, around.negative_above)
        _core.order_sums(values, positive, negative, below, above, sums, n_threads)
        return sums

    return OrderMaker(steps_of, sums_of)
