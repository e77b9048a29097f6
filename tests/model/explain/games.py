"""Shapley values by their definition: sums over all subsets of features, for small trees."""

from __future__ import annotations

from itertools import combinations
from math import factorial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitgrove.model.model import Model
from bitgrove.model.tree import Tree

F64 = NDArray[np.float64]


def goes_left(tree: Tree, split: int, x: float) -> bool:
    """As Tree documents it."""
    if np.isnan(x):
        return bool(tree.default_left[split])
    if tree.by_subset[split]:
        words = tree.left_bins[split]
        return 0 <= x < 256 and bool(int(words[int(x) // 64]) >> (int(x) % 64) & 1)
    return bool(x <= tree.threshold[split])


def rows_below(tree: Tree, node: int) -> float:
    if node < 0:
        return float(tree.leaf_rows[~node])
    return rows_below(tree, int(tree.left[node])) + rows_below(tree, int(tree.right[node]))


def known_mean(tree: Tree, row: F64, known: frozenset[int], source: Any, node: int) -> float:
    """The tree's value where some features are known; others go both ways."""
    if node < 0:
        return float(tree.leaf_value[~node])
    left, right = int(tree.left[node]), int(tree.right[node])
    if source[tree.feature[node]] in known:
        side = left if goes_left(tree, node, row[tree.feature[node]]) else right
        return known_mean(tree, row, known, source, side)
    n_left, n_right = rows_below(tree, left), rows_below(tree, right)
    share = n_left / (n_left + n_right) if n_left + n_right > 0 else 0.5
    return share * known_mean(tree, row, known, source, left) + (1 - share) * known_mean(
        tree, row, known, source, right
    )


def subsets(items: list[int]) -> list[frozenset[int]]:
    return [frozenset(c) for n in range(len(items) + 1) for c in combinations(items, n)]


class Game:
    """v(S) of one output of a model for one row of its columns; beside a background row, if any."""

    def __init__(self, model: Model, row: F64, output: int = 0, other: F64 | None = None) -> None:
        encoder = model.encoder
        source = np.arange(model.n_features) if encoder is None else encoder.sources
        self.n = model.n_features
        trees = model.trees[output :: model.n_outputs]
        self.value = {}
        for known in subsets(list(range(self.n))):
            total = float(model.base_score[output])
            for tree in trees:
                if other is None:
                    total += known_mean(tree, row, known, source, 0 if tree.n_splits else ~0)
                else:
                    mixed = np.where(np.isin(source, list(known)), row, other)
                    every = frozenset(range(self.n))
                    total += known_mean(tree, mixed, every, source, 0 if tree.n_splits else ~0)
            self.value[known] = total

    def shapley(self) -> F64:
        """(n + 1,): of each feature, and the value of nothing."""
        found = np.zeros(self.n + 1)
        for i in range(self.n):
            others = [j for j in range(self.n) if j != i]
            for s in subsets(others):
                weight = factorial(len(s)) * factorial(self.n - len(s) - 1) / factorial(self.n)
                found[i] += weight * (self.value[s | {i}] - self.value[s])
        found[-1] = self.value[frozenset()]
        return found

    def interactions(self) -> F64:
        """(n, n): Shapley interaction indices, halved; the rest of each value on the diagonal."""
        n = self.n
        found = np.zeros((n, n))
        for i, j in combinations(range(n), 2):
            for s in subsets([k for k in range(n) if k not in (i, j)]):
                weight = factorial(len(s)) * factorial(n - len(s) - 2) / (2 * factorial(n - 1))
                v = self.value
                found[i, j] += weight * (v[s | {i, j}] - v[s | {i}] - v[s | {j}] + v[s])
            found[j, i] = found[i, j]
        found[np.diag_indices(n)] = self.shapley()[:-1] - found.sum(axis=1)
        return found
