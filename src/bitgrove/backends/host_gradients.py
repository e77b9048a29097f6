"""Gradients of an objective in NumPy, with the bounds that quantization needs.

The oracle's way for every objective, and every host's for a function of the user's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends.base import Gradients, OutputGradients, Targets
from bitgrove.kernels.plans import MAGNITUDE_BUCKETS, MAGNITUDE_SHIFT
from bitgrove.objectives import Objective

Array = NDArray[Any]


def host_gradients(
    objective: Objective, scores: Array, targets: Targets, count_magnitudes: bool
) -> Gradients:
    grad, hess = objective.gradients(scores, *targets)
    parts = [
        output_gradients(grad[k], None if hess is None else hess[k], count_magnitudes)
        for k in range(len(grad))
    ]
    tops = np.stack([part.tops for part in parts])
    counts = [part.counts for part in parts if part.counts is not None]
    return Gradients(grad, hess, tops, np.stack(counts) if count_magnitudes else None)


def output_gradients(grad: Array, hess: Array | None, count_magnitudes: bool) -> OutputGradients:
    """One output's gradients with their bounds, from host arrays."""
    no_hess = np.zeros(0, dtype=np.float32)
    bits = [v.view(np.uint32) & 0x7FFFFFFF for v in (grad, no_hess if hess is None else hess)]
    tops = np.array([b.max(initial=0) for b in bits], dtype=np.uint32)
    counts = None
    if count_magnitudes:
        counts = np.stack([bucket_counts(v) for v in (grad, no_hess if hess is None else hess)])
    return OutputGradients(grad, hess, tops, counts)


def bucket_counts(values: NDArray[np.float32]) -> NDArray[np.int64]:
    """How many |values| fall into each bucket: the upper bits of their pattern."""
    bits = values.view(np.uint32) & 0x7FFFFFFF
    return np.bincount(bits >> MAGNITUDE_SHIFT, minlength=MAGNITUDE_BUCKETS)
