"""Growing one tree: exact best-first, in frontier rounds.

A node's best split depends on its own rows only, so the leaf-wise tree does not depend on the order
in which gains become known. Each round replays best-first over the known gains, and expands, as one
batch, the first nodes the replay took whose children are not known yet. When none are left, the
replay is the exact leaf-wise tree (the choice of alpha changes the time, never the tree).

The bookkeeping (nodes, the replay, which histogram is in which slot) is cpp/growth/frontier.cpp;
the loop is TreeWork.grow in backends/base.py. The reference backend grows one leaf at a time.

Receives quantized gradients and a row list; returns a Growth, whose TreeWork knows the rows of the
leaves, and from it a GrownTree (the splits taken, in order).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends.base import (
    Backend,
    BinnedMatrix,
    Exchange,
    Frontier,
    GrownTree,
    TreeInputs,
    TreeWork,
)
from bitgrove.constraints.given import ColumnRules
from bitgrove.constraints.rules import GainRules
from bitgrove.distributed.comm import Comm, sum_integers
from bitgrove.distributed.exchanges import make_exchange
from bitgrove.params import TrainParams
from bitgrove.training.histograms import WidthPlan, new_pool
from bitgrove.training.quantize import QuantizedGradients

# Separating zero rows is a pass over all rows: it pays when histograms get this much shorter.
_ZERO_SHARE = 0.125
# All ranks must take the same share, whatever their backends; a round costs them messages.
_ALPHA_OVER_RANKS = 0.75
# Small trainings are underfitted rather than overfitted: rows up to here pay no cat_l2.
_FREE_ROWS = 10_000


class Growth(NamedTuple):
    """A tree whose rows are divided: leaves can be summed before its splits are written down."""

    work: TreeWork
    frontier: Frontier
    n_rows: int  # of all its leaves, on all ranks


class Later:
    """The GrownTree of a growth, written down when it is wanted."""

    def __init__(self, grower: Grower, growth: Growth, hess_scale: float) -> None:
        self._how = (grower, growth, hess_scale)
        self._grown: GrownTree | None = None

    def __call__(self) -> GrownTree:
        if self._grown is None:
            grower, growth, hess_scale = self._how
            self._grown = grower.write_down(growth, hess_scale)
        return self._grown


class TreeSample(NamedTuple):
    """What of the data a tree may look at."""

    rows: Any  # row list on the backend
    allowed: NDArray[np.uint8]  # 1 for each feature
    key: int = 0  # of what its nodes draw


def split_params(params: TrainParams, n_rows: int) -> TrainParams:
    """The parameters that splits beside target statistics are searched with, of n_rows in all.

    Statistics are noisy: every split pays of cat_l2, not only subsets of levels, which pay all of
    it as ever. Leaves keep their own reg_lambda.
    """
    paid = params.cat_l2 * max(0.0, 1.0 - _FREE_ROWS / n_rows)
    return replace(params, reg_lambda=params.leaf_penalty + paid, cat_l2=params.cat_l2 - paid)


def gain_rules(params: TrainParams, quantized: QuantizedGradients) -> GainRules:
    # The paper's gain has a factor 1/2 that LightGBM's and XGBoost's have not; the parameter
    # means what their users expect.
    return GainRules(
        quantized.grad_scale,
        quantized.hess_scale,
        params.leaf_penalty,
        params.reg_alpha,
        0.5 * params.min_split_gain,
        params.cat_smooth,
        params.cat_l2,
        float(params.min_data_per_group),
        float(params.max_cat_threshold),
        float(params.max_cat_to_onehot),
    )


class Grower:
    """Grows trees on one binned matrix."""

    def __init__(
        self,
        backend: Backend,
        matrix: BinnedMatrix,
        params: TrainParams,
        comm: Comm,
        pool_mb: int,
        rules: ColumnRules | None = None,
    ) -> None:
        self.backend, self.matrix, self.rules = backend, matrix, rules
        self.params, self.comm, self.pool_mb = params, comm, pool_mb
        self._split_rules = None if rules is None else rules.splits
        self.exchange: Exchange | None = None
        if comm.size > 1:
            self.exchange = make_exchange(params, backend, matrix, comm)
        self.pool: Any = None

    def grow(
        self,
        quantized: QuantizedGradients,
        sample: TreeSample,
        widths: WidthPlan,
        n_total: int,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Growth:
        """Grows a tree; n_total is the number of rows on all ranks.

        meanwhile: what is left to do, for which a device may need no waiting.
        """
        separate = quantized.zero_rows > _ZERO_SHARE * n_total
        gain, mapper = gain_rules(self.params, quantized), self.matrix.mapper
        inputs = TreeInputs(quantized.packed, sample.rows, sample.allowed, gain, separate)
        more: dict[str, Any] = {"key": sample.key}
        if self.rules is not None:
            limits = self.rules.limits_features
            inputs = inputs._replace(split_rules=self._split_rules, limits_features=limits)
            more["rules"] = self.rules.of_tree(gain, sample.allowed, mapper)
        work = self.backend.start_tree(self._pool_for(widths, n_total), inputs)
        frontier, n_rows = self._start_frontier(work, quantized, widths, more)
        alpha = self._alpha()
        if self.exchange is None:
            work.begin(frontier, alpha)
        meanwhile()
        work.grow(frontier, alpha, mapper.missing_bin, self.exchange)
        work.set_leaves(*frontier.leaves())
        return Growth(work, frontier, n_rows)

    def write_down(self, growth: Growth, hess_scale: float) -> GrownTree:
        """The splits of a tree that was grown."""
        mapper = self.matrix.mapper
        cuts = (mapper.edge_values, mapper.edge_offset, mapper.has_missing)
        grown = GrownTree(**growth.frontier.finish(*cuts, hess_scale))
        if self.rules is not None:
            self.rules.give_back(grown.splits)
        return grown

    def _alpha(self) -> float:
        if self.params.frontier_alpha is not None:
            return self.params.frontier_alpha
        return self.backend.frontier_alpha if self.exchange is None else _ALPHA_OVER_RANKS

    def _pool_for(self, widths: WidthPlan, n_total: int) -> Any:
        """The pool of the last tree if its histograms are wide enough, else a wider one."""
        half_bits = max(32, widths.total_width(n_total))
        if self.pool is None or self.pool.half_bits < half_bits:
            self.pool = None  # the narrow one is freed first
            n_leaves = self.params.num_leaves
            self.pool = new_pool(self.backend, self.matrix, half_bits, self.pool_mb, n_leaves)
        return self.pool

    def _start_frontier(
        self,
        work: TreeWork,
        quantized: QuantizedGradients,
        widths: WidthPlan,
        more: dict[str, Any],
    ) -> tuple[Frontier, int]:
        """A frontier that knows the root's sums; and the tree's rows on all ranks."""
        params, scale = self.params, quantized.hess_scale
        frontier = self.backend.frontier(
            n_slots=work.pool.n_slots,
            num_leaves=params.num_leaves,
            max_depth=params.max_depth,
            min_child_samples=params.min_child_samples,
            min_child_hess=params.min_child_weight / scale if scale > 0.0 else np.inf,
            widths=widths.limits,
            **more,
        )
        grad, hess, n_active, n_zero = sum_integers(self.comm, work.root)
        widths.total_width(n_active + n_zero)  # refuses what even 64 bits cannot hold
        mine = (work.root.n_active, work.root.n_zero)
        frontier.start(grad=grad, hess=hess, all_rows=(n_active, n_zero), local_rows=mine)
        return frontier, n_active + n_zero
