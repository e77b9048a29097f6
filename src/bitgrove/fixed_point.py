"""Order-free sums: floats become int64 multiples of a power of two before they are added.

Owns the choice of the unit (from the global maximum and the global count, so that the sum cannot
overflow) and the sum itself. Receives float64 values and a Comm; returns the same float64 for any
order of rows, any number of threads and any number of ranks.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.distributed.comm import Comm

# Values are rounded through 1.5 * 2^52 in the kernels, which is exact below 2^51.
_MAX_VALUE_BITS = 50
_MAX_SUM_BITS = 62


def unit_exponent(max_magnitude: float, n_values: int) -> int:
    """The exponent s for which |value| * 2^s < 2^50 and n * |value| * 2^s < 2^62."""
    if max_magnitude == 0.0 or n_values == 0:
        return 0
    _, exponent = math.frexp(max_magnitude)  # max_magnitude < 2^exponent
    n_bits = max(1, n_values).bit_length()
    return min(_MAX_VALUE_BITS, _MAX_SUM_BITS - n_bits) - exponent


def to_units(values: NDArray[np.float64], exponents: Any) -> NDArray[np.int64]:
    """values * 2^exponents, rounded to even.

    Two products, each exact: one factor may be beyond the range of a float, and ldexp is slow.
    """
    half = np.asarray(exponents) // 2
    scaled = values * np.ldexp(1.0, half)
    scaled *= np.ldexp(1.0, exponents - half)
    return np.rint(scaled, out=scaled).astype(np.int64)


def to_float(total: int, exponent: int) -> float:
    """total * 2^-exponent, correctly rounded."""
    return math.ldexp(float(total), -exponent)


def fixed_point_sums(values: NDArray[np.float64], comm: Comm) -> NDArray[np.float64]:
    """Sums over the last axis and over all ranks; values is (n,) or (k, n)."""
    table = np.atleast_2d(values)
    bounds = comm.allreduce_max(np.abs(table).max(axis=1, initial=0.0))
    n_values = int(comm.allreduce_sum(np.array([table.shape[1]], dtype=np.int64))[0])
    exponents = [unit_exponent(float(bound), n_values) for bound in bounds]
    units = np.array(exponents, dtype=np.int64)[:, None]
    local = to_units(table, units).sum(axis=1)
    totals = comm.allreduce_sum(local)
    return np.array([to_float(int(t), e) for t, e in zip(totals, exponents, strict=True)])


def fixed_point_sum(values: NDArray[np.float64], comm: Comm) -> float:
    return float(fixed_point_sums(values, comm)[0])
