"""A tree whose verbs are the core's: what the CPU and a GPU have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.backends.base import Exchange, HistogramPool, LeafRule, LeafSums, TreeWork
from bitgrove.kernels.plans import Records

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


class CoreTree(TreeWork):
    """`_core` is a _core.CpuTree or a _core.CudaTree: they have the same verbs."""

    _core: Any

    @abstractmethod
    def _core_on(self, pool: HistogramPool, allowed: NDArray[np.uint8]) -> Any:
        """The same tree's core on another pool, with other features allowed."""

    def search(self, plan: Any, exchange: Exchange | None = None) -> Records:
        if exchange is None:
            found: Records = self._core.search(plan)
            return found
        self._core.build(plan.builds)
        bins = exchange.sum_built(self.pool, plan.builds)
        self._core.subtract(plan.subtractions, bins)
        return exchange.choose(plan.nodes, self)

    def find(
        self,
        nodes: Records,
        features: tuple[int, int],
        pool: HistogramPool | None = None,
        allowed: NDArray[np.uint8] | None = None,
    ) -> Records:
        core = self._core
        assert (pool is None) == (allowed is None), "another pool comes with its features"
        if pool is not None and allowed is not None:
            core = self._core_on(pool, allowed)
        found: Records = core.find(nodes, features)
        return found

    def grow(
        self, frontier: Any, alpha: float, missing_bin: I64, exchange: Exchange | None
    ) -> None:
        if exchange is None:
            self._core.grow(frontier, alpha, missing_bin)
        else:
            super().grow(frontier, alpha, missing_bin, exchange)

    def leaf_values(self, sums: LeafSums, rule: LeafRule) -> tuple[F64, F64]:
        values, hess = _core.leaf_values(*sums, *rule)
        return values, hess

    def divide(self, divisions: Records) -> Records:
        left: Records = self._core.divide(divisions)
        return left
