"""Random numbers that NumPy and CuPy draw alike: hashes of a counter.

Owns Draws: uniform and normal float32 numbers, one after the other from a key.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Xp = Any  # numpy or cupy
_STEP, _FIRST, _SECOND = (
    np.uint64(c) for c in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
_LOW = np.uint64(0xFFFFFF)
_UNIT = np.float32(2.0**-24)


class Draws:
    """A stream of numbers; two of different keys have nothing in common."""

    def __init__(self, xp: Xp, key: int) -> None:
        self._xp, self._next = xp, key << 40

    def uniform(self, *shape: int) -> Any:
        """In [0, 1)."""
        return ((self._hashes(shape) >> np.uint64(40)).astype(np.float32)) * _UNIT

    def normal(self, *shape: int) -> Any:
        """Box and Muller's, of which only the cosine is used."""
        xp, bits = self._xp, self._hashes(shape)
        radius = ((bits >> np.uint64(40)).astype(np.float32) + np.float32(0.5)) * _UNIT
        angle = (bits & _LOW).astype(np.float32) * (_UNIT * np.float32(2.0 * math.pi))
        return xp.sqrt(xp.log(radius) * np.float32(-2.0)) * xp.cos(angle)

    def _hashes(self, shape: tuple[int, ...]) -> Any:
        """splitmix64 of the next numbers."""
        n = math.prod(shape)
        bits = self._xp.arange(n, dtype=np.uint64)
        bits += np.uint64(self._next % 2**64)
        self._next += n
        bits *= _STEP
        bits ^= bits >> np.uint64(30)
        bits *= _FIRST
        bits ^= bits >> np.uint64(27)
        bits *= _SECOND
        bits ^= bits >> np.uint64(31)
        return bits.reshape(shape)
