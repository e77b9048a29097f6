"""The theory of the paper as functions, and the quantities it speaks of as measurements.

bounds: the two theorems on the error of a split's gain, and what they assume.
leaves: gamma and average hessian of every leaf, recorded by a callback during training.
gain_error: the error itself, measured by rounding again and again.
split_regret: the gain that is lost because rounding chooses another split, and a certificate of it.
suggestion: the fewest bits whose split regret stays under a tolerance.
"""

from bitgrove.theory.bounds import (
    bernstein_slack,
    certified_share,
    gain_error_bound,
    gamma,
    hessian_gain_error_bound,
    least_rows,
    score_slack,
    units,
)
from bitgrove.theory.gain_error import GainErrors, measure_gain_errors
from bitgrove.theory.leaves import LeafRecorder
from bitgrove.theory.split_regret import SplitRegret, measure_split_regret
from bitgrove.theory.suggestion import BitsSuggestion, suggest_bits

__all__ = [
    "BitsSuggestion",
    "GainErrors",
    "LeafRecorder",
    "SplitRegret",
    "bernstein_slack",
    "certified_share",
    "gain_error_bound",
    "gamma",
    "hessian_gain_error_bound",
    "least_rows",
    "measure_gain_errors",
    "measure_split_regret",
    "score_slack",
    "suggest_bits",
    "units",
]
