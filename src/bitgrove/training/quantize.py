"""Gradients become integers of few bits.

Owns the scales (paper, section 4.1: delta_g = max|g| / (2^(B-1) - 1), delta_h = max h / (2^B - 2)),
the robust scale for heavy tails, and QuantizedGradients with the bounds the width planner needs.
Receives one output's float32 gradients on the backend; returns packed integers on the backend.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends.base import Backend, OutputGradients, PackedRows, Rounding
from bitgrove.data.row_ids import RowRuns, one_run
from bitgrove.distributed.comm import Comm, sum_records
from bitgrove.errors import TrainingError
from bitgrove.kernels.plans import MAGNITUDE_SHIFT, SQUARED_ERROR_UNITS, Records
from bitgrove.params import TrainParams

I64 = NDArray[np.int64]
# Full precision is the same code with the mantissa of a float32.
FULL_PRECISION_BITS = 24
# Robust scale: how many times the mean the largest gradient may be before the unit becomes finer
# (about what it is for normal values), and the most levels: what half of a two-byte row holds.
_USUAL_TAIL = 6.0
_MOST_LEVELS = 127
_INFINITY_BITS = 0x7F800000


class Scale(NamedTuple):
    """x is about integer * unit, with |integer| <= limit; `top` is the largest |x|."""

    unit: float
    limit: int
    top: float = 0.0

    @property
    def inverse(self) -> float:
        return 0.0 if self.unit == 0.0 else 1.0 / self.unit


class QuantizedGradients(NamedTuple):
    """One packed integer per row: gradient in the upper half, hessian in the lower."""

    packed: PackedRows
    grad_scale: float
    hess_scale: float
    grad_limit: int
    hess_limit: int
    abs_grad_sum: int
    hess_sum: int
    zero_rows: int  # on all ranks, as the sums
    largest: tuple[float, float] = (0.0, 0.0)  # |gradient| and hessian before rounding
    rounding_noise: float = 0.0  # see noise_share


def row_half_bits(grad_limit: int, hess_limit: int) -> int:
    """The narrowest half of a row's packed integer."""
    for bits in (8, 16, 32):
        if grad_limit < 2 ** (bits - 1) and hess_limit < 2**bits:
            return bits
    raise AssertionError("limits above 32 bits cannot be asked for")


def counts_magnitudes(params: TrainParams) -> bool:
    """Whether the scale looks at the tail, which needs counts of the gradients' magnitudes."""
    return params.gradient_scale == "robust" and params.gradient_bits is not None


def largest_magnitudes(gradients: OutputGradients, comm: Comm) -> list[float]:
    """The largest |gradient| and hessian over all ranks, exactly; an error if one is not finite."""
    tops = comm.allreduce_max(gradients.tops[: 1 if gradients.hess is None else 2])
    for what, top in zip(("the gradients", "the hessians"), tops, strict=False):
        if top >= _INFINITY_BITS:
            raise TrainingError(
                f"{what} overflowed float32; scale the target or the weights down, "
                "or lower learning_rate"
            )
    return [float(top) for top in tops.view(np.float32)]


def finer_levels(levels: int, tops: Sequence[float], counts: I64) -> int:
    """The levels of the largest gradient where almost all others are far smaller than it.

    A tail that the hessians share does not count: rows of little gradient and hessian say little,
    and rounding most of them to zero is what makes rare classes and long queries fast.
    """
    tails = [
        top / (mean_magnitude(of_top) or top)
        for top, of_top in zip(tops, counts, strict=False)
        if top > 0.0
    ]
    heavier = tails[0] / tails[1] if len(tails) == 2 else tails[0]
    return max(levels, min(_MOST_LEVELS, int(levels * heavier / _USUAL_TAIL)))


def mean_magnitude(counts: I64) -> float:
    """About the mean of the values that are not zero, from the counts of their buckets."""
    buckets = np.flatnonzero(counts[1 : _INFINITY_BITS >> MAGNITUDE_SHIFT]) + 1
    edges = [(buckets + k << MAGNITUDE_SHIFT).astype(np.uint32).view(np.float32) for k in (0, 1)]
    middles = (edges[0].astype(np.float64) + edges[1]) * 0.5
    n_values = int(counts[buckets].sum())
    # fsum is exact: the order of the buckets does not matter.
    return math.fsum((middles * counts[buckets]).tolist()) / max(n_values, 1)


def noise_share(totals: Records) -> float:
    """How much of the integer gradients' variance rounding made: 0 is nothing, 1 is all of it.

    With unbiased rounding it is noise / (gradients + noise), both summed as squares.
    """
    squares = int(totals["squared_grad"])
    errors = int(totals["squared_error"]) / SQUARED_ERROR_UNITS
    return min(1.0, errors / squares) if squares else float(errors > 0)


def quantize(
    backend: Backend,
    gradients: OutputGradients,
    params: TrainParams,
    key: int,
    runs: RowRuns,
    comm: Comm,
) -> QuantizedGradients:
    """Packs one output's gradients; hess is None where the count is the hessian."""
    grad, hess = gradients.grad, gradients.hess
    bits = params.gradient_bits or FULL_PRECISION_BITS
    tops = largest_magnitudes(gradients, comm)
    levels = 2 ** (bits - 1) - 1
    if counts_magnitudes(params) and tops[0] > 0.0:
        assert gradients.counts is not None, "the gradients were made without counts"
        levels = finer_levels(levels, tops, comm.allreduce_sum(gradients.counts))
    grad_scale = Scale(tops[0] / levels, levels, tops[0])
    hess_scale = Scale(1.0, 1, 1.0)
    if hess is not None:
        hess_scale = Scale(tops[1] / (2**bits - 2), 2**bits - 2, tops[1])
    # Beyond the float32 mantissa there is nothing to round at random.
    stochastic = params.rounding == "stochastic" and params.gradient_bits is not None
    rounding = Rounding(
        grad_scale.inverse,
        hess_scale.inverse,
        grad_scale.limit,
        hess_scale.limit,
        row_half_bits(grad_scale.limit, hess_scale.limit),
        key,
        stochastic,
    )
    packed = backend.quantize(grad, hess, rounding, runs if stochastic else one_run(len(grad)))
    totals = sum_records(comm, packed.totals)[0]
    return QuantizedGradients(
        packed,
        grad_scale.unit,
        hess_scale.unit,
        grad_scale.limit,
        hess_scale.limit,
        int(totals["abs_grad"]),
        int(totals["hess"]),
        int(totals["zero_rows"]),
        (grad_scale.top, hess_scale.top),
        noise_share(totals),
    )
