"""Ranking of the rows of each query: losses of pairs, their query tables, gains and discounts.

Owns LambdaRank, RankPairwise, RankMap and DCG, which the metric ndcg shares; losses of whole lists
are in listwise.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from bitgrove.arithmetic.exact_math import exact_log, numpy_exp, numpy_log
from bitgrove.errors import DataError, ParameterError
from bitgrove.objectives.base import F64, I64, U64, Objective, Tables, check_sigmoid

_LN2 = 0.6931471805599453
_LOG2_E = 1.4426950408889634
_MAX_LABEL = 31
_MAX_QUERY_ROWS = 1 << 20


class Queries(NamedTuple):
    """What the gradients need to know of the queries, in row order."""

    offset: I64  # of each query's first row, and the end
    inverse_best: F64  # one over the largest sum that a query's rows can reach
    unit: F64  # of each query's fixed-point sums
    label_gain: F64
    discount: F64  # of each rank


def discounts(n_ranks: int) -> F64:
    """1 / log2(2 + rank)."""
    return _LN2 / exact_log(np.arange(2, n_ranks + 2, dtype=np.float64))


def ideal_dcg(gain: F64, sizes: I64, discount: F64, k: int) -> F64:
    """The largest possible DCG@k of each query, added from the top rank down."""
    query = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((-gain, query))
    return dcg(gain[order], query, sizes, discount, k)


def dcg(gain: F64, query: I64, sizes: I64, discount: F64, k: int) -> F64:
    """DCG@k of each query; rows are already in rank order within their query."""
    starts = np.cumsum(sizes) - sizes
    rank = np.arange(len(gain)) - np.repeat(starts, sizes)
    terms = np.where(rank < k, gain * discount[rank], 0.0)
    by_query = np.bincount(query, weights=terms, minlength=len(sizes))  # adds in row order
    return by_query.astype(np.float64)


@dataclass(frozen=True)
class Graded(Objective):
    """Labels are grades of relevance of the rows of a query."""

    default_metric = "ndcg@10"
    predicts = "ranking score"
    needs_queries = True

    label_gain: Sequence[float] | None = None

    @property
    def gains(self) -> F64:
        """Of grades 0, 1, 2, ...: as given, or 2^grade - 1."""
        if self.label_gain:
            return np.asarray(self.label_gain, dtype=np.float64)
        return np.ldexp(1.0, np.arange(_MAX_LABEL)) - 1.0

    @property
    def top_label(self) -> int | None:
        return len(self.gains) - 1

    def check_settings(self) -> None:
        gains = np.asarray(self.label_gain or (0.0,))
        extreme = (gains != 0.0) & ((gains < 1e-30) | (gains > 1e30))
        if (np.diff(gains) < 0.0).any() or extreme.any():
            raise ParameterError(
                f"label_gain={self.label_gain!r}: must not decrease from one grade to the next, "
                "and each gain must be 0 or lie between 1e-30 and 1e30"
            )

    def check_labels(self, label: F64) -> None:
        top = self.top_label
        assert top is not None
        if ((label < 0) | (label != np.floor(label)) | (label > top)).any():
            raise DataError(f"label: {self.name} needs whole grades 0 to {top} (see label_gain)")

    @staticmethod
    def offsets(group: I64) -> I64:
        """Of the first row of each query, and the end."""
        largest = int(group.max(initial=0))
        if largest > _MAX_QUERY_ROWS:
            raise DataError(f"group: a query has {largest} rows; at most {_MAX_QUERY_ROWS}")
        return np.concatenate([[0], np.cumsum(group)]).astype(np.int64)


@dataclass(frozen=True)
class LambdaRank(Graded):
    """Rows of a query in the wrong order pull, by what NDCG gains if they change places."""

    name = "lambdarank"
    synonyms: ClassVar[tuple[str, ...]] = ("rank:ndcg",)
    family = "ranked"
    kernel = "lambdarank"
    peers = {"lightgbm": "lambdarank", "xgboost": "rank:ndcg"}  # noqa: RUF012

    sigmoid: float = 1.0
    lambdarank_truncation_level: int = 30
    lambdarank_norm: bool = True

    @property
    def kernel_parameters(self) -> tuple[float, ...]:
        return (self.sigmoid, self.lambdarank_truncation_level, self.lambdarank_norm)

    def check_settings(self) -> None:
        super().check_settings()
        check_sigmoid(self.sigmoid)

    def tables(self, label: F64, group: I64 | None, row_ids: U64 | None = None) -> Queries:
        assert group is not None
        offset, gains = self.offsets(group), self.gains
        discount = discounts(int(group.max(initial=0)))
        best = self._best(label, group, discount)
        inverse = np.divide(1.0, best, out=np.zeros_like(best), where=best > 0.0)
        truncation = self.lambdarank_truncation_level
        # Pairs are below 256 * sigmoid^2: no sum over a query's pairs can reach 2^62 in this unit.
        n_pairs = group * np.minimum(group, truncation)
        _, bits = np.frexp(256.0 * max(self.sigmoid, self.sigmoid**2) * n_pairs)
        return Queries(offset, inverse, np.ldexp(1.0, 61 - bits), gains, discount)

    def _best(self, label: F64, group: I64, discount: F64) -> F64:
        """The largest DCG of each query."""
        gain = self.gains[label.astype(np.int64)]
        return ideal_dcg(gain, group, discount, self.lambdarank_truncation_level)

    def derivatives(self, scores: F64, label: F64, tables: Tables) -> tuple[F64, F64]:
        queries = Queries(*tables)
        grad, hess = np.zeros_like(scores), np.zeros_like(scores)
        for q, (begin, end) in enumerate(zip(queries.offset[:-1], queries.offset[1:], strict=True)):
            rows = slice(begin, end)
            grad[0, rows], hess[0, rows] = self._lambdas(scores[0, rows], label[rows], queries, q)
        return grad, hess

    def _lambdas(self, score: F64, label: F64, queries: Queries, q: int) -> tuple[F64, F64]:
        """Of one query: a matrix of pairs (rank i above rank j), summed as integers."""
        order = np.argsort(-score, kind="stable")
        s, y = score[order], label[order]
        i, j = np.triu_indices(len(score), k=1)
        keep = (i < self.lambdarank_truncation_level) & (y[i] != y[j])
        i, j = i[keep], j[keep]
        high, low = np.where(y[i] > y[j], i, j), np.where(y[i] > y[j], j, i)
        gap = s[high] - s[low]
        weight = self._exchanged(queries, y, i, j) * queries.inverse_best[q]
        if self._damps and s[0] != s[-1]:
            weight = weight / (0.01 + np.abs(gap))
        p = 1.0 / (1.0 + numpy_exp(self.sigmoid * gap))
        unit = queries.unit[q]
        pull = np.rint((((-self.sigmoid) * weight) * p) * unit).astype(np.int64)
        square = self.sigmoid * self.sigmoid
        curve = np.rint((((square * weight) * p) * (1.0 - p)) * unit).astype(np.int64)
        sums = np.zeros((2, len(score)), dtype=np.int64)
        for index, sign in ((high, 1), (low, -1)):
            np.add.at(sums[0], order[index], sign * pull)
            np.add.at(sums[1], order[index], curve)
        total = np.array([-2 * int(pull.sum())], dtype=np.float64) / unit
        normalised = self.lambdarank_norm and total > 0
        norm = (numpy_log(1.0 + total) * _LOG2_E) / total if normalised else 1.0
        return (sums[0] / unit) * norm, (sums[1] / unit) * norm

    @property
    def _damps(self) -> bool:
        """Whether pairs weigh less where their scores are apart."""
        return self.lambdarank_norm

    def _exchanged(self, queries: Queries, y: F64, i: I64, j: I64) -> F64:
        """What a pair counts: |delta DCG| of exchanging its rows. y: labels in rank order."""
        gain = queries.label_gain[y.astype(int)]
        return np.abs(gain[i] - gain[j]) * (queries.discount[i] - queries.discount[j])


@dataclass(frozen=True)
class RankPairwise(LambdaRank):
    """All pairs of different grades count the same, whatever their ranks."""

    name = "rank_pairwise"
    peers = {"lightgbm": "lambdarank", "xgboost": "rank:pairwise"}  # noqa: RUF012
    synonyms = ("rank:pairwise", "pairwise")
    kernel = "pairwise"

    @property
    def _damps(self) -> bool:
        return False

    def _best(self, label: F64, group: I64, discount: F64) -> F64:
        return np.ones(len(group))

    def _exchanged(self, queries: Queries, y: F64, i: I64, j: I64) -> F64:
        return np.ones(len(i))


@dataclass(frozen=True)
class RankMap(LambdaRank):
    """As LambdaRank, for the mean average precision: rows of a label above 0 are relevant."""

    name = "rank_map"
    peers = {"lightgbm": "lambdarank", "xgboost": "rank:map"}  # noqa: RUF012
    synonyms = ("rank:map",)
    kernel = "map"
    default_metric = "map@10"

    def _best(self, label: F64, group: I64, discount: F64) -> F64:
        """The relevant rows of each query."""
        query = np.repeat(np.arange(len(group)), group)
        return np.bincount(query[label > 0.0], minlength=len(group)).astype(np.float64)

    def _exchanged(self, queries: Queries, y: F64, i: I64, j: I64) -> F64:
        """|delta AP|, times the relevant rows, from the relevant ranks down to each."""
        hit, rank = y > 0.0, np.arange(len(y)) + 1.0
        hits = np.cumsum(hit).astype(np.float64)
        shares = np.cumsum(np.where(hit, 2.0**36 / rank, 0.0).astype(np.int64)) / 2.0**36
        at_i = (hits[i] + np.where(hit[i], 0.0, 1.0)) / rank[i]
        at_j = hits[j] / rank[j]
        lost = (at_i - at_j) + (shares[j - 1] - shares[i])
        return np.where(hit[i] & hit[j], 0.0, np.maximum(lost, 0.0))
