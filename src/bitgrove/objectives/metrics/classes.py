"""Metrics of probabilities and classes."""

from __future__ import annotations

import numpy as np

from bitgrove.arithmetic.exact_math import exact_log
from bitgrove.objectives.metrics.base import Metric, RowMetric
from bitgrove.objectives.metrics.facts import F64, EvalData, by_row
from bitgrove.objectives.metrics.tally import Promise, Tally

_TINY_PROBABILITY = 1e-15


def _surprise(probability: F64) -> F64:
    """-log of the probability that the true class was given."""
    return -exact_log(np.clip(probability, _TINY_PROBABILITY, 1.0))


class Logloss(RowMetric):
    base_name = "logloss"
    kernel = "logloss"
    synonyms = ("binary_logloss", "binary", "log_loss", "Logloss")
    judges = ("probability",)

    def term(self, prediction: F64, label: F64) -> F64:
        return _surprise(np.where(label > 0, prediction, 1.0 - prediction))


class CrossEntropyMetric(RowMetric):
    """The log loss for labels that are probabilities themselves."""

    base_name = "cross_entropy"
    kernel = "cross_entropy"
    synonyms = ("xentropy", "CrossEntropy")
    judges = ("probability",)

    def term(self, prediction: F64, label: F64) -> F64:
        return label * _surprise(prediction) + (1.0 - label) * _surprise(1.0 - prediction)


class Brier(RowMetric):
    """The mean squared error of the probability."""

    base_name = "brier"
    kernel = "squared"
    synonyms = ("brier_score", "brier_score_loss", "BrierScore")
    judges = ("probability",)

    def term(self, prediction: F64, label: F64) -> F64:
        return np.square(prediction - label)


class Error(RowMetric):
    base_name = "error"
    kernel = "wrong"
    synonyms = ("binary_error", "hamming_loss")
    judges = ("probability",)

    def term(self, prediction: F64, label: F64) -> F64:
        return ((prediction > 0.5) != (label > 0)).astype(np.float64)


class MultiLogloss(RowMetric):
    base_name = "multi_logloss"
    class_kernel = "class_surprise"
    synonyms = ("mlogloss", "multiclass", "softmax", "MultiClass")
    judges = ("class probabilities",)

    def terms(self, data: EvalData) -> F64:
        return _surprise(data.prediction[np.arange(len(data.label)), data.label.astype(np.int64)])


class MultiError(RowMetric):
    base_name = "multi_error"
    class_kernel = "wrong_class"
    synonyms = ("merror",)
    judges = ("class probabilities",)

    def terms(self, data: EvalData) -> F64:
        return (data.prediction.argmax(axis=1) != data.label).astype(np.float64)


class ClassMetric(Metric):
    """From the weights of all pairs (true class, predicted class).

    Probabilities of several columns (labels of their own) count as one each: the mean of theirs.
    """

    judges = ("probability", "class probabilities")
    higher_is_better = True

    def judge(self, tally: Tally) -> Promise[float]:
        if tally.n_outputs > 1 and not tally.has_labels_by_output:
            all_pairs = [tally.pairs()]
        else:
            all_pairs = [tally.pairs(k) for k in range(tally.n_outputs)]
        return lambda: sum(self.of_pairs(pairs()) for pairs in all_pairs) / len(all_pairs)

    def of_pairs(self, pairs: F64) -> float:
        """pairs[true class, predicted class] are weights."""
        raise NotImplementedError


def _ratio(a: F64, b: F64) -> F64:
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0.0)


class BalancedAccuracy(ClassMetric):
    """The mean over classes of how many of their rows are found."""

    base_name = "balanced_accuracy"
    synonyms = ("BalancedAccuracy",)

    def of_pairs(self, pairs: F64) -> float:
        sizes = pairs.sum(axis=1)
        found = _ratio(np.diagonal(pairs).copy(), sizes)[sizes > 0.0]
        return float(found.sum() / len(found))


class F1(ClassMetric):
    """Of the positive class; of many classes, the mean of each against the rest (macro)."""

    base_name = "f1"
    synonyms = ("f1_score", "F1")

    def of_pairs(self, pairs: F64) -> float:
        right, total = np.diagonal(pairs).copy(), pairs.sum(axis=0) + pairs.sum(axis=1)
        scores = _ratio(2.0 * right, total)
        return float(scores[1] if len(scores) == 2 else scores[total > 0.0].mean())


class Kappa(ClassMetric):
    """Cohen's kappa: agreement beyond chance."""

    base_name = "kappa"
    synonyms = ("cohen_kappa", "Kappa")

    def of_pairs(self, pairs: F64) -> float:
        total = float(pairs.sum())
        chance = float((pairs.sum(axis=0) * pairs.sum(axis=1)).sum()) / total
        agreed = float(np.diagonal(pairs).sum())
        return 1.0 if total == chance else (agreed - chance) / (total - chance)


class Accuracy(RowMetric):
    base_name = "accuracy"
    synonyms = ("Accuracy",)
    kernel = "right"
    class_kernel = "right_class"
    judges = ("probability", "class probabilities")
    higher_is_better = True

    def terms(self, data: EvalData) -> F64:
        if data.prediction.ndim == 2 and data.label.ndim == 1:
            return (data.prediction.argmax(axis=1) == data.label).astype(np.float64)
        return super().terms(data)

    def term(self, prediction: F64, label: F64) -> F64:
        return ((prediction > 0.5) == (label > 0)).astype(np.float64)


class SubsetAccuracy(RowMetric):
    """Rows whose labels are all predicted right; with one label the accuracy."""

    base_name = "subset_accuracy"
    kernel = "all_right"
    synonyms = ("exact_match",)
    judges = ("probability",)
    higher_is_better = True

    def terms(self, data: EvalData) -> F64:
        right = (by_row(data.prediction) > 0.5) == (by_row(data.label) > 0)
        return right.all(axis=1).astype(np.float64)
