"""Two ways of training compared on the same splits: paired differences and their standard error."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from lab.reporting import deviation
from lab.scoring import HIGHER_IS_BETTER


class Paired(NamedTuple):
    """How much better (+) or worse (-) on average, and the standard error of that."""

    mean: float
    error: float

    @property
    def beyond_noise(self) -> bool:
        """More than two standard errors from nothing."""
        return abs(self.mean) > 2.0 * self.error

    def text(self, digits: int = 2) -> str:
        mark = "*" if self.beyond_noise and self.mean else ""
        return f"{self.mean:+.{digits}f} ± {self.error:.{digits}f}{mark}"


def paired_gain(metric: str, base: Sequence[float], other: Sequence[float]) -> Paired:
    """By how many percent of the base's mean the other is better, split by split."""
    sign = 1.0 if HIGHER_IS_BETTER[metric] else -1.0
    scale = 100.0 / abs(statistics.fmean(base))
    gains = [sign * scale * (b - a) for a, b in zip(base, other, strict=True)]
    return Paired(statistics.fmean(gains), deviation(gains) / math.sqrt(len(gains)))
