"""Rows drawn by their gradients: those that say much are kept, the others now and then.

A row is kept with a chance p and counts 1 / p times, so sums over the kept rows are right on
average. Its size is sqrt(g^2 + lambda h^2). What p is comes from integer counts of the sizes of all
ranks, whether a row is kept from the hash of its id: the same bits everywhere.

Rows that are not kept are zero rows of the tree: no histogram reads them, but they are divided like
all others, so that leaves are fitted to the original gradients of all rows, and a leaf's rows are
counted as without sampling.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends.told import OutputGradients
from bitgrove.data.sampling import KeepRule, keep_key
from bitgrove.errors import ParameterError
from bitgrove.kernels.plans import MAGNITUDE_BUCKETS, MAGNITUDE_SHIFT
from bitgrove.params import TrainParams
from bitgrove.training.quantize import magnitudes_of
from bitgrove.training.variants.rows import DrawnRows, RowDraws, TrainingRows

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
# lambda, where gradients and hessians are measured by what is typical of them: between 0.01 and 1
# nothing changed in trials; with 0, rows without gradient would never be counted.
_HESS_SHARE = 0.1
# The value in the middle of each bucket and the one where it begins; infinity is 2^128.
_BITS = np.arange(MAGNITUDE_BUCKETS, dtype=np.uint32) << np.uint32(MAGNITUDE_SHIFT)


def _values(bits: NDArray[np.uint32]) -> F64:
    found = np.full(len(bits), 2.0**128)
    is_number = bits < 0x7F800000
    found[is_number] = bits[is_number].view(np.float32)
    return found


_MIDDLES, _STARTS = _values(_BITS | np.uint32(1 << (MAGNITUDE_SHIFT - 1))), _values(_BITS)


class GradientDraws(RowDraws):
    """Keeps rows by a rule that its classes make of the counted sizes."""

    def __init__(self, params: TrainParams, data: TrainingRows) -> None:
        super().__init__(params, data)
        if params.subsample_freq > 1:
            raise ParameterError(
                f"subsample_freq={params.subsample_freq}: data_sample_strategy={self.name!r} draws "
                "new rows in every iteration"
            )

    @property
    @abstractmethod
    def share(self) -> float:
        """Of the rows that are kept."""

    @abstractmethod
    def chances(self, counts: I64) -> tuple[float, float, float]:
        """whole, base and slope of a KeepRule, for sizes with these counts."""

    @property
    def is_random(self) -> bool:
        return self.share < 1.0

    def draw(self, gradients: OutputGradients, iteration: int, tree: int) -> DrawnRows:
        data, (grad, hess) = self.data, gradients[:2]
        rows = data.backend.select_rows(data.runs, None)
        if self.share >= 1.0:
            return DrawnRows(rows, gradients)
        sides = magnitudes_of(gradients, data.comm)
        ratio = sides[0].typical / (1.0 if hess is None else sides[1].typical)
        hess_share = _HESS_SHARE * ratio * ratio
        counts = data.backend.count_importance(grad, hess, hess_share)
        chances = self.chances(data.comm.allreduce_sum(counts))
        rule = KeepRule(hess_share, *chances, keep_key(self.params.random_state, tree))
        kept = data.backend.keep_rows(grad, hess, rule, data.runs)
        return DrawnRows(rows, kept, (sides[0].top, 1.0 if hess is None else sides[1].top))


class Goss(GradientDraws):
    """The rows of the largest gradients whole, of the others a part: LightGBM's GOSS."""

    name = "goss"

    def __init__(self, params: TrainParams, data: TrainingRows) -> None:
        super().__init__(params, data)
        top, other = params.top_rate, params.other_rate
        if not 0.0 < top + other <= 1.0:
            raise ParameterError(
                f"top_rate={top!r} and other_rate={other!r}: their sum must be above 0, at most 1"
            )
        if params.subsample < 1.0:
            raise ParameterError(
                f"subsample={params.subsample!r}: not together with data_sample_strategy='goss', "
                "whose shares are top_rate and other_rate"
            )

    @property
    def share(self) -> float:
        return self.params.top_rate + self.params.other_rate

    def chances(self, counts: I64) -> tuple[float, float, float]:
        """The top rows as far as whole buckets go; the others have one chance."""
        n_rows = int(counts.sum())
        n_above = n_rows - np.cumsum(counts)  # beyond each bucket
        last = int(np.argmax(n_above <= self.params.top_rate * n_rows))  # not of the top
        whole = float(_STARTS[last + 1]) if last + 1 < len(counts) else math.inf
        n_others = n_rows - int(n_above[last])
        wanted = self.share * n_rows - int(n_above[last])
        return whole, wanted / max(n_others, 1), 0.0


class MinimalVariance(GradientDraws):
    """Chances in proportion to the size, at most one: the least variance for a number of rows."""

    name = "mvs"

    @property
    def share(self) -> float:
        return 1.0 if self.params.subsample_freq == 0 else self.params.subsample

    def chances(self, counts: I64) -> tuple[float, float, float]:
        whole = whole_from(counts, self.share * int(counts.sum()))
        return whole, 0.0, 1.0 / whole


def whole_from(counts: I64, wanted: float) -> float:
    """The size m0 for which the sum of min(1, size / m0) over all rows is `wanted`."""
    held = np.flatnonzero(counts[1:]) + 1  # rows of size 0 are never kept
    sizes, n_rows = _MIDDLES[held], counts[held]
    # If buckets up to this one are kept in proportion and all beyond it whole:
    room = wanted - (int(n_rows.sum()) - np.cumsum(n_rows))
    below = np.cumsum(sizes * n_rows)
    fits = np.flatnonzero((room > 0.0) & (sizes * room <= below))
    if len(fits) == 0:  # all are wanted
        return float(_STARTS[1])
    return float(below[fits[-1]] / room[fits[-1]])
