"""Theorems 5.3 and B.3.1 of the paper: how far quantization can move the gain of a split.

The gain is the paper's G = G_left^2 / 2 H_left + G_right^2 / 2 H_right. Both theorems bound
|gain from rounded gradients - gain| / (gain of the leaf's best split) with probability 1 - delta
over the rounding. All functions work on numbers and, elementwise, on arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitgrove.errors import ParameterError

F64 = NDArray[np.float64]


def units(bits: int, max_grad: ArrayLike, max_hess: ArrayLike = 0.0) -> tuple[Any, Any]:
    """(delta_g, delta_h): what one step of the quantized gradient and hessian stands for.

    >>> units(3, 1.0, 0.25)  # binary classification: h <= 1/4
    (0.3333333333333333, 0.041666666666666664)
    """
    _check_bits(bits)
    grad, hess = np.asarray(max_grad, np.float64), np.asarray(max_hess, np.float64)
    return _plain(grad / (2 ** (bits - 1) - 1)), _plain(hess / (2**bits - 2))


def gamma(left_grad: ArrayLike, right_grad: ArrayLike, abs_grad: ArrayLike) -> Any:
    """The exact gamma of a split (Theorem B.1.1): 1/2 - its weighted classification error.

    left_grad, right_grad: sums of the children's gradients; abs_grad: sum of `|g|` over the leaf.
    It is a lower bound of the leaf's largest gamma, which another split may reach.

    >>> gamma(3.0, -1.0, 5.0)
    0.4
    """
    left, right = np.abs(np.asarray(left_grad, float)), np.abs(np.asarray(right_grad, float))
    return _ratio(left + right, 2.0 * np.asarray(abs_grad, float))


def least_rows(mean_hess: ArrayLike, unit_hess: float, delta: float = 0.1) -> Any:
    """Rows a child must have for Theorem B.3.1 to say anything: 8 delta_h^2 ln(8/delta) / h^2.

    >>> round(least_rows(0.01, units(3, 1.0, 0.25)[1], delta=0.01))  # the example of Appendix D
    928
    """
    _check_probability(delta)
    hess = np.asarray(mean_hess, np.float64)
    return _ratio(8.0 * unit_hess**2 * np.log(8.0 / delta) * np.ones_like(hess), hess**2)


def gain_error_bound(
    bits: int,
    n_left: ArrayLike,
    n_right: ArrayLike,
    *,
    gamma: ArrayLike,
    epsilon: ArrayLike,
    max_grad: float = 1.0,
    delta: float = 0.1,
) -> Any:
    """Theorem 5.3: constant hessians, stochastic rounding.

    epsilon is free: where the leaf's mean `|g|` is larger, the bound holds; where it is not, the
    leaf's predictions are at most epsilon / h, so that its splits matter little. The tightest
    choice is therefore the mean `|g|` of the leaf itself.

    >>> round(gain_error_bound(3, 5e6, 5e6, gamma=0.2, epsilon=0.1), 3)  # the paper's example
    0.152
    """
    _check_bits(bits)
    _check_probability(delta)
    left, right = np.asarray(n_left, np.float64), np.asarray(n_right, np.float64)
    strength, log = np.asarray(gamma, np.float64) ** 2, np.log(4.0 / delta)
    size = max_grad / np.asarray(epsilon, np.float64)
    spread = np.sqrt(1.0 / left) + np.sqrt(1.0 / right)
    first = _ratio(size * np.sqrt(2.0 * log) * spread, strength * 2.0 ** (bits - 1))
    second = _ratio(size**2 * log, strength * (left + right) * 4.0 ** (bits - 2))
    return _plain(np.asarray(first + second))


def hessian_gain_error_bound(
    n_left: ArrayLike,
    n_right: ArrayLike,
    *,
    left_hess: ArrayLike,
    right_hess: ArrayLike,
    gamma: ArrayLike,
    epsilon: ArrayLike,
    unit_grad: float,
    unit_hess: float,
    delta: float = 0.1,
) -> Any:
    """Theorem B.3.1: hessians that differ. left_hess and right_hess are the children's means.

    epsilon: as in Theorem 5.3, with the mean weighted by hessians, so at best `sum |g| / sum h`.
    The result is infinite where a child has fewer than least_rows(): the theorem is silent there.
    """
    _check_probability(delta)
    left, right = np.asarray(n_left, np.float64), np.asarray(n_right, np.float64)
    hl, hr = np.asarray(left_hess, np.float64), np.asarray(right_hess, np.float64)
    n, eps = left + right, np.asarray(epsilon, np.float64)
    mean = (left * hl + right * hr) / n
    strength, log = np.asarray(gamma, np.float64) ** 2, np.log(8.0 / delta)
    with np.errstate(divide="ignore", invalid="ignore"):
        grads = unit_grad / eps * (1 / (hl * np.sqrt(left)) + 1 / (hr * np.sqrt(right)))
        hesses = mean * unit_hess / 2 * n * (hl**-2.0 * left**-1.5 + hr**-2.0 * right**-1.5)
        squares = unit_grad**2 / (mean * eps**2 * n) * (1 / hl + 1 / hr)
        bound = (np.sqrt(2.0 * log) * (grads + hesses) + log * squares) / strength
    enough = (left >= least_rows(hl, unit_hess, delta)) & (
        right >= least_rows(hr, unit_hess, delta)
    )
    return _plain(np.asarray(np.where(enough & np.isfinite(bound), bound, np.inf)))


def bernstein_slack(variance: ArrayLike, largest: float, n_sums: int, delta: float = 0.1) -> Any:
    """What none of n_sums sums of independent errors of mean zero exceeds, but with chance delta.

    variance: of each sum; largest: of a single error. Bernstein's inequality for both signs of
    every sum: t = log * largest / 3 + sqrt((log * largest / 3)^2 + 2 log * variance), where log is
    ln(2 n_sums / delta).

    >>> round(bernstein_slack(100.0, 1.0, 1, delta=0.05), 2)  # 1.96 * 10 for a normal sum
    28.42
    """
    _check_probability(delta)
    log = np.log(2.0 * max(n_sums, 1) / delta)
    offset = log * largest / 3.0
    return _plain(np.asarray(offset + np.sqrt(offset**2 + 2.0 * log * np.asarray(variance, float))))


def score_slack(
    grad: ArrayLike, hess: ArrayLike, grad_slack: ArrayLike, hess_slack: ArrayLike
) -> Any:
    """How far g^2 / 2h can move when g moves by grad_slack and h by hess_slack at most.

    Infinite where the hessian may vanish.
    """
    g, h = np.abs(np.asarray(grad, np.float64)), np.asarray(hess, np.float64)
    t, u = np.asarray(grad_slack, np.float64), np.asarray(hess_slack, np.float64)
    least = h - u
    score = _ratio(g**2, 2.0 * h)
    with np.errstate(divide="ignore", invalid="ignore"):
        up = np.where(least > 0.0, (g + t) ** 2 / (2.0 * least), np.inf) - score
        down = score - np.maximum(g - t, 0.0) ** 2 / (2.0 * (h + u))
    moved = np.maximum(up, down)
    return _plain(np.asarray(np.where(np.isnan(moved), np.inf, moved)))


def certified_share(scores: F64, slacks: F64, parent: float) -> float:
    """The least share of the best gain that any split which rounding may choose has.

    scores: g^2 / 2h of both children of every candidate split, before rounding; slacks: how far
    rounding may move each, all at once; parent: the same of the node itself, so that score - parent
    is the reduction of the loss. A split can only be chosen if its highest score is not below the
    highest of all lowest scores. 0: nothing is certain.

    >>> import numpy as np
    >>> certified_share(np.array([3.0, 2.9, 1.0]), np.array([0.2, 0.2, 0.2]), parent=1.0)
    0.95
    """
    best = float(scores.max(initial=-np.inf)) - parent
    if not best > 0.0:
        return 1.0  # there is nothing to lose
    possible = scores + slacks >= (scores - slacks).max()
    return float(np.clip((scores[possible].min() - parent) / best, 0.0, 1.0))


def _ratio(numerator: ArrayLike, denominator: ArrayLike) -> Any:
    """Infinite where the denominator is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.asarray(numerator, np.float64) / np.asarray(denominator, np.float64)
    return _plain(np.where(np.isnan(ratio), 0.0, ratio))


def _plain(values: F64) -> Any:
    """A Python number for a single value."""
    return float(values) if values.ndim == 0 else values


def _check_bits(bits: int) -> None:
    if not 2 <= bits <= 32:
        raise ParameterError(f"bits={bits!r}: must be an integer >= 2 and <= 32")


def _check_probability(delta: float) -> None:
    if not 0.0 < delta < 1.0:
        raise ParameterError(f"delta={delta!r}: must be a probability, > 0 and < 1")
