"""Metrics that are a mean over rows."""

from __future__ import annotations

import math

import numpy as np

from bitgrove.arithmetic.exact_math import exact_log
from bitgrove.objectives.metrics.base import F64, EvalData, RowMetric

_TINY_PROBABILITY = 1e-15


def _surprise(probability: F64) -> F64:
    """-log of the probability that the true class was given."""
    return -exact_log(np.clip(probability, _TINY_PROBABILITY, 1.0))


class Logloss(RowMetric):
    base_name = "logloss"
    synonyms = ("binary_logloss",)
    judges = "probability"

    def term(self, data: EvalData) -> F64:
        return _surprise(np.where(data.label > 0, data.prediction, 1.0 - data.prediction))


class Error(RowMetric):
    base_name = "error"
    synonyms = ("binary_error",)
    judges = "probability"

    def term(self, data: EvalData) -> F64:
        return ((data.prediction > 0.5) != (data.label > 0)).astype(np.float64)


class Rmse(RowMetric):
    base_name = "rmse"
    synonyms = ("l2_root",)
    judges = "value"

    def term(self, data: EvalData) -> F64:
        return np.square(data.prediction - data.label)

    def of_mean(self, mean: float) -> float:
        return math.sqrt(mean)


class Mae(RowMetric):
    base_name = "mae"
    synonyms = ("l1",)
    judges = "value"

    def term(self, data: EvalData) -> F64:
        return np.abs(data.prediction - data.label)


class MultiLogloss(RowMetric):
    base_name = "multi_logloss"
    synonyms = ("mlogloss",)
    judges = "class probabilities"

    def term(self, data: EvalData) -> F64:
        return _surprise(data.prediction[np.arange(len(data.label)), data.label.astype(np.int64)])


class MultiError(RowMetric):
    base_name = "multi_error"
    synonyms = ("merror",)
    judges = "class probabilities"

    def term(self, data: EvalData) -> F64:
        return (data.prediction.argmax(axis=1) != data.label).astype(np.float64)
