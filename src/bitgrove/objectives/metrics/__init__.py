"""Metrics, equal on any number of ranks: one class each, registered once."""

from bitgrove.objectives.metrics.base import (
    METRICS,
    SYNONYMS,
    Metric,
    judged_by,
    make_metric,
    own_name,
    register,
)
from bitgrove.objectives.metrics.classes import (
    F1,
    Accuracy,
    BalancedAccuracy,
    Brier,
    CrossEntropyMetric,
    Error,
    Kappa,
    Logloss,
    MultiError,
    MultiLogloss,
    SubsetAccuracy,
)
from bitgrove.objectives.metrics.facts import EvalData, EvalSet, SetFacts
from bitgrove.objectives.metrics.function import FunctionMetric
from bitgrove.objectives.metrics.queries import MeanAveragePrecision, Mrr, Ndcg, Precision
from bitgrove.objectives.metrics.ranked import Auc, AveragePrecision
from bitgrove.objectives.metrics.tally import Ledger, NumpyTally
from bitgrove.objectives.metrics.values import (
    R2,
    ExpectileMetric,
    FairMetric,
    GammaDeviance,
    GammaLikelihood,
    HuberMetric,
    Mae,
    MapeMetric,
    Mse,
    Pinball,
    PoissonDeviance,
    PoissonLikelihood,
    Rmse,
    Rmsle,
    TweedieDeviance,
    TweedieLikelihood,
)

# The order of lists in messages and on the page of parameters.
for _metric in (
    Auc, Logloss, Error, Rmse, Mae, MultiLogloss, MultiError, Ndcg,
    AveragePrecision, Brier, CrossEntropyMetric, Accuracy, BalancedAccuracy, F1, Kappa,
    SubsetAccuracy,
    Mse, Rmsle, R2, MapeMetric, Pinball, ExpectileMetric, HuberMetric, FairMetric,
    PoissonLikelihood, PoissonDeviance, GammaLikelihood, GammaDeviance,
    TweedieLikelihood, TweedieDeviance, MeanAveragePrecision, Precision, Mrr,
):  # fmt: skip
    register(_metric)

__all__ = [
    "METRICS",
    "SYNONYMS",
    "EvalData",
    "EvalSet",
    "FunctionMetric",
    "Ledger",
    "Metric",
    "NumpyTally",
    "SetFacts",
    "judged_by",
    "make_metric",
    "own_name",
    "register",
]
