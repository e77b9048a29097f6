"""One tree in plain NumPy: bins, histograms of int64, and the verbs that grow it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.backends.base import (
    Exchange,
    LeafRule,
    LeafSums,
    RootSums,
    SearchPlan,
    TreeInputs,
    TreeWork,
)
from bitgrove.backends.host_slots import HostSlots
from bitgrove.backends.reference.gain import FeatureGain
from bitgrove.backends.reference.levels import in_set, search_levels
from bitgrove.backends.reference.search import search_feature
from bitgrove.backends.told import Known
from bitgrove.data.binning import BinMapper
from bitgrove.kernels.plans import (
    DRAWN,
    GRADIENT_SUMS,
    LEVELS,
    ROW_COUNTS,
    SUBSET,
    Records,
    no_splits,
    records,
)
from bitgrove.model.tree import Tree

Array = NDArray[Any]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
U32 = NDArray[np.uint32]
_GAIN_NOISE = 1e-12


@dataclass(eq=False)
class ReferenceMatrix:
    n_rows: int
    mapper: BinMapper
    missing: NDArray[np.uint8]
    bins: NDArray[np.uint8]  # (n_features, n_rows)

    @property
    def n_slot_bins(self) -> int:
        return int(self.mapper.bin_offset[-1])

    def prepare(self, mapper: BinMapper, alone: bool = False) -> None:
        self.mapper = mapper

    def goes_left(self, feature: Any, rows: Any, split_bin: Any, default_left: Any) -> Any:
        """Whether rows go left at a split; missing values go where the split says."""
        bins = self.bins[feature, rows]
        is_missing = bins == self.mapper.missing_bin[feature]
        return np.where(is_missing, default_left == 1, bins <= split_bin)

    def walk_tree(self, scores: F64, tree: Tree, rows: Array) -> None:
        """Adds to the scores of the rows the values of the leaves that they reach."""
        node = np.full(len(rows), 0 if tree.n_splits else -1)
        while (active := np.flatnonzero(node >= 0)).size:
            at = node[active]
            feature, split_bin = tree.feature[at], tree.split_bin[at]
            left = self.goes_left(feature, rows[active], split_bin, tree.default_left[at])
            for split in np.flatnonzero(tree.by_subset):
                here = at == split
                bins = self.bins[tree.feature[split], rows[active[here]]]
                left[here] = in_set(tree.left_bins[split], bins)
            node[active] = np.where(left, tree.left[at], tree.right[at])
        scores[rows] += tree.leaf_value[~node]


@dataclass(eq=False)
class ReferencePool:
    """storage[slot, bin] are the sums of gradient and hessian."""

    matrix: ReferenceMatrix
    n_slots: int
    half_bits: int
    storage: I64

    def on_host(self, slots: I64) -> HostSlots:
        return HostSlots(self.storage.reshape(self.n_slots, -1).view(np.uint8), width=64)

    def put_back(self, host: HostSlots) -> None:
        """It is the pool's own memory."""


class ReferenceTree(TreeWork):
    """Grown one leaf at a time: a plan builds every node it searches."""

    pool: ReferencePool

    def __init__(self, pool: ReferencePool, inputs: TreeInputs) -> None:
        self.pool, self._inputs = pool, inputs
        self._rows, self._packed = inputs.rows, inputs.packed.values
        grad, hess = self._packed[self._rows].sum(axis=0).tolist()
        self.root = RootSums(grad, hess, len(self._rows), 0)

    def search(self, plan: SearchPlan, exchange: Exchange | None = None) -> Records:
        for step in plan.builds:
            self._build(self._rows[step["begin"] : step["end"]], step["slot"])
        if exchange is None:
            everything = (0, self.pool.matrix.mapper.n_features)
            return self.find(plan.nodes, everything, allowed=plan.allowed)
        exchange.sum_built(self.pool, plan.builds)
        return exchange.choose(plan, self)

    def _build(self, rows: Array, slot: int) -> None:
        mapper, bins, sums = self.pool.matrix.mapper, self.pool.matrix.bins, self.pool.storage[slot]
        sums[:] = 0
        for f in range(mapper.n_features):
            np.add.at(
                sums, mapper.bin_offset[f] + bins[f, rows].astype(np.int64), self._packed[rows]
            )

    def find(
        self,
        nodes: Records,
        features: tuple[int, int],
        pool: Any = None,
        allowed: NDArray[np.uint8] | None = None,
    ) -> Records:
        pool = self.pool if pool is None else pool
        if allowed is None:
            allowed = np.broadcast_to(self._inputs.allowed, (len(nodes), len(self._inputs.allowed)))
        mapper, inputs, found = pool.matrix.mapper, self._inputs, no_splits(len(nodes))
        for i, node in enumerate(nodes):
            for f in range(*features):
                if allowed[i, f]:
                    bins = pool.storage[
                        node["slot"], mapper.bin_offset[f] : mapper.bin_offset[f + 1]
                    ]
                    is_drawn = bool(mapper.kinds[f] == DRAWN)
                    gain = FeatureGain(f, node, inputs.rules, inputs.split_rules, is_drawn)
                    search = search_levels if mapper.kinds[f] == LEVELS else search_feature
                    search(bins, bool(mapper.has_missing[f]), gain, found[i : i + 1])
            parent = FeatureGain(0, node, inputs.rules, inputs.split_rules).parent_score
            if not found["gain"][i] > max(parent * _GAIN_NOISE, inputs.rules.min_gain):
                found[i] = no_splits(1)[0]
        return found

    def divide(self, divisions: Records) -> Records:
        left_rows = records(ROW_COUNTS, len(divisions))
        for i, step in enumerate(divisions):
            mine = self._rows[step["begin"] : step["end"]].copy()
            split = (int(step["feature"]), mine, step["bin"], step["default_left"])
            left = self.pool.matrix.goes_left(*split)
            if step["bin"] == SUBSET:
                left = in_set(step["left_bins"], self.pool.matrix.bins[step["feature"], mine])
            self._rows[step["begin"] : step["end"]] = np.concatenate([mine[left], mine[~left]])
            left_rows["active"][i] = left.sum()
        return left_rows

    def set_leaves(self, begins: I64, ends: I64) -> None:
        self._leaves = [self._rows[a:b] for a, b in zip(begins, ends, strict=True)]

    def leaf_sums(self, grad: Array, hess: Any, units: tuple[float, float]) -> Known:
        sums = records(GRADIENT_SUMS, len(self._leaves))
        for leaf, rows in zip(sums, self._leaves, strict=True):
            leaf["grad"] = _fixed_sum(grad[rows], units[0])
            leaf["hess"] = len(rows) if hess is None else _fixed_sum(hess[rows], units[1])
        return Known(sums)

    def leaf_values(self, sums: LeafSums, rule: LeafRule) -> tuple[F64, F64]:
        grad = sums.integers["grad"] * sums.grad_unit
        hess = sums.integers["hess"] * sums.hess_unit
        grad = np.copysign(np.maximum(np.abs(grad) - rule.reg_alpha, 0.0), grad)
        curvature = hess + rule.reg_lambda
        size = np.divide(-grad, curvature, out=np.zeros_like(grad), where=curvature > 0.0)
        return size * rule.learning_rate + 0.0, hess  # + 0.0: a zero leaf is +0, never -0

    def leaf_digits(self, keys: U32, weights: Any, prefixes: U32, shift: int) -> I64:
        found = np.zeros((len(self._leaves), 256), dtype=np.int64)
        for leaf, rows in enumerate(self._leaves):
            mine = rows[keys[rows].astype(np.uint64) >> np.uint64(shift + 8) == prefixes[leaf]]
            digits = (keys[mine] >> np.uint32(shift)) & np.uint32(255)
            np.add.at(found[leaf], digits, 1 if weights is None else weights[mine])
        return found

    def next_keys(self, keys: U32, lower: U32) -> U32:
        above = [
            keys[rows][keys[rows] > low] for rows, low in zip(self._leaves, lower, strict=True)
        ]
        return np.array([a.min(initial=0xFFFFFFFF) for a in above], dtype=np.uint32)

    def add_tree(self, scores: F64, tree: Tree) -> None:
        for rows, value in zip(self._leaves, tree.leaf_value, strict=True):
            scores[rows] += value
        left_out = np.setdiff1d(np.arange(len(scores)), self._rows)
        self.pool.matrix.walk_tree(scores, tree, left_out)


def _fixed_sum(values: Array, unit: float) -> int:
    return int(np.rint(values.astype(np.float64) * unit).astype(np.int64).sum())
