"""Leaves of a finished tree on the CPU: very many of them, ranges that do not fit, and values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bitgrove import _core
from bitgrove.backends.base import LeafRule, LeafSums
from bitgrove.backends.core_tree import CoreTree
from bitgrove.backends.reference.tree import ReferenceTree
from bitgrove.kernels.plans import GRADIENT_SUMS
from kernel_cases import SIMD


@pytest.mark.parametrize("simd", SIMD)
@pytest.mark.parametrize("n_leaves", [65_535, 65_536])
def test_very_many_leaves(n_leaves: int, simd: int) -> None:
    """Their numbers take two bytes, or four; the last number is that of no leaf."""
    rng = np.random.default_rng(n_leaves)
    n_rows, dtype = 70_000, np.min_scalar_type(n_leaves)
    rows = rng.permutation(n_rows).astype(np.int32)
    ends = np.sort(rng.integers(0, n_rows - 9, size=n_leaves))
    begins = np.concatenate([[0], ends[:-1]])
    leaf_of = np.empty(n_rows, dtype=dtype)
    _core.locate_leaves(rows, begins, ends, leaf_of, 2, simd)
    wanted = np.full(n_rows, n_leaves)
    wanted[rows[: ends[-1]]] = np.repeat(np.arange(n_leaves), ends - begins)
    np.testing.assert_array_equal(leaf_of, wanted)
    grad = rng.integers(-9, 10, n_rows).astype(np.float32)
    sums = _core.leaf_sums(leaf_of, n_leaves, grad, None, 4.0, 1.0, 2, simd)
    by_leaf = np.bincount(wanted, weights=4 * grad, minlength=n_leaves + 1)
    np.testing.assert_array_equal(sums["grad"], by_leaf[:-1])
    np.testing.assert_array_equal(sums["hess"], ends - begins)


def test_rows_in_no_leaf_keep_their_score() -> None:
    """Also a negative zero keeps its sign."""
    scores = np.array([-0.0, 0.0, 1.5, -0.0])
    leaf_of = np.array([1, 0, 1, 0], dtype=np.uint8)
    _core.add_leaf_values(scores, leaf_of, 1, np.array([2.0]), 1, SIMD[-1])
    assert scores.tobytes() == np.array([-0.0, 2.0, 1.5, 2.0]).tobytes()


@pytest.mark.parametrize(
    ("begins", "ends"),
    [([-1], [2]), ([0], [5]), ([3], [2]), ([0, 2], [2])],
    ids=["begin", "end", "order", "lengths"],
)
def test_wrong_ranges_are_refused(begins: list[int], ends: list[int]) -> None:
    rows, leaf_of = np.arange(4, dtype=np.int32), np.zeros(4, dtype=np.uint8)
    with pytest.raises(ValueError, match="bitgrove core"):
        _core.locate_leaves(rows, np.array(begins), np.array(ends), leaf_of, 1, SIMD[-1])


def test_more_leaves_than_numbers_are_refused() -> None:
    rows, leaf_of = np.arange(4, dtype=np.int32), np.zeros(4, dtype=np.uint8)
    nothing = np.zeros(256, dtype=np.int64)
    with pytest.raises(ValueError, match="too many leaves"):
        _core.locate_leaves(rows, nothing, nothing, leaf_of, 1, SIMD[-1])


def test_values_of_other_leaves_are_refused() -> None:
    """A row's leaf would be looked up beyond them."""
    scores, leaf_of = np.zeros(4), np.array([0, 1, 2, 2], dtype=np.uint8)
    for n_values in (1, 3):
        with pytest.raises(ValueError, match="one value per leaf"):
            _core.add_leaf_values(scores, leaf_of, 2, np.ones(n_values), 1, SIMD[-1])
    assert not scores.any()


@pytest.mark.parametrize("tree", [CoreTree, ReferenceTree])
@pytest.mark.parametrize("reg_alpha", [0.0, 0.5])
def test_leaf_values(tree: Any, reg_alpha: float) -> None:
    """-soft(G) / (H + lambda) * learning rate; no curvature, no value; a zero is never negative."""
    integers = np.array([[12, 7], [-12, 7], [0, 7], [1, 3], [-1, 3], [5, -1]])
    sums = np.array([tuple(pair) for pair in integers.tolist()], dtype=GRADIENT_SUMS)
    rule = LeafRule(reg_alpha, reg_lambda=0.25, learning_rate=0.1)
    values, hess = tree.leaf_values(None, LeafSums(sums, 0.25, 0.5), rule)  # of no tree
    expected = []
    for g, h in (integers * [0.25, 0.5]).tolist():
        pull = max(abs(g) - reg_alpha, 0.0)
        size = pull / (h + 0.25) if h + 0.25 > 0.0 else 0.0
        expected.append((-size if g > 0 else size) * 0.1 + 0.0)
    assert values.tolist() == expected and not np.signbit(values[values == 0.0]).any()
    assert hess.tolist() == [3.5, 3.5, 3.5, 1.5, 1.5, -0.5]
