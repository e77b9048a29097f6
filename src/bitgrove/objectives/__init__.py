"""Losses: what labels are allowed, where the scores start, and what a score means.

Owns Objective (one per training) and the query tables of lambdarank. Receives checked labels and
weights; backends compute the gradients themselves from kernels/shared/losses.h, told by `name`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitgrove.arithmetic.exact_math import exact_exp, exact_log, exact_sigmoid
from bitgrove.arithmetic.fixed_point import fixed_point_sums
from bitgrove.data.dataset import Dataset
from bitgrove.distributed.comm import Comm
from bitgrove.errors import DataError, ParameterError
from bitgrove.params import TrainParams

F64 = NDArray[np.float64]
DEFAULT_METRIC = {
    "binary": "logloss",
    "regression": "rmse",
    "multiclass": "multi_logloss",
    "lambdarank": "ndcg@10",
}
_LN2 = 0.6931471805599453
# A query's lambdas are summed in int64 fixed point: pairs are bounded by 100 * sigmoid^2.
_MAX_LABEL = 31
_MAX_CLASSES = 1 << 16
_MAX_QUERY_ROWS = 1 << 20


@dataclass(frozen=True)
class Objective:
    name: str
    n_outputs: int
    sigmoid: float = 1.0
    truncation: int = 30
    normalise: bool = True

    def constant_hessian(self, weight: NDArray[np.float32] | None) -> bool:
        """The count is the hessian: nothing to quantize."""
        return self.name == "regression" and weight is None


@dataclass(frozen=True, eq=False)
class Queries:
    """What the lambdarank kernel needs to know of the queries, in row order."""

    offset: NDArray[np.int64]
    inverse_max_dcg: F64
    unit: F64
    label_gain: F64
    discount: F64


def make_objective(params: TrainParams, train_set: Dataset, comm: Comm) -> Objective:
    """Checks the labels against the objective and the number of classes."""
    if params.objective is None:
        raise ParameterError(
            "objective: must be given; one of 'binary', 'regression', 'multiclass', 'lambdarank'"
        )
    if train_set.label is None:
        raise DataError("label: the training Dataset has none")
    label, name = train_set.label, params.objective
    _check_rules(params)
    _check_labels(name, label, params)
    n_outputs = _n_classes(params, label, comm) if name == "multiclass" else 1
    if name == "lambdarank" and train_set.group is None:
        raise DataError("group: lambdarank needs the number of rows of each query")
    return Objective(
        name,
        n_outputs,
        sigmoid=params.sigmoid,
        truncation=params.lambdarank_truncation_level,
        normalise=params.lambdarank_norm,
    )


def _check_rules(params: TrainParams) -> None:
    """Keeps the products of sigmoid and gains within float32 and the hessians positive."""
    if not 1e-6 <= params.sigmoid <= 1e6:
        raise ParameterError(f"sigmoid={params.sigmoid!r}: must lie between 1e-6 and 1e6")
    gains = np.asarray(params.label_gain or (0.0,))
    if (np.diff(gains) < 0.0).any() or ((gains != 0.0) & ((gains < 1e-30) | (gains > 1e30))).any():
        raise ParameterError(
            f"label_gain={params.label_gain!r}: must not decrease from one grade to the next, "
            "and each gain must be 0 or lie between 1e-30 and 1e30"
        )
    if (params.num_class or 0) > _MAX_CLASSES:
        raise ParameterError(f"num_class={params.num_class!r}: at most {_MAX_CLASSES} are possible")


def _n_classes(params: TrainParams, label: F64, comm: Comm) -> int:
    seen = int(comm.allreduce_max(np.array([label.max(initial=0.0)]))[0]) + 1
    n_total = int(comm.allreduce_sum(np.array([len(label)], dtype=np.int64))[0])
    if params.num_class is None:
        if seen < 2:
            raise DataError("label: multiclass needs at least 2 classes, all labels are 0")
        if seen > min(n_total, _MAX_CLASSES):
            raise DataError(
                f"label: class {seen - 1} found among {n_total} rows; number the classes "
                "0, 1, 2, ... or give num_class"
            )
        return seen
    if seen > params.num_class:
        raise DataError(f"label: class {seen - 1} found, but num_class is {params.num_class}")
    return params.num_class


def _check_labels(name: str, label: F64, params: TrainParams) -> None:
    if name == "binary" and not ((label == 0.0) | (label == 1.0)).all():
        raise DataError("label: objective 'binary' needs labels 0 and 1")
    if name in ("multiclass", "lambdarank"):
        not_whole = (label < 0) | (label != np.floor(label))
        top = len(label_gains(params)) - 1
        if name == "multiclass" and not_whole.any():
            raise DataError(
                f"label: multiclass needs whole labels 0, 1, 2, ..., got {label[not_whole][0]:g}"
            )
        if name == "lambdarank" and (not_whole | (label > top)).any():
            raise DataError(f"label: lambdarank needs whole grades 0 to {top} (see label_gain)")


def base_scores(objective: Objective, dataset: Dataset, comm: Comm) -> F64:
    """The best constant score of each output, from order-free sums."""
    label = dataset.label
    assert label is not None
    if objective.name == "lambdarank":
        return np.zeros(1)
    *sums, total = _label_sums(objective, label, dataset.weight, comm)
    means = np.array(sums) / total
    if objective.name == "regression":
        return means
    # A class that is absent gets a very small, not a zero, probability.
    means = np.clip(means, 1e-15, 1.0 - 1e-15)
    if objective.name == "multiclass":
        return exact_log(means)
    return exact_log(means / (1.0 - means)) / objective.sigmoid


def _label_sums(
    objective: Objective, label: F64, weight: NDArray[np.float32] | None, comm: Comm
) -> F64:
    """Per output the sum of the labels (multiclass: of the rows that have it), then of all rows."""
    if weight is not None:
        weights = weight.astype(np.float64)
        if objective.name == "multiclass":
            rows = [np.where(label == k, weights, 0.0) for k in range(objective.n_outputs)]
        else:
            rows = [label * weights]
        return fixed_point_sums([*rows, weights], comm)
    n_rows = comm.allreduce_sum(np.array([len(label)], dtype=np.int64))
    if objective.name == "multiclass":
        counts = np.bincount(label.astype(np.int64), minlength=objective.n_outputs)
        sums = comm.allreduce_sum(counts).astype(np.float64)
    else:
        sums = fixed_point_sums([label], comm)
    return np.append(sums, n_rows.astype(np.float64))


def scores_to_predictions(objective: str, scores: F64, sigmoid: float = 1.0) -> F64:
    """Probabilities (binary: (n,), multiclass: (n, k)), or the scores themselves (n,)."""
    if objective == "binary":
        return exact_sigmoid(sigmoid * scores[:, 0])
    if objective == "multiclass":
        powers = exact_exp(scores - scores.max(axis=1, keepdims=True))
        total = powers[:, 0].copy()
        for k in range(1, powers.shape[1]):  # a fixed order, as in the softmax kernel
            total = total + powers[:, k]
        return np.asarray(powers / total[:, None])
    return scores[:, 0]


def discounts(n_ranks: int) -> F64:
    """1 / log2(2 + rank)."""
    return _LN2 / exact_log(np.arange(2, n_ranks + 2, dtype=np.float64))


def label_gains(params: TrainParams) -> F64:
    if params.label_gain:
        return np.asarray(params.label_gain, dtype=np.float64)
    return np.ldexp(1.0, np.arange(_MAX_LABEL)) - 1.0


def make_queries(params: TrainParams, dataset: Dataset) -> Queries:
    assert dataset.group is not None and dataset.label is not None
    sizes = dataset.group
    largest = int(sizes.max(initial=0))
    if largest > _MAX_QUERY_ROWS:
        raise DataError(f"group: a query has {largest} rows; at most {_MAX_QUERY_ROWS}")
    offset = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    gains, discount = label_gains(params), discounts(largest)
    max_dcg = ideal_dcg(
        gains[dataset.label.astype(np.int64)], sizes, discount, params.lambdarank_truncation_level
    )
    inverse = np.divide(1.0, max_dcg, out=np.zeros_like(max_dcg), where=max_dcg > 0.0)
    # No sum over a query's pairs can reach 2^62 in this unit.
    n_pairs = sizes * np.minimum(sizes, params.lambdarank_truncation_level)
    largest_pair = 256.0 * max(params.sigmoid, params.sigmoid**2)
    _, bits = np.frexp(largest_pair * n_pairs)
    return Queries(offset, inverse, np.ldexp(1.0, 61 - bits), gains, discount)


def ideal_dcg(gain: F64, sizes: NDArray[np.int64], discount: F64, k: int) -> F64:
    """The largest possible DCG@k of each query, added from the top rank down."""
    query = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((-gain, query))
    return dcg(gain[order], query, sizes, discount, k)


def dcg(
    gain: F64, query: NDArray[np.int64], sizes: NDArray[np.int64], discount: F64, k: int
) -> F64:
    """DCG@k of each query; rows are already in rank order within their query."""
    starts = np.cumsum(sizes) - sizes
    rank = np.arange(len(gain)) - np.repeat(starts, sizes)
    terms = np.where(rank < k, gain * discount[rank], 0.0)
    by_query = np.bincount(query, weights=terms, minlength=len(sizes))  # adds in row order
    return by_query.astype(np.float64)
