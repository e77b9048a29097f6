"""Losses, links and metrics: one class each, registered once. base.py tells an objective's life."""

from bitgrove.objectives.base import (
    OBJECTIVES,
    SYNONYMS,
    Objective,
    make_objective,
    owners,
    register,
)
from bitgrove.objectives.binary import Binary
from bitgrove.objectives.multiclass import Multiclass
from bitgrove.objectives.ranking import LambdaRank
from bitgrove.objectives.regression import Regression

# The order of lists in messages and on the page of parameters.
for _objective in (Binary, Regression, Multiclass, LambdaRank):
    register(_objective)

__all__ = [
    "OBJECTIVES",
    "SYNONYMS",
    "Binary",
    "LambdaRank",
    "Multiclass",
    "Objective",
    "Regression",
    "make_objective",
    "owners",
    "register",
]
