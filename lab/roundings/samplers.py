"""Which rows a tree's histograms see, and as which integers: sparse rounding and its rivals.

Rules in NumPy that receive FloatRows and return IntegerRows. A row that is zero in both halves is
left out of the histograms. The sums of all of them are unbiased.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.roundings.internals import FloatRows, IntegerRows

F64 = NDArray[np.float64]
# Rivals that choose rows get bits enough that rounding does not matter: their rows have two bytes
# all the same, and their sums the width of few bits.
_LEVELS = (31, 62)


@dataclass(frozen=True)
class OneNoise:
    """Sparse rounding: one noise for both halves, mirrored where the gradient is negative.

    coarser: how many times the library's unit of gradients; hess_levels: of the largest hessian,
    None: the library's unit. Below 1 even the largest one is zero in some rows.
    """

    coarser: float = 1.0
    hess_levels: float | None = None
    least_units: float = 0.0

    def rounded(self, rows: FloatRows) -> IntegerRows:
        grad_unit, hess_unit = rows.units[0] * self.coarser, rows.units[1]
        if self.hess_levels is not None:
            hess_unit = float(rows.hess.max()) / self.hess_levels
        noise = rows.noise[0]
        grad = np.sign(rows.grad) * np.floor(np.abs(rows.grad) / grad_unit + noise)
        hess = np.floor(rows.hess / hess_unit + noise)
        return IntegerRows(grad.astype(np.int64), hess.astype(np.int64), (grad_unit, hess_unit))


@dataclass(frozen=True)
class Goss:
    """Gradient-based one-side sampling: the largest gradients, and others that count more.

    top, other: shares of all rows.
    """

    top: float
    other: float
    least_units: float = 0.0

    def rounded(self, rows: FloatRows) -> IntegerRows:
        size = np.abs(rows.grad)
        is_top = size >= np.quantile(size, 1.0 - self.top)
        share = self.other / (1.0 - self.top)
        chance = np.where(is_top, 1.0, share)
        return _weighted(rows, chance)


@dataclass(frozen=True)
class Mvs:
    """Minimal variance sampling: by chances proportional to sqrt(g^2 + lambda h^2), at most 1.

    lambda is a quarter of the squared step of a leaf, to first order what makes the variance of a
    leaf's score G^2 / H least.
    """

    share: float
    least_units: float = 0.0

    def rounded(self, rows: FloatRows) -> IntegerRows:
        size = np.sqrt(rows.grad**2 + 0.25 * rows.step**2 * rows.hess**2)
        return _weighted(rows, chances(size, self.share))


def chances(size: F64, share: float) -> F64:
    """min(1, size / threshold) with a mean of `share`, the threshold found by halving."""
    low, high = 0.0, float(size.max()) / share
    for _ in range(40):
        middle = 0.5 * (low + high)
        too_many = np.minimum(size / middle, 1.0).mean() > share
        low, high = (middle, high) if too_many else (low, middle)
    return np.asarray(np.minimum(size / high, 1.0))


def _weighted(rows: FloatRows, chance: F64) -> IntegerRows:
    """The rows chosen by their chance, each weighted by its inverse, rounded to many levels."""
    chosen = rows.noise[0] < chance
    weight = np.where(chosen, 1.0 / np.maximum(chance, 1e-12), 0.0)
    grad, hess = rows.grad * weight, rows.hess * weight
    units = float(np.abs(grad).max()) / _LEVELS[0], float(hess.max()) / _LEVELS[1]
    grad = np.sign(grad) * np.floor(np.abs(grad) / units[0] + rows.noise[1])
    hess = np.floor(hess / units[1] + 1.0 - rows.noise[1])
    # What is exactly zero stays so: floor(0 + 1 - 0) would not.
    hess = np.where(chosen, hess, 0.0)
    return IntegerRows(grad.astype(np.int64), hess.astype(np.int64), units)
