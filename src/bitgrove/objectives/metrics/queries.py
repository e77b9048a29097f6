"""Metrics of the order of each query's rows: the mean of all queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.errors import DataError
from bitgrove.objectives.metrics.base import F64, EvalData, Metric, weighted_mean
from bitgrove.objectives.ranking import dcg, discounts, ideal_dcg

if TYPE_CHECKING:
    from typing_extensions import Self

    from bitgrove.distributed.comm import Comm

I64 = NDArray[np.int64]


class _Ranked(NamedTuple):
    """Rows in the order of their query and rank."""

    label: F64
    query: I64
    sizes: I64
    rank: I64  # from 0

    def sums(self, values: F64) -> F64:
        """Of each query, added from the top rank down."""
        return np.bincount(self.query, weights=values, minlength=len(self.sizes)).astype(np.float64)


@dataclass(frozen=True)
class QueryMetric(Metric):
    """Looks at the first k ranks of each query."""

    judges = ("ranking score", "score")
    higher_is_better = True
    argument = "k"

    k: int = 10

    @property
    def name(self) -> str:
        return f"{self.base_name}@{self.k}"

    @classmethod
    def with_argument(cls, text: str) -> Self:
        if not (text.isascii() and text.isdecimal() and text[0] != "0"):
            raise KeyError(text)
        return cls(int(text))

    def compute(self, data: EvalData, comm: Comm) -> float:
        if data.group is None:
            raise DataError(f"group: {self.base_name} needs the number of rows of each query")
        sizes = data.group
        query = np.repeat(np.arange(len(sizes)), sizes)
        order = np.lexsort((-data.prediction, query))  # stable: ties stay in row order
        rank = np.arange(len(query)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        values = self.of_queries(data, order, _Ranked(data.label[order], query, sizes, rank))
        return weighted_mean(values, np.ones_like(values), comm)

    def of_queries(self, data: EvalData, order: NDArray[np.intp], ranked: _Ranked) -> F64:
        raise NotImplementedError


class Ndcg(QueryMetric):
    """DCG of the first k ranks over the best possible."""

    base_name = "ndcg"
    synonyms = ("lambdarank",)

    def of_queries(self, data: EvalData, order: NDArray[np.intp], ranked: _Ranked) -> F64:
        sizes = ranked.sizes
        gain = data.label_gain[data.label.astype(np.int64)]
        discount = discounts(int(sizes.max(initial=0)))
        best = ideal_dcg(gain, sizes, discount, self.k)
        found = dcg(gain[order], ranked.query, sizes, discount, self.k)
        # A query without relevant rows counts as perfect, as in LightGBM.
        return np.divide(found, best, out=np.ones_like(best), where=best > 0.0)


class MeanAveragePrecision(QueryMetric):
    """The mean precision at each relevant row (label above 0) of the first k ranks."""

    base_name = "map"
    synonyms = ("mean_average_precision",)

    def of_queries(self, data: EvalData, order: NDArray[np.intp], ranked: _Ranked) -> F64:
        is_hit = ranked.label > 0.0
        before: I64 = np.cumsum(is_hit) - is_hit
        starts = np.cumsum(ranked.sizes) - ranked.sizes
        hits: I64 = before - np.repeat(before[starts], ranked.sizes) + is_hit
        counts = np.where(is_hit & (ranked.rank < self.k), hits / (ranked.rank + 1.0), 0.0)
        n_relevant = np.minimum(ranked.sums(is_hit.astype(np.float64)), self.k)
        found = ranked.sums(counts)
        # A query without relevant rows counts as perfect, as in LightGBM.
        return np.divide(found, n_relevant, out=np.ones_like(found), where=n_relevant > 0.0)


class Precision(QueryMetric):
    """Relevant rows (label above 0) among the first k ranks, over k."""

    base_name = "precision"
    synonyms = ("pre",)

    def of_queries(self, data: EvalData, order: NDArray[np.intp], ranked: _Ranked) -> F64:
        is_hit = (ranked.label > 0.0) & (ranked.rank < self.k)
        return ranked.sums(is_hit.astype(np.float64)) / self.k


class Mrr(QueryMetric):
    """One over the rank of the first relevant row (label above 0); 0 if it is not among k."""

    base_name = "mrr"
    synonyms = ("mean_reciprocal_rank",)

    def of_queries(self, data: EvalData, order: NDArray[np.intp], ranked: _Ranked) -> F64:
        is_hit = (ranked.label > 0.0) & (ranked.rank < self.k)
        found = np.zeros(len(ranked.sizes))
        rows = np.flatnonzero(is_hit)[::-1]  # the first row of a query is written last
        found[ranked.query[rows]] = 1.0 / (ranked.rank[rows] + 1.0)
        return found
