"""The scikit-learn estimators: what they share (base), and one room for each."""

from bitgrove.estimators.base import Estimator
from bitgrove.estimators.classifier import BitGroveClassifier
from bitgrove.estimators.ranker import BitGroveRanker
from bitgrove.estimators.regressor import BitGroveRegressor

__all__ = ["BitGroveClassifier", "BitGroveRanker", "BitGroveRegressor", "Estimator"]
