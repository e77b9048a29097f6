"""Metrics, equal on any number of ranks: one class each, registered once."""

from bitgrove.objectives.metrics.base import (
    METRICS,
    SYNONYMS,
    EvalData,
    Metric,
    judged_by,
    make_metric,
    register,
)
from bitgrove.objectives.metrics.ranked import Auc, Ndcg
from bitgrove.objectives.metrics.rows import Error, Logloss, Mae, MultiError, MultiLogloss, Rmse

# The order of lists in messages and on the page of parameters.
for _metric in (Auc, Logloss, Error, Rmse, Mae, MultiLogloss, MultiError, Ndcg):
    register(_metric)

__all__ = [
    "METRICS",
    "SYNONYMS",
    "EvalData",
    "Metric",
    "judged_by",
    "make_metric",
    "register",
]
