"""Order-free sums: floats become int64 multiples of a power of two before they are added.

Owns the choice of the unit (from the global maximum and the global count, so that the sum cannot
overflow) and the sum itself. Receives float64 values and a Comm; returns the same float64 for any
order of rows, any number of threads and any number of ranks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bitgrove.distributed.comm import Comm

F64 = NDArray[np.float64]

# Values are rounded through 1.5 * 2^52 in the kernels, which is exact below 2^51.
_MAX_VALUE_BITS = 50
_MAX_SUM_BITS = 62
_PIECE = 1 << 16


def unit_exponent(max_magnitude: float, n_values: int) -> int:
    """The exponent s for which |value| * 2^s < 2^50 and n * |value| * 2^s < 2^62."""
    if max_magnitude == 0.0 or n_values == 0:
        return 0
    _, exponent = math.frexp(max_magnitude)  # max_magnitude < 2^exponent
    return value_bits(n_values) - exponent


def value_bits(n_values: int) -> int:
    """Bits that each of so many values may have."""
    return min(_MAX_VALUE_BITS, _MAX_SUM_BITS - max(1, n_values).bit_length())


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


def fixed_point_sums(rows: Sequence[F64] | F64, comm: Comm) -> F64:
    """The sum of each array over all ranks; the arrays have one length (rows of a table do)."""
    tops = [max(row.max(initial=0.0), -row.min(initial=0.0)) for row in rows]
    bounds = comm.allreduce_max(np.array(tops, dtype=np.float64))
    n_values = int(comm.allreduce_sum(np.array([len(rows[0])], dtype=np.int64))[0])
    exponents = [unit_exponent(float(bound), n_values) for bound in bounds]
    local = [sum_in_units(row, e) for row, e in zip(rows, exponents, strict=True)]
    totals = comm.allreduce_sum(np.array(local, dtype=np.int64))
    return np.array([to_float(int(t), e) for t, e in zip(totals, exponents, strict=True)])


def sum_in_units(values: F64, exponent: int) -> int:
    """The sum of to_units.

    In pieces: the integers of all rows at once would be the largest arrays of a training.
    """
    pieces = (values[i : i + _PIECE] for i in range(0, len(values), _PIECE))
    return sum(int(to_units(piece, exponent).sum()) for piece in pieces)
