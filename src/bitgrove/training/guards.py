"""Guards: models that could not be saved, leaves that run away.

Owns how far a leaf may step, and the warnings of a training, each given once. What they look at is
small and the same on every backend and rank; rank 0 speaks.

A leaf's Newton step is gradient / hessian. Where a score is a logarithm (of odds, of a mean), rows
of a rare class, or rows that are told with confidence, have next to no hessian, and the step says
thousands where the loss means a few. Such leaves grow from tree to tree until the model is lost.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
from numpy.typing import NDArray

from bitgrove.errors import (
    BitgroveWarning,
    DataError,
    ModelFormatError,
    TrainingError,
    everywhere,
)
from bitgrove.model.file import check_room
from bitgrove.model.model import Model
from bitgrove.objectives import Objective
from bitgrove.params import TrainParams

F64 = NDArray[np.float64]
# Of odds that differ by more, float32 sees one as 0 or infinite: log(2^24).
_MEANINGLESS_CHANGE = 24.0 * math.log(2.0)
# Where 100 trees on 40,000 rows had more noise than this, the test error of nycflights13 rose by
# 1.5% to 5.5% and that of a regression with huge weights by half; below it by less than 1%.
_LOUD_ROUNDING = 0.6
_LARGEST_LEAF = float(np.finfo(np.float32).max)


def check_savable(empty: Model) -> None:
    """Refuses names and parameters that no model file can hold, before the first tree grows."""
    try:
        check_room(empty)
    except ModelFormatError as error:
        raise DataError(f"a model of this training could not be saved: {error}") from None


class Guards:
    """One training's, or those of all folds of a cross-validation."""

    def __init__(self, params: TrainParams, objective: Objective, rank: int) -> None:
        self._params, self._speaks = params, rank == 0
        self._said: set[str] = set()
        self._is_log, slope = objective.link.is_logarithm, objective.link.slope
        self._step = objective.link.step_limit(params.max_delta_step)
        self._too_far = _MEANINGLESS_CHANGE / slope if self._is_log else math.inf

    def bounded(self, values: F64, learning_rate: float) -> F64:
        """A tree's leaf values within max_delta_step; warns where they mean nothing any more.

        TrainingError where they are no numbers, or so large that sums of them could be none."""
        bound = self._step * learning_rate
        # None is farther out than the root of the sum of their squares, which takes one look.
        if values.dot(values) <= min(bound, self._too_far, _LARGEST_LEAF) ** 2:
            return values
        farthest = float(np.maximum.reduce(np.abs(values), initial=0.0))
        if farthest > bound:
            values, farthest = np.clip(values, -bound, bound), bound
        if not farthest <= _LARGEST_LEAF:
            raise everywhere(TrainingError, _overflow_text(farthest, self._params))
        if farthest > self._too_far:
            self._too_far = math.inf  # once is enough
            self.warn(_runaway_text(farthest, self._params))
        return values

    def finish(self, rounding_noise: list[float]) -> None:
        """At the end of the training, with the share of rounding in each tree's gradients.

        The first half does not count: large gradients at the start say little about the rest.
        """
        late = rounding_noise[len(rounding_noise) // 2 :]
        if late and (share := float(np.mean(late))) > _LOUD_ROUNDING:
            self.warn(_rounding_text(share, self._params))

    def warn(self, text: str) -> None:
        """Rank 0 says it once, where warnings are wanted."""
        if self._speaks and self._params.verbosity >= 0 and text not in self._said:
            self._said.add(text)
            warnings.warn(text, BitgroveWarning, stacklevel=2)


def _given(params: TrainParams, *names: str) -> str:
    return ", ".join(f"{name}={getattr(params, name)!r}" for name in names)


def _overflow_text(farthest: float, params: TrainParams) -> str:
    given = _given(params, "learning_rate", "reg_lambda", "max_delta_step")
    return (
        f"a leaf value is {farthest:.3g}, which is beyond float32 ({given}); lower learning_rate, "
        "raise reg_lambda or set max_delta_step"
    )


def _runaway_text(farthest: float, params: TrainParams) -> str:
    given = _given(params, "max_delta_step", "reg_lambda", "min_child_weight")
    return (
        f"a leaf changes scores by {farthest:.3g}, which is more than the loss can tell apart: the "
        f"model may diverge ({given}). Leave max_delta_step at None, or raise reg_lambda or "
        "min_child_weight to 1, or lower learning_rate"
    )


def _rounding_text(share: float, params: TrainParams) -> str:
    remedies = []
    if params.gradient_scale != "robust":
        remedies.append('gradient_scale="robust"')
    remedies.append(f"more gradient_bits than {params.gradient_bits}")
    return (
        f"rounding made {share:.0%} of the gradients' variance (model.info.rounding_noise): splits "
        f"may be chosen by noise; use {' or '.join(remedies)}"
    )
