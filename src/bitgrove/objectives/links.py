"""Links: what the scores of a row mean.

Receives scores (n_rows, n_outputs); returns predictions, (n_rows,) or (n_rows, n_outputs). The GPU
has the same functions in kernels/cuda/predict.cu, found by `kernel`, with the same bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.exact_math import exact_exp, exact_sigmoid

F64 = NDArray[np.float64]
# Chosen by `python -m lab defaults`; XGBoost's documentation advises 1 to 10 for rare classes.
USUAL_STEP = 10.0


@dataclass(frozen=True)
class Link:
    """The scores themselves are the predictions."""

    kernel: ClassVar[str | None] = None
    # Is a score a logarithm? Then a step of one, times the slope, multiplies odds by e.
    is_logarithm: ClassVar[bool] = False
    slope: float = 1.0

    def predictions(self, scores: F64) -> F64:
        return scores if scores.shape[1] > 1 else scores[:, 0]

    def step_limit(self, max_delta_step: float | None) -> float:
        """How far a leaf may step, before the learning rate."""
        if max_delta_step is None:
            return USUAL_STEP / self.slope if self.is_logarithm else math.inf
        return max_delta_step or math.inf


class Sigmoid(Link):
    """The probability of the second class: 1 / (1 + exp(-slope * score))."""

    kernel = "sigmoid_scores"
    is_logarithm = True

    def predictions(self, scores: F64) -> F64:
        return exact_sigmoid(self.slope * scores[:, 0])


class Softmax(Link):
    """The probability of each class."""

    kernel = "softmax_scores"
    is_logarithm = True

    def predictions(self, scores: F64) -> F64:
        powers = exact_exp(scores - scores.max(axis=1, keepdims=True))
        total = powers[:, 0].copy()
        for k in range(1, powers.shape[1]):  # a fixed order, as in the kernels
            total = total + powers[:, k]
        return np.asarray(powers / total[:, None])


IDENTITY = Link()
SOFTMAX = Softmax()
