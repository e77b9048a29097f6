"""The theory of the paper as functions, and the quantities it speaks of as measurements.

bounds: the two theorems on the error of a split's gain, and what they assume.
leaves: gamma and average hessian of every leaf, recorded by a callback during training.
gain_error: the error itself, measured by rounding again and again.
suggestion: the fewest bits whose measured error stays under a tolerance.
"""

from bitgrove.theory.bounds import (
    gain_error_bound,
    gamma,
    hessian_gain_error_bound,
    least_rows,
    units,
)
from bitgrove.theory.gain_error import GainErrors, measure_gain_errors
from bitgrove.theory.leaves import LeafRecorder
from bitgrove.theory.suggestion import BitsSuggestion, suggest_bits

__all__ = [
    "BitsSuggestion",
    "GainErrors",
    "LeafRecorder",
    "gain_error_bound",
    "gamma",
    "hessian_gain_error_bound",
    "least_rows",
    "measure_gain_errors",
    "suggest_bits",
    "units",
]
