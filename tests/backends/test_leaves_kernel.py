"""Leaves of a finished tree: rows, sums and values equal the reference's."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from bitgrove.backends.reference import ReferenceBackend
from bitgrove.params import resolve
from bitgrove.training.refit import LeafSums, leaf_values
from kernel_cases import SIMD, cpu

Listed = tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]


def listed_leaves(n_leaves: int, n_rows: int, n_listed: int) -> Listed:
    """Some rows dealt to leaves; some leaves are empty."""
    rng = np.random.default_rng(n_leaves)
    rows = rng.permutation(n_rows)[:n_listed].astype(np.int32)
    ends = np.sort(rng.integers(0, n_listed + 1, size=n_leaves))
    ends[-1] = n_listed
    return rows, np.concatenate([[0], ends[:-1]]), ends


@pytest.mark.parametrize("simd", SIMD)
@pytest.mark.parametrize("n_threads", [1, 2, 4])
@pytest.mark.parametrize("n_leaves", [1, 2, 255, 256, 300])
@pytest.mark.parametrize("n_listed", [70_000, 69_999, 20_000])
def test_equal_to_the_reference(n_leaves: int, n_listed: int, n_threads: int, simd: int) -> None:
    check_leaves(n_leaves, n_listed, n_threads, simd)


@pytest.mark.parametrize("n_leaves", [65_535, 65_536])
def test_very_many_leaves(n_leaves: int) -> None:
    check_leaves(n_leaves, 69_999, 2, SIMD[-1])


def check_leaves(n_leaves: int, n_listed: int, n_threads: int, simd: int) -> None:
    n_rows = 70_000
    rng = np.random.default_rng(1)
    leaves = listed_leaves(n_leaves, n_rows, n_listed)
    grad, hess = (rng.normal(size=n_rows).astype(np.float32) for _ in range(2))
    values, before = rng.normal(size=n_leaves), rng.normal(size=n_rows)
    before[::7] = -0.0
    found = []
    for backend in (ReferenceBackend(), cpu(n_threads, simd)):
        located, scores = backend.locate_leaves(*leaves, n_rows), before.copy()
        backend.add_leaf_values(scores, located, values)
        sums = [backend.leaf_sums(located, grad, h, (2.0**38, 2.0**40)) for h in (hess, None)]
        found.append([scores.tobytes(), *(s.tobytes() for s in sums)])
    assert found[0] == found[1]


def test_rows_in_no_leaf_keep_their_score() -> None:
    """Also a negative zero keeps its sign."""
    scores = np.array([-0.0, 0.0, 1.5, -0.0])
    backend = cpu()
    rows = np.array([1, 3], dtype=np.int32)
    located = backend.locate_leaves(rows, np.array([0]), np.array([2]), 4)
    backend.add_leaf_values(scores, located, np.array([2.0]))
    assert scores.tobytes() == np.array([-0.0, 2.0, 1.5, 2.0]).tobytes()


@pytest.mark.parametrize("reg_alpha", [0.0, 0.5])
def test_leaf_values(reg_alpha: float) -> None:
    """-soft(G) / (H + lambda) * learning rate; no curvature, no value; a zero is never negative."""
    params = resolve({"reg_alpha": reg_alpha, "reg_lambda": 0.25, "learning_rate": 0.1})
    integers = np.array([[12, 7], [-12, 7], [0, 7], [1, 3], [-1, 3], [5, -1]])
    values, hess = leaf_values(LeafSums(integers, 0.25, 0.5), params)
    expected = []
    for g, h in (integers * [0.25, 0.5]).tolist():
        pull = max(abs(g) - reg_alpha, 0.0)
        size = pull / (h + 0.25) if h + 0.25 > 0.0 else 0.0
        expected.append((-size if g > 0 else size) * 0.1 + 0.0)
    assert values.tolist() == expected and not np.signbit(values[values == 0.0]).any()
    assert hess.tolist() == [3.5, 3.5, 3.5, 1.5, 1.5, -0.5]
