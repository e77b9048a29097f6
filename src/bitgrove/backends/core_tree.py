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
    TreeInputs,
    TreeWork,
)
from bitgrove.constraints.rules import TreeRules
from bitgrove.kernels.plans import Records

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
CoreVerbs = _core.CpuTree | _core.CudaTree


_ANYWHERE = nullcontext()


def core_frontier(rules: TreeRules | None = None, **rest: Any) -> _core.Frontier:
    """The core's books of a growing tree, told the rules of the training."""
    if rules is None:
        return _core.Frontier(**rest)
    fields = {**rules._asdict(), "gain": _core.GainRules(**rules.gain._asdict())}
    return _core.Frontier(rules=_core.TreeRules(**fields), **rest)


class CoreTree(TreeWork):
    """Alone, a rank searches and grows in the core; with an exchange, step by step here."""

    _inputs: TreeInputs
    _verbs: Any  # CoreVerbs, whose frontier and plans are the core's own

    @abstractmethod
    def _verbs_on(self, pool: Any, by_node: bool) -> CoreVerbs:
        """The core's verbs for this tree's rows, on a pool.

        by_node: searches may come with a row of allowed features for each node.
        """

    def _here(self) -> AbstractContextManager[None]:
        """Where the verbs run: a GPU must be the current one."""
        return _ANYWHERE

    def search(self, plan: SearchPlan, exchange: Exchange | None = None) -> Records:
        with self._here():
            if exchange is None:
                found: Records = self._verbs.search(plan)
                return found
            self._verbs.build(plan.builds)
            bins = exchange.sum_built(self.pool, plan.builds)
            self._verbs.subtract(plan.subtractions, bins)
            return exchange.choose(plan, self)

    def find(
        self,
        nodes: Records,
        features: tuple[int, int],
        pool: HistogramPool | None = None,
        allowed: NDArray[np.uint8] | None = None,
    ) -> Records:
        with self._here():
            by_node, verbs = allowed is not None, self._verbs
            if pool is not None or (by_node and not self._inputs.limits_features):
                verbs = self._verbs_on(self.pool if pool is None else pool, by_node)
            found: Records = verbs.find(nodes, features, allowed)
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
