"""Metrics of the order of all rows: the areas under the ROC and precision-recall curves."""

from __future__ import annotations

from bitgrove.objectives.metrics.base import Metric
from bitgrove.objectives.metrics.order import OrderSums
from bitgrove.objectives.metrics.tally import Promise, Tally


class OrderMetric(Metric):
    """Of rows in the order of their predictions, over all ranks; several outputs: their mean."""

    judges = ("probability", "score")
    higher_is_better = True

    def judge(self, tally: Tally) -> Promise[float]:
        sums = [tally.order(k) for k in range(tally.n_outputs)]
        return lambda: sum(self.of_order(found()) for found in sums) / len(sums)

    def of_order(self, sums: OrderSums) -> float:
        raise NotImplementedError


class Auc(OrderMetric):
    """Area under the ROC curve by ranks; equal predictions count half."""

    base_name = "auc"

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
