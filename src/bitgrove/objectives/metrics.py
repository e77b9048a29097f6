"""Metrics, equal on any number of ranks: integer counts or fixed-point sums.

Receives predictions (probabilities, values or ranking scores), labels, weights and query sizes of
this rank and a Comm; returns one float that is the same everywhere, so that early stopping is too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.exact_math import exact_log
from bitgrove.arithmetic.fixed_point import fixed_point_sums, to_units
from bitgrove.distributed.comm import Comm
from bitgrove.errors import DataError
from bitgrove.objectives import dcg, discounts, ideal_dcg

F64 = NDArray[np.float64]
_TINY_PROBABILITY = 1e-15


@dataclass(frozen=True, eq=False)
class EvalData:
    """One rank's part of an evaluation set."""

    prediction: F64
    label: F64
    weight: F64
    group: NDArray[np.int64] | None
    label_gain: F64


@dataclass(frozen=True)
class Metric:
    name: str
    higher_is_better: bool
    compute: Callable[[EvalData, Comm], float]


def _mean(values: F64, weight: F64, comm: Comm) -> float:
    total, weights = fixed_point_sums([values * weight, weight], comm)
    return float(total / weights)


def _log_probability(p: F64) -> F64:
    return exact_log(np.clip(p, _TINY_PROBABILITY, 1.0))


def _logloss(d: EvalData, comm: Comm) -> float:
    p = np.where(d.label > 0, d.prediction, 1.0 - d.prediction)
    return _mean(-_log_probability(p), d.weight, comm)


def _error(d: EvalData, comm: Comm) -> float:
    return _mean(((d.prediction > 0.5) != (d.label > 0)).astype(np.float64), d.weight, comm)


def _rmse(d: EvalData, comm: Comm) -> float:
    return float(np.sqrt(_mean(np.square(d.prediction - d.label), d.weight, comm)))


def _mae(d: EvalData, comm: Comm) -> float:
    return _mean(np.abs(d.prediction - d.label), d.weight, comm)


def _multi_logloss(d: EvalData, comm: Comm) -> float:
    p = d.prediction[np.arange(len(d.label)), d.label.astype(np.int64)]
    return _mean(-_log_probability(p), d.weight, comm)


def _multi_error(d: EvalData, comm: Comm) -> float:
    wrong = d.prediction.argmax(axis=1) != d.label
    return _mean(wrong.astype(np.float64), d.weight, comm)


def _auc(d: EvalData, comm: Comm) -> float:
    """Area under the ROC curve by ranks; equal predictions count half."""
    prediction, label, weight = (
        np.concatenate(comm.allgather(part)) for part in (d.prediction, d.label, d.weight)
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


def _ndcg(k: int) -> Callable[[EvalData, Comm], float]:
    def compute(d: EvalData, comm: Comm) -> float:
        if d.group is None:
            raise DataError("group: ndcg needs the number of rows of each query")
        sizes = d.group
        query = np.repeat(np.arange(len(sizes)), sizes)
        order = np.lexsort((-d.prediction, query))  # stable: ties stay in row order
        gain = d.label_gain[d.label.astype(np.int64)]
        discount = discounts(int(sizes.max(initial=0)))
        best = ideal_dcg(gain, sizes, discount, k)
        found = dcg(gain[order], query, sizes, discount, k)
        # A query without relevant rows counts as perfect, as in LightGBM.
        value = np.divide(found, best, out=np.ones_like(best), where=best > 0.0)
        return _mean(value, np.ones_like(value), comm)

    return compute


_METRICS = {
    "auc": Metric("auc", True, _auc),
    "logloss": Metric("logloss", False, _logloss),
    "error": Metric("error", False, _error),
    "rmse": Metric("rmse", False, _rmse),
    "mae": Metric("mae", False, _mae),
    "multi_logloss": Metric("multi_logloss", False, _multi_logloss),
    "multi_error": Metric("multi_error", False, _multi_error),
}


def make_metric(name: str) -> Metric:
    """The metric of a name that params.py accepted; "ndcg" means ndcg@10."""
    if name.startswith("ndcg"):
        k = int(name.partition("@")[2] or 10)
        return Metric(f"ndcg@{k}", True, _ndcg(k))
    return _METRICS[name]
