"""A table whose numbers GPUs would flush to zero."""

from __future__ import annotations

import numpy as np

from cases import Case, base_params


def denormal_case(n_rows: int = 20_000) -> Case:
    """One feature of float32 denormals of both signs, 1e-42 to 2e-40, that the label depends on."""
    rng = np.random.default_rng(13)
    steps = rng.integers(714, 142_725, size=n_rows)  # of the smallest float32, 2^-149
    signs = rng.choice([-1.0, 1.0], size=n_rows)
    X = (signs * steps * 2.0**-149).astype(np.float32)[:, None]
    y = signs * ((steps // 8192) % 5)
    return Case(base_params("regression", num_leaves=63), X, y)
