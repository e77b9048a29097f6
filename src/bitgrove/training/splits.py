"""Splits: the record that comes back from a search, the rules of the gain, and the tie order.

The gain is equation (7) of the paper with L1/L2 regularisation. Ties: lowest feature, then lowest
bin, then missing-left. Between ranks the same order holds, since rank r owns lower features than
rank r + 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.distributed.comm import Comm
from bitgrove.params import TrainParams
from bitgrove.training.quantize import QuantizedGradients

# Mirrors SplitInfo in kernels/shared/layouts.h.
SPLIT_INFO = np.dtype(
    [
        ("gain", "<f8"),
        ("left_grad", "<i8"),
        ("left_hess", "<i8"),
        ("feature", "<i4"),
        ("bin", "<i4"),
        ("default_left", "<i4"),
        ("reserved", "<i4"),
    ]
)
SplitInfos = NDArray[np.void]


def no_splits(n_nodes: int) -> SplitInfos:
    infos = np.zeros(n_nodes, dtype=SPLIT_INFO)
    infos["gain"], infos["feature"] = -np.inf, -1
    return infos


class GainRules(NamedTuple):
    """What turns integer sums into a gain, for one tree."""

    grad_scale: float
    hess_scale: float
    reg_lambda: float
    reg_alpha: float
    min_gain: float
    min_child_hess: float  # the least integer hessian of a child, by min_child_weight

    @classmethod
    def of(cls, params: TrainParams, quantized: QuantizedGradients) -> GainRules:
        # The paper's gain has a factor 1/2 that LightGBM's and XGBoost's have not; the
        # parameter means what their users expect.
        scale = quantized.hess_scale
        return cls(
            quantized.grad_scale,
            scale,
            params.reg_lambda,
            params.reg_alpha,
            0.5 * params.min_split_gain,
            params.min_child_weight / scale if scale > 0.0 else np.inf,
        )

    def as_tuple(self) -> tuple[float, float, float, float, float]:
        return (self.grad_scale, self.hess_scale, self.reg_lambda, self.reg_alpha, self.min_gain)


def best_of_ranks(found: SplitInfos, comm: Comm) -> SplitInfos:
    """The best split of each node over all ranks; of equals, the lowest rank's."""
    if comm.size == 1:
        return found
    raw: list[Any] = comm.allgather(found.view(np.uint8), equal=True)
    everyone = np.concatenate(raw).view(SPLIT_INFO).reshape(comm.size, len(found))
    winner = np.argmax(everyone["gain"], axis=0)  # argmax takes the first of equals
    return np.asarray(everyone[winner, np.arange(len(found))])
