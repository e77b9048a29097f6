"""Losses, links and metrics: one class each, registered once. base.py tells an objective's life."""

from bitgrove.objectives.base import (
    OBJECTIVES,
    SYNONYMS,
    Objective,
    make_objective,
    objective_of,
    owners,
    register,
    with_penalty,
    written_out,
)
from bitgrove.objectives.binary import Binary, CrossEntropy, Focal
from bitgrove.objectives.custom import Custom
from bitgrove.objectives.listwise import RankXendcg
from bitgrove.objectives.multiclass import Multiclass, MulticlassOva
from bitgrove.objectives.positive import Gamma, Poisson, Tweedie
from bitgrove.objectives.quantiles import AbsoluteError, Mape, Quantile
from bitgrove.objectives.ranking import LambdaRank, RankMap, RankPairwise
from bitgrove.objectives.regression import (
    Expectile,
    Fair,
    Huber,
    LogCosh,
    PseudoHuber,
    Regression,
)

# The order of lists in messages and on the page of parameters.
for _objective in (
    Binary, Regression, Multiclass, LambdaRank,
    AbsoluteError, Quantile, Mape, Huber, PseudoHuber, Fair, LogCosh, Expectile,
    Poisson, Gamma, Tweedie, CrossEntropy, Focal, MulticlassOva, RankPairwise,
    RankMap, RankXendcg, Custom,
):  # fmt: skip
    register(_objective)

__all__ = [
    "OBJECTIVES",
    "SYNONYMS",
    "Binary",
    "Custom",
    "LambdaRank",
    "Multiclass",
    "Objective",
    "Regression",
    "make_objective",
    "objective_of",
    "owners",
    "register",
    "with_penalty",
    "written_out",
]
