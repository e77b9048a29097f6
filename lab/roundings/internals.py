"""Where the ideas on rounding reach below the library's public names.

Owns two trainings that go tree by tree on the real core: one whose rows are made integers by a rule
of the lab, and one that takes each split by exact sums of a few features. Both count their work.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from bitgrove import Dataset
from bitgrove.arithmetic.exact_math import row_hash
from bitgrove.backends.base import PackedRows, TreeInputs, TreeWork
from bitgrove.kernels.plans import ROW_TOTALS, ROW_TYPES, records
from bitgrove.training import booster as booster_room
from bitgrove.training.grower import gain_rules
from bitgrove.training.quantize import QuantizedGradients, quantize, row_half_bits
from lab.internals import TreeByTree, Wrapped

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
_EXACT = 64  # bits of a half of an exact sum


# ---------------------------------------------------------------- rows made by a rule of the lab


class FloatRows(NamedTuple):
    """One output's gradients before rounding, and what the library would do with them."""

    grad: F64
    hess: F64  # ones where the count is the hessian
    units: tuple[float, float]  # of gradient and hessian, as the library plans them
    noise: tuple[F64, F64]  # uniform in [0, 1), independent of each other
    step: float  # typical Newton step of a leaf: root mean square of the last tree's


class IntegerRows(NamedTuple):
    grad: I64
    hess: I64
    units: tuple[float, float]


class RoundingRule(Protocol):
    @property
    def least_units(self) -> float:
        """Of hessian, that a child needs beside the library's rules."""

    def rounded(self, rows: FloatRows) -> IntegerRows: ...


class Work(NamedTuple):
    """What all trees so far cost; seconds of this process without making integers."""

    seconds: float
    rows_summed: int
    zero_share: float
    small_leaves: float  # share of leaves of fewer rows than min_child_samples


class RuledTraining(TreeByTree):
    """A training whose rows are rounded by a rule, or as the library does where there is none."""

    def __init__(self, params: dict[str, Any], data: Dataset, rule: RoundingRule | None) -> None:
        super().__init__(params, data)
        self._rule, self._seconds = rule, 0.0
        grower = self._booster.grower
        grower.backend = self._counter = _RowCounter(grower.backend)

    def step(self) -> None:
        started = time.process_time()
        with patch.object(booster_room, "quantize", self._quantize):
            super().step()
        self._seconds += time.process_time() - started

    def work(self) -> Work:
        booster = self._booster
        sizes = np.concatenate([tree.leaf_rows for tree in booster.trees])
        small = sizes < booster.params.min_child_samples
        zeros = float(np.mean(self.zero_shares()))
        return Work(self._seconds, self._counter.n_rows, zeros, float(small.mean()))

    def scores(self, X: NDArray[Any]) -> F64:
        """Predictions of the model so far."""
        return np.asarray(self._booster.model(None).predict(X))

    def _quantize(self, backend: Any, gradients: Any, params: Any, key: int, *more: Any) -> Any:
        started = time.process_time()
        planned = quantize(backend, gradients, params, key, *more)
        if self._rule is not None:
            rows = _float_rows(gradients, planned, key, self._step())
            planned = _packed(planned, self._rule.rounded(rows))
            least = max(params.min_child_weight, self._rule.least_units * planned.hess_scale)
            self._booster.grower.params = replace(params, min_child_weight=least)
        self._seconds -= time.process_time() - started
        return planned

    def _step(self) -> float:
        booster = self._booster
        if not booster.trees:
            return 1.0
        tree, rate = booster.trees[-1], float(booster.params.learning_rate)  # type: ignore[arg-type]
        squares = np.average((tree.leaf_value / rate) ** 2, weights=tree.leaf_rows)
        return float(np.sqrt(squares))


def _float_rows(gradients: Any, planned: QuantizedGradients, key: int, step: float) -> FloatRows:
    grad = gradients.grad.astype(np.float64)
    hess = np.ones_like(grad) if gradients.hess is None else gradients.hess.astype(np.float64)
    hashes = row_hash(key, np.arange(len(grad), dtype=np.uint64))
    low = hashes & np.uint64(0xFFFFFFFF)
    noise = ((hashes >> np.uint64(32)) * 2.0**-32, low * 2.0**-32)
    return FloatRows(grad, hess, (planned.grad_scale, planned.hess_scale), noise, step)


def _packed(planned: QuantizedGradients, rows: IntegerRows) -> QuantizedGradients:
    """The rows as the core wants them: gradient in the upper half, hessian in the lower."""
    limits = max(int(np.abs(rows.grad).max()), 1), max(int(rows.hess.max()), 1)
    half_bits = row_half_bits(*limits)
    values = ((rows.grad << half_bits) + rows.hess).astype(ROW_TYPES[half_bits])
    abs_grad, hess = int(np.abs(rows.grad).sum()), int(rows.hess.sum())
    zeros = int(((rows.grad | rows.hess) == 0).sum())
    sums = {"abs_grad": abs_grad, "grad": rows.grad.sum(), "hess": hess, "zero_rows": zeros}
    packed = PackedRows(values, records(ROW_TOTALS, 1, **sums))
    facts = (*rows.units, *limits, abs_grad, hess, zeros, planned.largest)
    return QuantizedGradients(packed, *facts)


class _RowCounter(Wrapped):
    """Counts the rows that go into histograms."""

    n_rows = 0

    def start_tree(self, pool: Any, inputs: TreeInputs) -> Any:
        work = self._backend.start_tree(pool, inputs)
        search = work.search

        def counted(plan: Any, exchange: Any = None) -> Any:
            self.n_rows += int((plan.builds["end"] - plan.builds["begin"]).sum())
            return search(plan, exchange)

        work.search = counted
        work.grow = lambda *args: TreeWork.grow(work, *args)  # the loop that calls search
        return work


# ---------------------------------------------------------------- splits taken by exact sums


@dataclass
class SplitWork:
    """Sums over all nodes that were searched; gains are of exact sums."""

    best_gain: float = 0.0
    few_bits_gain: float = 0.0  # of the split that the few bits alone would take
    taken_gain: float = 0.0
    rows_summed: int = 0  # into histograms of few bits
    rows_searched: int = 0  # of all nodes: each is summed again, for k features
    rows_split: int = 0  # of the nodes that the finished trees split

    def __sub__(self, other: SplitWork) -> SplitWork:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return SplitWork(*(a - b for a, b in pairs))


class RefittedTraining(TreeByTree):
    """A training whose splits are the best by exact sums among the top features by few bits.

    n_top: how many features; 0: splits are those of the few bits, and only the work is counted.
    """

    def __init__(self, params: dict[str, Any], data: Dataset, n_top: int) -> None:
        super().__init__(params, data)
        self._refit = _SplitRefit(self._booster, n_top)
        self._booster.grower.backend = self._refit

    def step(self) -> None:
        n_before = len(self._booster.trees)
        with patch.object(booster_room, "quantize", self._refit.quantize):
            super().step()
        new = self._booster.trees[n_before:]
        self._refit.work.rows_split += sum(int(tree.split_rows.sum()) for tree in new)

    @property
    def work(self) -> SplitWork:
        return replace(self._refit.work)

    def scores(self, X: NDArray[Any]) -> F64:
        return np.asarray(self._booster.model(None).predict(X))


class _SplitRefit(Wrapped):
    """Beside the tree of few bits an exact one on the same rows, which only sums and searches."""

    def __init__(self, booster: Any, n_top: int) -> None:
        super().__init__(booster.grower.backend)
        self._booster, self._n_top, self.work = booster, n_top, SplitWork()
        self._pool: Any = None

    def quantize(self, backend: Any, gradients: Any, params: Any, *more: Any) -> Any:
        self._exact = quantize(backend, gradients, replace(params, gradient_bits=None), *more)
        return quantize(backend, gradients, params, *more)

    def start_tree(self, pool: Any, inputs: TreeInputs) -> Any:
        params = self._booster.params
        if self._pool is None:
            self._pool = self._backend.new_pool(pool.matrix, pool.n_slots, _EXACT)
        rules = gain_rules(params, self._exact)
        # The zero rows of few bits count in exact sums.
        inputs = inputs._replace(separate_zeros=False)
        few = self._backend.start_tree(pool, inputs)
        exact = self._backend.start_tree(
            self._pool, inputs._replace(packed=self._exact.packed, rules=rules)
        )
        few.search = lambda plan, exchange=None: self._search(few, exact, plan)
        few.grow = lambda *args: TreeWork.grow(few, *args)
        return few

    def _search(self, few: Any, exact: Any, plan: Any) -> Any:
        """What search() returns, with the splits that exact sums prefer."""
        mapper = self._pool.matrix.mapper
        all_bins, n_features = (0, int(mapper.bin_offset[-1])), mapper.n_features
        few._verbs.build(plan.builds)
        few._verbs.subtract(plan.subtractions, all_bins)
        exact._verbs.build(_widened(plan.builds, "local_width", "total_width"))
        widths = ("parent_width", "built_width", "out_width")
        exact._verbs.subtract(_widened(plan.subtractions, *widths), all_bins)
        nodes = self._exact_nodes(plan.nodes)
        found = few.find(plan.nodes, (0, n_features))
        one_by_one = [(f, f + 1) for f in range(n_features)]
        few_gains = np.stack([few.find(plan.nodes, f)["gain"] for f in one_by_one])
        by_exact = [exact.find(nodes, f) for f in one_by_one]
        gains = np.stack([splits["gain"] for splits in by_exact])
        order = np.argsort(-few_gains, axis=0, kind="stable")
        self.work.rows_summed += int((plan.builds["end"] - plan.builds["begin"]).sum())
        self.work.best_gain += float(np.maximum(gains.max(axis=0), 0.0).sum())
        for i, node in enumerate(nodes):
            self.work.few_bits_gain += self._gain(found[i], node)
            if self._n_top and found["feature"][i] >= 0:
                top = np.sort(order[: self._n_top, i])  # of equal gains the lowest feature
                best = by_exact[int(top[np.argmax(gains[top, i])])][i]
                found[i] = self._with_sums(best, few.pool, plan.nodes[i])
            self.work.taken_gain += self._gain(found[i], node)
        return found

    def _exact_nodes(self, nodes: Any) -> Any:
        """The nodes with their exact sums and rules."""
        params, exact = self._booster.params, self._exact
        made = _widened(nodes, "width")
        for node, given in zip(made, nodes, strict=True):
            n_rows = max(round(float(given["hess"] / given["hess_per_row"])), 1)
            self.work.rows_searched += n_rows
            node["grad"], node["hess"] = self._sums(self._pool, node, None)
            node["hess_per_row"] = node["hess"] / n_rows
            by_samples = (params.min_child_samples - 0.5) * node["hess_per_row"]
            by_weight = params.min_child_weight / exact.hess_scale
            node["min_hess"] = max(np.ceil(max(by_samples, by_weight)), 1.0)
        return made

    def _gain(self, split: Any, node: Any) -> float:
        """The gain of a split by exact sums; 0 without a split."""
        if split["feature"] < 0:
            return 0.0
        params, exact = self._booster.params, self._exact
        units = np.array([exact.grad_scale, exact.hess_scale])
        left = self._sums(self._pool, node, split) * units
        whole = np.array([node["grad"], node["hess"]]) * units
        return 0.5 * (_score(left, params) + _score(whole - left, params) - _score(whole, params))

    def _with_sums(self, split: Any, pool: Any, node: Any) -> Any:
        """An exact split with the sums of few bits, which the children are searched with."""
        split = split.copy()
        if split["feature"] >= 0:
            split["left_grad"], split["left_hess"] = self._sums(pool, node, split)
        return split

    def _sums(self, pool: Any, node: Any, split: Any) -> I64:
        """Of the rows left of a split, or (None) of all: those of the first feature."""
        mapper = pool.matrix.mapper
        feature = 0 if split is None else int(split["feature"])
        first, last = mapper.bin_offset[feature : feature + 2]
        width = int(node["width"])
        raw = pool.storage[int(node["slot"]), first * width // 4 : last * width // 4]
        if width == _EXACT:
            sums = raw.view(np.int64).reshape(-1, 2)
        else:
            both = raw.view(f"i{width // 4}").astype(np.int64)
            sums = np.stack([both >> width, both & (2**width - 1)], axis=1)
        if split is None:
            return np.asarray(sums.sum(axis=0))
        left = sums[: int(split["bin"]) + 1].sum(axis=0)
        if mapper.has_missing[feature] and split["default_left"]:
            left = left + sums[-1]
        return np.asarray(left)


def _widened(plan: Any, *fields: str) -> Any:
    made = plan.copy()
    for field in fields:
        made[field] = _EXACT
    return made


def _score(sums: F64, params: Any) -> float:
    """G^2 / (H + lambda)."""
    least = float(sums[1]) + params.reg_lambda
    return float(sums[0]) ** 2 / least if least > 0.0 else 0.0
