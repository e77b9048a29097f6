"""Metrics of the order of each query's rows: the mean of all queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.errors import DataError
from bitgrove.objectives.metrics.base import Metric
from bitgrove.objectives.metrics.facts import F64, I64, EvalData, EvalSet
from bitgrove.objectives.metrics.tally import Promise, Tally
from bitgrove.objectives.ranking import dcg, discounts, ideal_dcg

if TYPE_CHECKING:
    from typing_extensions import Self


class _Ranked(NamedTuple):
    """Rows in the order of their query and rank."""

    relevance: F64
    query: I64
    sizes: I64
    rank: I64  # from 0

    def sums(self, values: F64) -> F64:
        """Of each query, added from the top rank down."""
        return np.bincount(self.query, weights=values, minlength=len(self.sizes)).astype(np.float64)


@dataclass(frozen=True)
class QueryMetric(Metric):
    """Looks at the first k ranks of each query.

    kernel: the struct of kernels/shared/metrics.h with the same value.
    """

    judges = ("ranking score", "score")
    higher_is_better = True
    argument = "k"
    needs = "a query whose rows are not all equally relevant"
    kernel: ClassVar[str]

    k: int = 10

    @property
    def name(self) -> str:
        return f"{self.base_name}@{self.k}"

    @classmethod
    def with_argument(cls, text: str) -> Self:
        if not (text.isascii() and text.isdecimal() and text[0] != "0"):
            raise KeyError(text)
        return cls(int(text))

    def evidence(self, given: EvalSet) -> NDArray[np.bool_]:
        if given.group is None:
            return super().evidence(given)
        relevance = self.relevance(given.label, given.label_gain)
        query = np.repeat(np.arange(len(given.group)), given.group)
        differs = (relevance[1:] != relevance[:-1]) & (query[1:] == query[:-1])
        return np.array([differs.any()])

    def judge(self, tally: Tally) -> Promise[float]:
        facts = tally.facts
        if facts.group is None:
            raise DataError(f"group: {self.base_name} needs the number of rows of each query")
        total = tally.queries(self)
        return lambda: total() / facts.n_queries

    def relevance(self, label: F64, label_gain: F64) -> F64:
        """Of each row: whether it is relevant (label above 0)."""
        return (label > 0.0).astype(np.float64)

    def best(self, relevance: F64, sizes: I64) -> F64:
        """The largest sum that each query can have, where its value is a part of that."""
        return np.zeros(len(sizes))

    def of_queries(self, data: EvalData) -> F64:
        """The value of each query."""
        assert data.group is not None
        sizes, relevance = data.group, self.relevance(data.label, data.label_gain)
        query = np.repeat(np.arange(len(sizes)), sizes)
        prediction = data.prediction.reshape(-1)
        order = np.lexsort((-prediction, query))  # stable: ties stay in row order
        rank = np.arange(len(query)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        ranked = _Ranked(relevance[order], query, sizes, rank)
        return self.values(ranked, self.best(relevance, sizes))

    def values(self, ranked: _Ranked, best: F64) -> F64:
        raise NotImplementedError


def _shares(found: F64, best: F64) -> F64:
    """A query without relevant rows counts as perfect, as in LightGBM."""
    return np.divide(found, best, out=np.ones_like(best), where=best > 0.0)


class Ndcg(QueryMetric):
    """DCG of the first k ranks over the best possible."""

    base_name = "ndcg"
    synonyms = ("lambdarank",)
    kernel = "ndcg"

    def relevance(self, label: F64, label_gain: F64) -> F64:
        """The gain of its grade."""
        return np.asarray(label_gain[label.astype(np.int64)])

    def best(self, relevance: F64, sizes: I64) -> F64:
        return ideal_dcg(relevance, sizes, discounts(int(sizes.max(initial=0))), self.k)

    def values(self, ranked: _Ranked, best: F64) -> F64:
        sizes, discount = ranked.sizes, discounts(int(ranked.sizes.max(initial=0)))
        return _shares(dcg(ranked.relevance, ranked.query, sizes, discount, self.k), best)


class MeanAveragePrecision(QueryMetric):
    """The mean precision at each relevant row (label above 0) of the first k ranks."""

    base_name = "map"
    synonyms = ("mean_average_precision",)
    kernel = "map"

    def best(self, relevance: F64, sizes: I64) -> F64:
        query = np.repeat(np.arange(len(sizes)), sizes)
        n_relevant = np.bincount(query, weights=relevance, minlength=len(sizes))
        return np.minimum(n_relevant, float(self.k))

    def values(self, ranked: _Ranked, best: F64) -> F64:
        is_hit = ranked.relevance > 0.0
        before: I64 = np.cumsum(is_hit) - is_hit
        starts = np.cumsum(ranked.sizes) - ranked.sizes
        first = np.append(before, 0)[starts]  # an empty query at the end starts after all rows
        hits: I64 = before - np.repeat(first, ranked.sizes) + is_hit
        counts = np.where(is_hit & (ranked.rank < self.k), hits / (ranked.rank + 1.0), 0.0)
        return _shares(ranked.sums(counts), best)


class Precision(QueryMetric):
    """Relevant rows (label above 0) among the first k ranks, over k."""

    base_name = "precision"
    synonyms = ("pre",)
    kernel = "precision"

    def values(self, ranked: _Ranked, best: F64) -> F64:
        is_hit = (ranked.relevance > 0.0) & (ranked.rank < self.k)
        return ranked.sums(is_hit.astype(np.float64)) / self.k


class Mrr(QueryMetric):
    """One over the rank of the first relevant row (label above 0); 0 if it is not among k."""

    base_name = "mrr"
    synonyms = ("mean_reciprocal_rank",)
    kernel = "mrr"

    def values(self, ranked: _Ranked, best: F64) -> F64:
        is_hit = (ranked.relevance > 0.0) & (ranked.rank < self.k)
        found = np.zeros(len(ranked.sizes))
        rows = np.flatnonzero(is_hit)[::-1]  # the first row of a query is written last
        found[ranked.query[rows]] = 1.0 / (ranked.rank[rows] + 1.0)
        return found
