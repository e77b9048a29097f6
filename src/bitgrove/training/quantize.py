"""Gradients become integers of few bits.

Owns the scales (paper, section 4.1: delta_g = max|g| / (2^(B-1) - 1), delta_h = max h / (2^B - 2)),
the robust scale for heavy tails, and QuantizedGradients with the bounds the width planner needs.
Receives one output's float32 gradients on the backend; returns packed integers on the backend.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends.base import Backend, PackedRows, Rounding
from bitgrove.backends.told import OutputGradients
from bitgrove.data.row_ids import RowRuns, one_run
from bitgrove.distributed.comm import Comm, max_integers, sum_integers, sum_records
from bitgrove.errors import TrainingError
from bitgrove.kernels.plans import (
    MAGNITUDE_SHIFT,
    SQUARED_ERROR_UNITS,
    read_magnitudes,
    read_row_totals,
)
from bitgrove.objectives.base import Objective
from bitgrove.params import TrainParams

I64 = NDArray[np.int64]
# Full precision is the same code with the mantissa of a float32.
FULL_PRECISION_BITS = 24
# Robust scale: how many times the typical gradient the largest may be before the unit gets finer
# (about what it is for normal values).
_USUAL_TAIL = 10.0
# A tail that the hessians share may ask for so many times the levels, if scores are logarithms:
# rounding of rows far below the unit adds unit * |gradient| to the variance, and the sum of
# |gradient| is twice that of its square. With 7 levels that is 2/7, with 21 a tenth.
_SHARED_TAIL = 3.0
# The most levels of a gradient and a hessian in a row of two bytes; and in one of four, which is
# slower.
_MOST_LEVELS, _WIDE_LEVELS = (127, 254), (2**15 - 1, 2**16 - 2)
# A row takes four bytes if more than this many times _MOST_LEVELS are wanted; sooner if the tail is
# of weights: rows of little weight are no noise, and are most of what a model is asked for.
_TOO_FEW, _TOO_FEW_OF_WEIGHTS = 8, 4
# Next to huge weights the gradients of the others need so many times the levels of the rule; in
# four bytes they cost no time.
_FINER_OF_WEIGHTS = 4
_INFINITY_BITS = 0x7F800000
_HALF_STEP = 1 << (MAGNITUDE_SHIFT - 1)
_AS_BITS, _AS_FLOATS = struct.Struct("=4I"), struct.Struct("=4f")  # of two sides


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


class Traits(NamedTuple):
    """What the scale must know of an objective, as its classes say."""

    unit_hessian: bool = False  # a hessian is its row's weight and nothing else
    n_joint: int = 1  # of its outputs
    is_log: bool = False  # a score is a logarithm: of the odds of two classes, of a mean


NO_TRAITS = Traits()


def traits_of(objective: Objective, output: int) -> Traits:
    own = objective.output(output)
    is_log = own.link.is_logarithm and own.predicts in ("probability", "value")
    return Traits(own.unit_hessian, objective.n_joint, is_log)


class Side(NamedTuple):
    """The largest and the typical magnitude of the gradients, or of the hessians, of all ranks."""

    top: float
    typical: float

    @property
    def tail(self) -> float:
        return self.top / self.typical if self.top > 0.0 else 1.0


def magnitudes_of(gradients: OutputGradients, comm: Comm) -> list[Side]:
    """Of the gradients, and of the hessians if there are any; an error if one is not finite.

    The upper bits of a float are nearly its logarithm: their mean is exact in integers, about that
    of the geometric mean, and a few huge values hardly move it.
    """
    found = read_magnitudes(gradients.magnitudes)
    tops = max_integers(comm, (found.grad_top, found.hess_top))
    if max(tops) >= _INFINITY_BITS:
        what = "the gradients" if tops[0] >= _INFINITY_BITS else "the hessians"
        raise TrainingError(
            f"{what} overflowed float32; scale the target or the weights down, "
            "or lower learning_rate"
        )
    mine = (found.grad_logs, found.grad_rows, found.hess_logs, found.hess_rows)
    grad_logs, grad_rows, hess_logs, hess_rows = sum_integers(comm, mine)
    bits = _AS_BITS.pack(*tops, _typical(grad_logs, grad_rows), _typical(hess_logs, hess_rows))
    grad_top, hess_top, grad, hess = _AS_FLOATS.unpack(bits)
    sides = [Side(grad_top, grad), Side(hess_top, hess)]
    return sides[:1] if gradients.hess is None else sides


def _typical(logs: int, n_rows: int) -> int:
    """The upper bits of the mean, and in the middle of what they leave open."""
    return ((logs << MAGNITUDE_SHIFT) // max(n_rows, 1)) | _HALF_STEP


def robust_levels(plain: Sequence[int], sides: Sequence[Side], traits: Traits) -> list[int]:
    """The levels of the largest gradient and hessian: more where nearly all are far smaller.

    Where the hessians have such a tail too, the gradients' counts only as far as it is heavier:
    rows of little gradient and hessian say little, and rounding most of them to zero is what makes
    rare classes and long queries fast. Not so if the hessians are the rows' weights alone, and up
    to _SHARED_TAIL not if scores are logarithms: easy classes have few other rows, and small means
    most of them. The hessians' tail counts as far as it is heavier than the gradients'.
    """
    unit_hessian, n_joint, is_log = traits
    few, plain = plain[0], _joint_levels(plain, n_joint)
    grad_tail, hess_tail = sides[0].tail, sides[-1].tail
    has_hess = len(sides) == 2
    shared = hess_tail if has_hess and not unit_hessian else 1.0
    grad = plain[0] * grad_tail / shared / _USUAL_TAIL
    if is_log:
        grad = max(grad, few * min(grad_tail / _USUAL_TAIL, _SHARED_TAIL))
    hess = hess_tail if unit_hessian else plain[-1] * hess_tail / grad_tail / _USUAL_TAIL
    of_weights = has_hess and unit_hessian
    too_few = _TOO_FEW_OF_WEIGHTS if of_weights else _TOO_FEW
    most, most_hess = _MOST_LEVELS
    if grad > too_few * most or (of_weights and hess > too_few * most_hess):
        most, most_hess = _WIDE_LEVELS
        grad *= _FINER_OF_WEIGHTS if of_weights else 1
    levels = [max(plain[0], int(min(grad, most))), max(plain[-1], int(min(hess, most_hess)))]
    return levels[: len(sides)]


def _joint_levels(plain: Sequence[int], n: int) -> Sequence[int]:
    """Of n joint outputs sqrt(n) times the levels of gradients, the fourth root's of hessians.

    The noise of all n trees adds up in a prediction, so its variance must fall with 1/n. The unit
    of hessians is finer to begin with, and it is their levels that decide how many rows round to
    zero, which cost no time.
    """
    if n == 1:
        return plain
    more = math.isqrt(plain[0] ** 2 * n), math.isqrt(math.isqrt(plain[-1] ** 4 * n))
    return [max(few, min(*pair)) for few, *pair in zip(plain, more, _MOST_LEVELS, strict=False)]


def noise_share(squared_grad: int, squared_error: int) -> float:
    """How much of the integer gradients' variance rounding made: 0 is nothing, 1 is all of it.

    With unbiased rounding it is noise / (gradients + noise), both summed as squares.
    """
    errors = squared_error / SQUARED_ERROR_UNITS
    return min(1.0, errors / squared_grad) if squared_grad else float(errors > 0)


def scales_of(sides: Sequence[Side], params: TrainParams, traits: Traits) -> tuple[Scale, Scale]:
    """Of the gradients and the hessians; without hessians the second counts."""
    bits = params.gradient_bits or FULL_PRECISION_BITS
    levels = [2 ** (bits - 1) - 1, 2**bits - 2][: len(sides)]
    if params.gradient_scale == "robust" and params.gradient_bits is not None:
        levels = robust_levels(levels, sides, traits)
    grad, *hess = [Scale(side.top / n, n, side.top) for side, n in zip(sides, levels, strict=True)]
    return grad, hess[0] if hess else Scale(1.0, 1, 1.0)


def quantize(
    backend: Backend,
    gradients: OutputGradients,
    params: TrainParams,
    key: int,
    runs: RowRuns,
    comm: Comm,
    traits: Traits = NO_TRAITS,
) -> QuantizedGradients:
    """Packs one output's gradients; hess is None where the count is the hessian."""
    grad, hess = scales_of(magnitudes_of(gradients, comm), params, traits)
    # Beyond the float32 mantissa there is nothing to round at random.
    stochastic = params.rounding == "stochastic" and params.gradient_bits is not None
    half_bits = row_half_bits(grad.limit, hess.limit)
    rounding = Rounding(
        grad.inverse, hess.inverse, grad.limit, hess.limit, half_bits, key, stochastic
    )
    packed = backend.quantize(
        gradients.grad,
        gradients.hess,
        rounding,
        runs if stochastic else one_run(len(gradients.grad)),
    )
    totals = read_row_totals(sum_records(comm, packed.totals)[0])
    return QuantizedGradients(
        packed,
        grad_scale=grad.unit,
        hess_scale=hess.unit,
        grad_limit=grad.limit,
        hess_limit=hess.limit,
        abs_grad_sum=totals.abs_grad,
        hess_sum=totals.hess,
        zero_rows=totals.zero_rows,
        largest=(grad.top, hess.top),
        rounding_noise=noise_share(totals.squared_grad, totals.squared_error),
    )
