"""The split gain in plain NumPy: the oracle of kernels/shared/gain.h.

It is equation (7) of the paper with L1/L2 regularisation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends.base import GainRules

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


def _soften(grad: F64, reg_alpha: float) -> F64:
    positive = np.maximum(np.abs(grad) - reg_alpha, 0.0)
    return np.where(grad < 0.0, -positive, positive)


def leaf_score(grad: float, hess: float, rules: GainRules) -> float:
    g = float(_soften(np.float64(grad * rules.grad_scale), rules.reg_alpha))
    denominator = hess * rules.hess_scale + rules.reg_lambda
    return (g * g) / denominator if denominator > 0 else 0.0


def split_gains(left: I64, node: np.void, rules: GainRules, extra_lambda: float = 0.0) -> F64:
    """Gains of some splits of a node; left[i] are the sums of the rows that go left at split i.

    extra_lambda: what the children pay on top of reg_lambda.
    """
    grad, hess, min_hess = node["grad"], node["hess"], node["min_hess"]
    left_grad, left_hess = left[:, 0].astype(np.float64), left[:, 1].astype(np.float64)
    right_grad, right_hess = grad - left_grad, hess - left_hess
    gl = _soften(left_grad * rules.grad_scale, rules.reg_alpha)
    gr = _soften(right_grad * rules.grad_scale, rules.reg_alpha)
    reg_lambda = rules.reg_lambda + extra_lambda
    hl = left_hess * rules.hess_scale + reg_lambda
    hr = right_hess * rules.hess_scale + reg_lambda
    with np.errstate(divide="ignore", invalid="ignore"):
        children = ((gl * gl) * hr + (gr * gr) * hl) / (hl * hr)
    gain = 0.5 * (children - leaf_score(grad, hess, rules))
    return np.where((left_hess >= min_hess) & (right_hess >= min_hess), gain, -np.inf)
