"""Gradients become integers of few bits.

Owns the scales (paper, section 4.1: delta_g = max|g| / (2^(B-1) - 1), delta_h = max h / (2^B - 2)),
the robust scale for heavy tails, and QuantizedGradients with the bounds the width planner needs.
Receives one output's float32 gradients on the backend; returns packed integers on the backend.
"""

from __future__ import annotations

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
# Robust scale: the share of rows inside the low-bit range, and how much larger the maximum must
# be before the scale leaves it. Outliers become integers of up to 15 bits.
_ROBUST_SHARE = 0.999
_ROBUST_FACTOR = 4.0
_OUTLIER_LIMIT = 2**15 - 1
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
    """Whether the scale comes from a quantile, which needs counts of the gradients' magnitudes."""
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


def choose_scale(top: float, levels: int, counts: I64 | None, comm: Comm) -> Scale:
    """The unit for which the largest value (with counts: almost all values) has `levels` levels."""
    if counts is None:
        return Scale(top / levels, levels, top)
    inside = _robust_bound(comm.allreduce_sum(counts))
    if top <= _ROBUST_FACTOR * inside:
        return Scale(top / levels, levels, top)
    unit = max(inside / levels, top / _OUTLIER_LIMIT)
    return Scale(unit, min(_OUTLIER_LIMIT, int(np.ceil(top / unit))), top)


def _robust_bound(counts: I64) -> float:
    """Upper end of the bucket of magnitudes below which _ROBUST_SHARE of the non-zero rows lie."""
    counts = counts.copy()
    counts[0] = 0
    needed = int(np.ceil(int(counts.sum()) * _ROBUST_SHARE))
    bucket = int(np.searchsorted(np.cumsum(counts), needed))
    return float(np.array([(bucket + 1) << MAGNITUDE_SHIFT], dtype=np.uint32).view(np.float32)[0])


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
    counts: list[I64 | None] = [None, None]
    if counts_magnitudes(params):
        assert gradients.counts is not None, "the gradients were made without counts"
        counts = list(gradients.counts)
    top_grad, *top_hess = largest_magnitudes(gradients, comm)
    grad_scale = choose_scale(top_grad, 2 ** (bits - 1) - 1, counts[0], comm)
    hess_scale = Scale(1.0, 1, 1.0)
    if hess is not None:
        hess_scale = choose_scale(top_hess[0], 2**bits - 2, counts[1], comm)
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
