"""How good scores are, on the device they lie on, and how sure that is.

Owns Judge, the metric of one set of rows: its value, and its values when rows (for ranking queries)
are drawn again by a Poisson bootstrap. The same draws serve every model, so that differences
between two models are paired.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from lab.full_size.draws import Draws, Xp
from lab.full_size.rows import Part, on_host

N_DRAWS = 200
_BATCH_VALUES = 1 << 23
_POISSON = np.cumsum([np.exp(-1.0) / float(np.prod(range(1, k + 1))) for k in range(8)])
_TOP = 10  # of ndcg


class Judge(ABC):
    """The metric of one set of rows."""

    def __init__(self, xp: Xp, part: Part) -> None:
        self.xp, self.label = xp, xp.asarray(part.y, dtype=np.float64)

    @property
    def n_units(self) -> int:
        """What is drawn again: rows, or queries."""
        return len(self.label)

    @abstractmethod
    def value(self, scores: Any) -> float: ...

    @abstractmethod
    def weighted(self, scores: Any, weights: Any) -> Any:
        """The metric under each of (n, n_units) weights."""

    def drawn_again(self, scores: Any) -> list[float]:
        """N_DRAWS values of the metric."""
        draws, found = Draws(self.xp, 99), []
        step = min(N_DRAWS, max(1, _BATCH_VALUES // self.n_units))
        for first in range(0, N_DRAWS, step):
            uniform = draws.uniform(min(step, N_DRAWS - first), self.n_units)
            weights = self.xp.zeros(uniform.shape)
            for limit in _POISSON.tolist():
                weights += uniform > limit
            found.append(on_host(self.weighted(scores, weights)))
        return [float(value) for value in np.concatenate(found)]


class Auc(Judge):
    def value(self, scores: Any) -> float:
        return float(self.weighted(scores, self.xp.ones((1, self.n_units)))[0])

    def weighted(self, scores: Any, weights: Any) -> Any:
        xp, order = self.xp, self.xp.argsort(scores)
        ordered, positive = scores[order], self.label[order] > 0
        mine = weights[:, order]
        negatives = xp.zeros((len(weights), self.n_units + 1))
        negatives[:, 1:] = xp.cumsum(xp.where(positive, 0.0, mine), axis=1)
        # Equal scores count half.
        below = xp.searchsorted(ordered, ordered, side="left")
        upto = xp.searchsorted(ordered, ordered, side="right")
        wins = xp.where(positive, mine, 0.0) * (negatives[:, below] + negatives[:, upto])
        pairs = xp.where(positive, mine, 0.0).sum(axis=1) * negatives[:, -1]
        return 0.5 * wins.sum(axis=1) / pairs


class Rmse(Judge):
    def value(self, scores: Any) -> float:
        return float(self.xp.sqrt(((scores - self.label) ** 2).mean()))

    def weighted(self, scores: Any, weights: Any) -> Any:
        return self.xp.sqrt(_means((scores - self.label) ** 2, weights))


class Ndcg(Judge):
    """NDCG@10; a query without relevant rows counts as perfect, as in the library."""

    def __init__(self, xp: Xp, part: Part) -> None:
        super().__init__(xp, part)
        assert part.group is not None
        sizes = part.group
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        place = np.arange(int(sizes.sum())) - np.repeat(starts, sizes)
        self._query = xp.asarray(np.repeat(np.arange(len(sizes)), sizes))
        self._place = xp.asarray(place)
        self._shape = (len(sizes), int(sizes.max()))
        self._discount = xp.asarray(1.0 / np.log2(np.arange(2, _TOP + 2)))
        self._gain = self._table(2.0**self.label - 1.0, 0.0)
        self._best = self._dcg(-xp.sort(-self._gain, axis=1))

    @property
    def n_units(self) -> int:
        return self._shape[0]

    def _table(self, values: Any, empty: float) -> Any:
        """(n_queries, most documents)."""
        table = self.xp.full(self._shape, empty)
        table[self._query, self._place] = values
        return table

    def _dcg(self, gains: Any) -> Any:
        top = gains[:, :_TOP]
        return (top * self._discount[: top.shape[1]]).sum(axis=1)

    def by_query(self, scores: Any) -> Any:
        order = self.xp.argsort(-self._table(scores, -np.inf), axis=1)[:, :_TOP]
        found = self._dcg(self.xp.take_along_axis(self._gain, order, axis=1))
        perfect = self._best <= 0.0
        return self.xp.where(perfect, 1.0, found / self.xp.where(perfect, 1.0, self._best))

    def value(self, scores: Any) -> float:
        return float(self.by_query(scores).mean())

    def weighted(self, scores: Any, weights: Any) -> Any:
        return _means(self.by_query(scores), weights)


def _means(values: Any, weights: Any) -> Any:
    return (weights * values).sum(axis=1) / weights.sum(axis=1)


JUDGES: dict[str, type[Judge]] = {"binary": Auc, "regression": Rmse, "lambdarank": Ndcg}
