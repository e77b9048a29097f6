"""Metrics of the order of all rows: the areas under the ROC and precision-recall curves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitgrove.objectives.metrics.base import Metric
from bitgrove.objectives.metrics.facts import EvalSet, by_row
from bitgrove.objectives.metrics.order import OrderSums
from bitgrove.objectives.metrics.tally import Promise, Tally


class OrderMetric(Metric):
    """Of rows in the order of their predictions, over all ranks; several outputs: their mean."""

    judges = ("probability", "score")
    higher_is_better = True
    needs = "rows of both classes (in each column of labels)"

    def evidence(self, given: EvalSet) -> NDArray[np.bool_]:
        label = by_row(given.label if given.weight is None else given.label[given.weight > 0.0])
        return np.concatenate([(label > 0).any(axis=0), (label <= 0).any(axis=0)])

    def judge(self, tally: Tally) -> Promise[float]:
        sums = [tally.order(k) for k in range(tally.n_outputs)]
        return lambda: sum(self.of_order(found()) for found in sums) / len(sums)

    def of_order(self, sums: OrderSums) -> float:
        raise NotImplementedError


class Auc(OrderMetric):
    """Area under the ROC curve by ranks; equal predictions count half."""

    base_name = "auc"
    synonyms = ("AUC",)

    def of_order(self, sums: OrderSums) -> float:
        pairs = sums.positive * sums.negative
        if pairs == 0:
            return 0.5  # one class only: no pair to order
        # Python divides whole numbers of any size with one rounding: a perfect order is exactly 1.
        return sums.area / (2 * pairs)


class AveragePrecision(OrderMetric):
    """The mean precision over the positives, from the top prediction down."""

    base_name = "average_precision"
    synonyms = ("aucpr", "ap")

    def of_order(self, sums: OrderSums) -> float:
        return sums.precision / sums.positive if sums.positive else 0.0  # no positive to find
