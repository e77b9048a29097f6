"""Quantiles by selection: the same value for any order of rows and any number of ranks.

Numbers become unsigned keys of the same order. A key is found digit by digit from the top: how much
weight has each next digit, among the keys that begin with the digits found so far? Weights are
integers, so nothing depends on the order in which they are added. Receives counts or values and a
Comm; returns keys and quantiles.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.fixed_point import to_units, unit_exponent

if TYPE_CHECKING:
    from bitgrove.distributed.comm import Comm

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
# (prefix of each group, shift of the next digit) -> weight of each digit, (n_groups, n_digits).
CountDigits = Callable[[U64, int], I64]


def select(
    count: CountDigits, n_groups: int, level: float, key_bits: int, digit_bits: int
) -> tuple[U64, NDArray[np.bool_]]:
    """The first key of each group that has `level` of the weight at or below it.

    And whether it has exactly that much: then the quantile lies between it and the next key.
    """
    prefix = np.zeros(n_groups, dtype=np.uint64)
    left = np.zeros(n_groups, dtype=np.int64)  # weight that is wanted among keys of the prefix
    may_be_exact = np.zeros(n_groups, dtype=np.bool_)
    here, groups = left, np.arange(n_groups)
    share = Fraction(repr(level))  # as it was written: 0.1 is a tenth
    for shift in range(key_bits - digit_bits, -1, -digit_bits):
        weight = count(prefix, shift)
        if shift == key_bits - digit_bits:
            ranks = [_rank(total, share) for total in weight.sum(axis=1).tolist()]
            left, may_be_exact = (np.array(column) for column in zip(*ranks, strict=True))
        below = np.cumsum(weight, axis=1)
        digit = (below < left[:, None]).sum(axis=1)
        reached = below[groups, digit]
        here = reached - left
        left = left - (reached - weight[groups, digit])
        prefix = (prefix << np.uint64(digit_bits)) | digit.astype(np.uint64)
    return prefix, may_be_exact & (here == 0)


def _rank(total: int, share: Fraction) -> tuple[int, bool]:
    """The least whole weight that is at least share * total, and whether it is equal."""
    wanted, rest = divmod(share.numerator * total, share.denominator)
    if rest:
        return wanted + 1, False
    return max(wanted, 1), 0 < wanted < total


def float32_keys(values: F32) -> U32:
    """Keys of the order of the values; -0 is 0."""
    bits = (values + np.float32(0.0)).view(np.uint32)
    mask = np.where(bits >> 31 == 1, np.uint32(0xFFFFFFFF), np.uint32(0x80000000))
    return bits ^ mask


def float32_of_keys(keys: U32) -> F32:
    mask = np.where(keys >> 31 == 1, np.uint32(0x80000000), np.uint32(0xFFFFFFFF))
    return (keys ^ mask).view(np.float32)


def float64_keys(values: F64) -> U64:
    """As float32_keys."""
    bits = (values + 0.0).view(np.uint64)
    return bits ^ np.where(bits >> 63 == 1, np.uint64(2**64 - 1), np.uint64(2**63))


def _float64_of_key(key: np.uint64) -> float:
    bits = np.array([key], dtype=np.uint64)
    bits ^= np.where(bits >> 63 == 1, np.uint64(2**63), np.uint64(2**64 - 1))
    return float(bits.view(np.float64)[0])


def integer_weights(weight: F32 | None, comm: Comm) -> I64 | None:
    """Weights in a unit in which their sum over all ranks cannot overflow; at least one each."""
    if weight is None:
        return None
    top = float(comm.allreduce_max(np.array([weight.max(initial=0.0)], dtype=np.float64))[0])
    n_rows = int(comm.allreduce_sum(np.array([len(weight)], dtype=np.int64))[0])
    return np.maximum(to_units(weight.astype(np.float64), unit_exponent(top, n_rows)), 1)


def weighted_quantile(values: F64, weight: F32 | None, level: float, comm: Comm) -> float:
    """The quantile of the values of all ranks; half way where it lies between two of them."""
    keys, weights = float64_keys(values), integer_weights(weight, comm)

    def count(prefix: U64, shift: int) -> I64:
        high = np.uint64(shift + 16)
        # NumPy has no shift by all 64 bits: before the first digit every key belongs.
        here: Any = slice(None) if shift == 48 else keys >> high == prefix[0]
        digits = ((keys[here] >> np.uint64(shift)) & np.uint64(0xFFFF)).astype(np.int64)
        found = np.zeros(1 << 16, dtype=np.int64)
        np.add.at(found, digits, 1 if weights is None else weights[here])
        return comm.allreduce_sum(found)[None]

    (lower,), (is_exact,) = select(count, 1, level, key_bits=64, digit_bits=16)
    low = _float64_of_key(lower)
    if not is_exact:
        return low
    above = values[values > low].min(initial=np.inf)
    return 0.5 * low + 0.5 * -float(comm.allreduce_max(np.array([-above]))[0])
