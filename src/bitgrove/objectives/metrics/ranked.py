"""Metrics of an order: of all rows (auc), or of the rows of each query (ndcg)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.fixed_point import to_units
from bitgrove.errors import DataError
from bitgrove.objectives.metrics.base import EvalData, Metric, weighted_mean
from bitgrove.objectives.ranking import dcg, discounts, ideal_dcg

if TYPE_CHECKING:
    from bitgrove.distributed.comm import Comm


class Auc(Metric):
    """Area under the ROC curve by ranks; equal predictions count half."""

    base_name = "auc"
    judges = "probability"
    higher_is_better = True

    def compute(self, data: EvalData, comm: Comm) -> float:
        prediction, label, weight = (
            np.concatenate(comm.allgather(part))
            for part in (data.prediction, data.label, data.weight)
        )
        order = np.argsort(prediction)  # equal ones in any order: they are added up as one
        prediction, label, weight = prediction[order], label[order], weight[order]
        starts = np.flatnonzero(np.concatenate([[True], prediction[1:] != prediction[:-1]]))
        # Weights as integers: their running sums do not depend on order.
        _, exponent = np.frexp(weight.max())
        unit = 61 - int(exponent) - len(weight).bit_length()
        whole = to_units(weight, unit)
        positive = np.add.reduceat(np.where(label > 0, whole, 0), starts)
        negative = np.add.reduceat(np.where(label > 0, 0, whole), starts)
        below = np.cumsum(negative) - negative
        pairs = int(positive.sum()) * int(negative.sum())
        if pairs == 0:
            return 0.5  # one class only: no pair to order
        # Python divides whole numbers of any size with one rounding: a perfect order is exactly 1.
        return _whole_dot(positive, 2 * below + negative) / (2 * pairs)


def _whole_dot(a: NDArray[np.int64], b: NDArray[np.int64]) -> int:
    """The exact sum of the products, by digits of 16 bits that cannot overflow for 2^31 rows."""
    shifts = (0, 16, 32, 48)
    digits_a, digits_b = ([x >> shift & 0xFFFF for shift in shifts] for x in (a, b))
    return sum(
        int(x @ y) << (i + j)
        for i, x in zip(shifts, digits_a, strict=True)
        for j, y in zip(shifts, digits_b, strict=True)
    )


@dataclass(frozen=True)
class Ndcg(Metric):
    """DCG of the first k ranks over the best possible, the mean of all queries."""

    base_name = "ndcg"
    judges = "ranking score"
    higher_is_better = True
    takes_rank = True

    k: int = 10

    @property
    def name(self) -> str:
        return f"{self.base_name}@{self.k}"

    def compute(self, data: EvalData, comm: Comm) -> float:
        if data.group is None:
            raise DataError("group: ndcg needs the number of rows of each query")
        sizes = data.group
        query = np.repeat(np.arange(len(sizes)), sizes)
        order = np.lexsort((-data.prediction, query))  # stable: ties stay in row order
        gain = data.label_gain[data.label.astype(np.int64)]
        discount = discounts(int(sizes.max(initial=0)))
        best = ideal_dcg(gain, sizes, discount, self.k)
        found = dcg(gain[order], query, sizes, discount, self.k)
        # A query without relevant rows counts as perfect, as in LightGBM.
        value = np.divide(found, best, out=np.ones_like(best), where=best > 0.0)
        return weighted_mean(value, np.ones_like(value), comm)
