"""The best split of a node in plain NumPy: the oracle of kernels/shared/gain.h and its searches.

The gain is equation (7) of the paper with L1/L2 regularisation. Ties: lowest feature, then lowest
bin, then missing-left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends.base import GainRules
from bitgrove.kernels.plans import Records

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


def _soften(grad: F64, reg_alpha: float) -> F64:
    positive = np.maximum(np.abs(grad) - reg_alpha, 0.0)
    return np.where(grad < 0.0, -positive, positive)


def leaf_score(grad: float, hess: float, rules: GainRules) -> float:
    g = float(_soften(np.float64(grad * rules.grad_scale), rules.reg_alpha))
    denominator = hess * rules.hess_scale + rules.reg_lambda
    return (g * g) / denominator if denominator > 0 else 0.0


def _gains(left: I64, node: np.void, rules: GainRules) -> F64:
    """Gains of all cuts of one feature; left[b] are the sums of the rows that go left at bin b."""
    grad, hess, min_hess = node["grad"], node["hess"], node["min_hess"]
    left_grad, left_hess = left[:, 0].astype(np.float64), left[:, 1].astype(np.float64)
    right_grad, right_hess = grad - left_grad, hess - left_hess
    gl = _soften(left_grad * rules.grad_scale, rules.reg_alpha)
    gr = _soften(right_grad * rules.grad_scale, rules.reg_alpha)
    hl = left_hess * rules.hess_scale + rules.reg_lambda
    hr = right_hess * rules.hess_scale + rules.reg_lambda
    with np.errstate(divide="ignore", invalid="ignore"):
        children = ((gl * gl) * hr + (gr * gr) * hl) / (hl * hr)
    gain = 0.5 * (children - leaf_score(grad, hess, rules))
    return np.where((left_hess >= min_hess) & (right_hess >= min_hess), gain, -np.inf)


def search_feature(
    bins: I64, feature: int, has_missing: bool, node: np.void, rules: GainRules, best: Records
) -> None:
    """Updates best if this feature has a better split; ties keep the earlier one."""
    n_values = len(bins) - int(has_missing)
    left = np.cumsum(bins[:n_values], axis=0)
    candidates = [(left if has_missing else left[:-1], not has_missing)]
    if has_missing:
        candidates.insert(0, (left[:-1] + bins[n_values], True))
    options = []
    for order, (sums, default_left) in enumerate(candidates):
        gains = _gains(sums, node, rules)
        if len(gains):
            b = int(np.argmax(gains))
            options.append((-gains[b], b, order, default_left, sums[b]))
    if not options:
        return
    negative_gain, b, _, default_left, sums = min(options, key=lambda option: option[:3])
    if -negative_gain > best["gain"][0]:
        best[0] = (-negative_gain, sums[0], sums[1], feature, b, default_left, 0)
