"""exp, log and sigmoid that give the same bits everywhere.

Owns the NumPy twin of kernels/shared/math.h, operation by operation, and the hashing twin of
kernels/shared/rounding.h. The reference backend computes with these; everything that runs on the
host with any backend (metrics, base scores) calls the compiled functions, which tests prove equal.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core

F64 = NDArray[np.float64]

_ROUNDING_SHIFT = 6755399441055744.0
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_SQRT_2 = 1.4142135623730951


def numpy_exp(x: F64) -> F64:
    """exp(x) in NumPy, the same bits as exact_exp in math.h."""
    x = np.minimum(np.maximum(x, -708.0), 709.0)
    k = (x * _LOG2_E + _ROUNDING_SHIFT) - _ROUNDING_SHIFT
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = np.full_like(r, 1.0 / math.factorial(13))
    for n in range(12, -1, -1):
        p = p * r + 1.0 / math.factorial(n)
    return p * ((k.astype(np.int64) + 1023) << 52).view(np.float64)


def numpy_log(x: F64) -> F64:
    """log(x) of positive normal numbers in NumPy, the same bits as exact_log in math.h."""
    bits = np.ascontiguousarray(x).view(np.int64)
    exponent = ((bits >> 52) - 1023).astype(np.float64)
    m = ((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000).view(np.float64)
    large = m > _SQRT_2
    m = np.where(large, m * 0.5, m)
    exponent = np.where(large, exponent + 1.0, exponent)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = np.full_like(z, 1.0 / 23.0)
    for n in range(21, 0, -2):
        p = p * z + 1.0 / n
    return exponent * _LN2_HIGH + ((2.0 * s) * p + exponent * _LN2_LOW)


def numpy_sigmoid(x: F64) -> F64:
    return 1.0 / (1.0 + numpy_exp(-x))


def numpy_to_gradient(x: F64) -> NDArray[np.float32]:
    """float32 with denormals set to zero, as to_gradient in math.h."""
    with np.errstate(over="ignore"):
        value = x.astype(np.float32)
    return np.where(np.abs(value) < np.float32(1.17549435e-38), np.float32(0.0), value)


def exact_exp(x: F64) -> F64:
    return _apply(_core.exp, x)


def exact_log(x: F64) -> F64:
    return _apply(_core.log, x)


def exact_sigmoid(x: F64) -> F64:
    return _apply(_core.sigmoid, x)


def _apply(function: object, x: F64) -> F64:
    flat = np.ascontiguousarray(x, dtype=np.float64).reshape(-1)
    out = np.empty_like(flat)
    function(flat, out, 1, _core.best_simd())  # type: ignore[operator]
    return out.reshape(np.shape(x))


_MASK = (1 << 64) - 1


def mix64(x: int) -> int:
    """The finaliser of splitmix64 on one Python integer."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def hash_key(seed: int, *parts: int) -> int:
    """A 64-bit key for a purpose, a tree, ...: the seed of row_hash."""
    key = mix64(seed & _MASK)
    for part in parts:
        key = longer_key(key, part)
    return key


def longer_key(key: int, part: int) -> int:
    """hash_key with one part more."""
    return mix64((key + (part + 1) * 0x9E3779B97F4A7C15) & _MASK)


def row_hash(key: int, rows: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash of each global row id, the same bits as row_hash in rounding.h."""
    with np.errstate(over="ignore"):
        x = np.uint64(key) + rows * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
