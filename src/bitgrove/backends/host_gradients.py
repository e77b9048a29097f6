"""Gradients of an objective in NumPy, with the bounds that quantization needs.

The oracle's way for every objective, and every host's for a function of the user's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends.base import Targets
from bitgrove.backends.told import Gradients, Known, OutputGradients
from bitgrove.kernels.plans import MAGNITUDE_BUCKETS, MAGNITUDE_SHIFT, MAGNITUDES, records
from bitgrove.objectives import Objective

Array = NDArray[Any]


def host_gradients(objective: Objective, scores: Array, targets: Targets) -> Gradients:
    grad, hess = objective.gradients(scores, *targets)
    parts = [output_gradients(grad[k], None if hess is None else hess[k]) for k in range(len(grad))]
    return Gradients(grad, hess, Known(np.stack([part.magnitudes for part in parts])))


def output_gradients(grad: Array, hess: Array | None) -> OutputGradients:
    """One output's gradients with their magnitudes, from host arrays."""
    told = records(MAGNITUDES, 1)
    found = told[0]
    for side, values in (("grad", grad), ("hess", hess)):
        if values is not None:
            bits = values.view(np.uint32) & 0x7FFFFFFF
            found[f"{side}_top"] = bits.max(initial=0)
            found[f"{side}_rows"] = np.count_nonzero(bits)
            found[f"{side}_logs"] = (bits >> MAGNITUDE_SHIFT).sum(dtype=np.int64)
    return OutputGradients(grad, hess, Known(told))


def bucket_counts(values: NDArray[np.float32]) -> NDArray[np.int64]:
    """How many |values| fall into each bucket: the upper bits of their pattern."""
    bits = values.view(np.uint32) & 0x7FFFFFFF
    return np.bincount(bits >> MAGNITUDE_SHIFT, minlength=MAGNITUDE_BUCKETS)
