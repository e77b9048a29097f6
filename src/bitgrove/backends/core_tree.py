"""A tree whose verbs are the core's: what the CPU and a GPU have in common."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove import _core
from bitgrove.backends.base import (
    Exchange,
    Frontier,
    HistogramPool,
    LeafRule,
    LeafSums,
    SearchPlan,
    TreeWork,
)
from bitgrove.kernels.plans import Records

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
CoreVerbs = _core.CpuTree | _core.CudaTree


class CoreTree(TreeWork):
    """Alone, a rank searches and grows in the core; with an exchange, step by step here."""

    _verbs: Any  # CoreVerbs, whose frontier and plans are the core's own

    @abstractmethod
    def _verbs_on(self, pool: Any, allowed: NDArray[np.uint8]) -> CoreVerbs:
        """The core's verbs for this tree's rows, on a pool and its allowed features."""

    def _here(self) -> AbstractContextManager[None]:
        """Where the verbs run: a GPU must be the current one."""
        return nullcontext()

    def search(self, plan: SearchPlan, exchange: Exchange | None = None) -> Records:
        with self._here():
            if exchange is None:
                found: Records = self._verbs.search(plan)
                return found
            self._verbs.build(plan.builds)
            bins = exchange.sum_built(self.pool, plan.builds)
            self._verbs.subtract(plan.subtractions, bins)
            return exchange.choose(plan.nodes, self)

    def find(
        self,
        nodes: Records,
        features: tuple[int, int],
        pool: HistogramPool | None = None,
        allowed: NDArray[np.uint8] | None = None,
    ) -> Records:
        assert (pool is None) == (allowed is None), "another pool comes with its features"
        with self._here():
            verbs = self._verbs
            if pool is not None and allowed is not None:
                verbs = self._verbs_on(pool, allowed)
            found: Records = verbs.find(nodes, features)
            return found

    def divide(self, divisions: Records) -> Records:
        with self._here():
            left: Records = self._verbs.divide(divisions)
            return left

    def grow(
        self, frontier: Frontier, alpha: float, missing_bin: I64, exchange: Exchange | None
    ) -> None:
        with self._here():
            if exchange is None:
                self._verbs.grow(frontier, alpha, missing_bin)
            else:
                super().grow(frontier, alpha, missing_bin, exchange)

    def leaf_values(self, sums: LeafSums, rule: LeafRule) -> tuple[F64, F64]:
        values, hess = _core.leaf_values(*sums, *rule)
        return values, hess
