"""Metrics of the order of all rows: the areas under the ROC and precision-recall curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.fixed_point import to_units
from bitgrove.objectives.metrics.base import F64, EvalData, Metric

if TYPE_CHECKING:
    from bitgrove.distributed.comm import Comm

I64 = NDArray[np.int64]


class _Steps(NamedTuple):
    """Whole weights of the two classes at each distinct prediction, which ascend."""

    positive: I64
    negative: I64


class OrderMetric(Metric):
    """Of rows in the order of their predictions, over all ranks; several outputs: their mean."""

    judges = ("probability", "score")
    higher_is_better = True

    def compute(self, data: EvalData, comm: Comm) -> float:
        if data.prediction.ndim == 1:
            return self.of_steps(_steps(data.prediction, data.label, data.weight, comm))
        total = 0.0
        for k in range(data.n_outputs):
            column = np.ascontiguousarray(data.prediction[:, k])
            total += self.of_steps(_steps(column, data.label_of(k), data.weight, comm))
        return total / data.n_outputs

    def of_steps(self, steps: _Steps) -> float:
        raise NotImplementedError


def _steps(prediction: F64, label: F64, weight: F64, comm: Comm) -> _Steps:
    prediction, label, weight = (
        np.concatenate(comm.allgather(np.ascontiguousarray(part)))
        for part in (prediction, label, weight)
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
    return _Steps(positive, negative)


class Auc(OrderMetric):
    """Area under the ROC curve by ranks; equal predictions count half."""

    base_name = "auc"

    def of_steps(self, steps: _Steps) -> float:
        positive, negative = steps
        below = np.cumsum(negative) - negative
        pairs = int(positive.sum()) * int(negative.sum())
        if pairs == 0:
            return 0.5  # one class only: no pair to order
        # Python divides whole numbers of any size with one rounding: a perfect order is exactly 1.
        return _whole_dot(positive, 2 * below + negative) / (2 * pairs)


class AveragePrecision(OrderMetric):
    """The mean precision over the positives, from the top prediction down."""

    base_name = "average_precision"
    synonyms = ("aucpr", "ap")

    def of_steps(self, steps: _Steps) -> float:
        positive, negative = (side[::-1] for side in steps)
        found = np.cumsum(positive)
        if found[-1] == 0:
            return 0.0  # no positive to find
        precision = found / np.maximum(found + np.cumsum(negative), 1)
        return float((positive * precision).sum() / found[-1])


def _whole_dot(a: NDArray[np.int64], b: NDArray[np.int64]) -> int:
    """The exact sum of the products, by digits of 16 bits that cannot overflow for 2^31 rows."""
    shifts = (0, 16, 32, 48)
    digits_a, digits_b = ([x >> shift & 0xFFFF for shift in shifts] for x in (a, b))
    return sum(
        int(x @ y) << (i + j)
        for i, x in zip(shifts, digits_a, strict=True)
        for j, y in zip(shifts, digits_b, strict=True)
    )
