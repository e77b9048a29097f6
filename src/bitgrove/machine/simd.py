"""Which instruction set the kernels use: the processor's best, or a lower one by BITGROVE_SIMD."""

from __future__ import annotations

import os

from bitgrove import _core
from bitgrove.errors import ParameterError

SIMD_LEVELS = {"scalar": 0, "avx2": 1, "avx512": 2}


def simd_level() -> int:
    """The processor's best instruction set, or the lower one BITGROVE_SIMD asks for."""
    best = int(_core.best_simd())
    wanted = os.environ.get("BITGROVE_SIMD", "").lower()
    if not wanted:
        return best
    if wanted not in SIMD_LEVELS:
        raise ParameterError(f"BITGROVE_SIMD={wanted!r}: must be one of {', '.join(SIMD_LEVELS)}")
    return min(best, SIMD_LEVELS[wanted])
