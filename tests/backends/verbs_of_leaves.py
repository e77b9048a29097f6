"""The verbs of a tree's rows, on any backend: divide, sums and values of leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bitgrove.arithmetic.exact_math import numpy_to_gradient
from bitgrove.kernels.plans import DIVISION, Records, records
from bitgrove.model.tree import Tree
from kernel_cases import mapper_of
from verb_cases import (
    REFERENCE,
    Integers,
    Table,
    Twin,
    TwinPlan,
    leaf_tree,
    random_integers,
    random_table,
)

# Around the blocks of rows that threads and thread blocks take.
SIZES = [0, 1, 31, 32, 33, 4095, 4096, 4097, 8193]


def random_divisions(rng: np.random.Generator, table: Table, sizes: list[int]) -> Records:
    """Nodes of these sizes, one after the other, with a gap of three rows before each."""
    ends = np.cumsum(np.array(sizes) + 3)
    feature = rng.integers(0, table.mapper.n_features, len(sizes))
    missing_bin = table.mapper.missing_bin[feature]
    return records(
        DIVISION, len(sizes), begin=ends - sizes, end=ends, first_zero=ends, feature=feature,
        bin=rng.integers(0, missing_bin), missing_bin=missing_bin,
    )  # fmt: skip


def check_divide(twin: Twin, backend: Any, divisions: Records) -> None:
    found, expected = twin.work.divide(divisions), twin.oracle.divide(divisions)
    np.testing.assert_array_equal(found["active"] + found["zero"], expected["active"])
    np.testing.assert_array_equal(backend.download(twin.rows), twin.oracle_rows)


class DivideVerbs:
    @pytest.mark.parametrize("default_left", [0, 1])
    @pytest.mark.parametrize("n_features", [1, 6])
    def test_nodes_of_many_sizes(self, backend: Any, n_features: int, default_left: int) -> None:
        rng = np.random.default_rng(14)
        sizes = [*SIZES, 30_000]
        n_rows = sum(sizes) + 50
        table, integers = random_table(15, n_rows, n_features), random_integers(rng, n_rows, (3, 6))
        rows = rng.permutation(n_rows).astype(np.int32)[: n_rows - 10]
        twin = TwinPlan(table, integers, rows).start(backend)
        for _ in range(3):
            divisions = random_divisions(rng, table, rng.permutation(sizes).tolist())
            divisions["default_left"] = default_left
            check_divide(twin, backend, divisions)

    @pytest.mark.parametrize("split_bin", [0, 126, 127, 128, 253, 254])
    def test_every_kind_of_bin(self, backend: Any, split_bin: int) -> None:
        """Bins are unsigned bytes; the last cut leaves the missing values alone."""
        rng = np.random.default_rng(split_bin)
        bins = rng.integers(0, 256, 5000).astype(np.float64)
        table = Table(mapper_of([255], [True]), [np.where(bins == 255, np.nan, bins)])
        twin = TwinPlan(table, random_integers(rng, 5000, (3, 6))).start(backend)
        for default_left in (0, 1):
            step = records(
                DIVISION, 1, end=5000, first_zero=5000, bin=split_bin, missing_bin=255,
                default_left=default_left,
            )  # fmt: skip
            check_divide(twin, backend, step)

    def test_zero_rows(self, backend: Any) -> None:
        """Wherever a backend puts the zero rows of a node, they go to their side of the split."""
        rng = np.random.default_rng(16)
        table, integers = random_table(16, 9000, 5), random_integers(rng, 9000, (3, 6))
        integers.pairs[rng.random(9000) < 0.6] = 0
        made = TwinPlan(table, integers, separate_zeros=True)
        twin = made.start(backend)
        root = twin.work.root
        assert root.n_active + root.n_zero == 9000
        assert [root.grad, root.hess] == integers.pairs.sum(axis=0).tolist()
        assert integers.pairs[twin.oracle_rows[root.n_active :]].any() == 0
        for _ in range(3):
            divisions = random_divisions(rng, table, [8997])
            divisions["first_zero"] = min(max(root.n_active, 3), 9000)
            check_divide(twin, backend, divisions)


class LeafVerbs:
    @pytest.mark.parametrize("n_leaves", [1, 2, 255, 256, 300])
    def test_leaves(self, backend: Any, n_leaves: int) -> None:
        """Rows in no leaf keep their score, also a negative zero; some leaves are empty."""
        rng = np.random.default_rng(n_leaves)
        n_rows = 70_001
        table = Table(mapper_of([1], [False]), [np.zeros(n_rows)])
        rows = rng.permutation(n_rows).astype(np.int32)
        integers = Integers(np.ones((n_rows, 2), dtype=np.int64))
        twin = TwinPlan(table, integers, rows).start(backend)
        ends = np.sort(rng.integers(0, n_rows - 500, size=n_leaves))
        begins = np.concatenate([[0], ends[:-1]])
        for work in (twin.work, twin.oracle):
            work.set_leaves(begins, ends)
        grad, hess = (rng.normal(size=n_rows).astype(np.float32) for _ in range(2))
        for h in (hess, None):
            units = (2.0**38, 2.0**40)
            expected = twin.oracle.leaf_sums(grad, h, units).read()
            found = twin.work.leaf_sums(*map(backend.upload, (grad, h)), units).read()
            assert found.tobytes() == expected.tobytes()
        scores, tree = rng.normal(size=n_rows), leaf_tree(rng.normal(size=n_leaves))
        scores[::7] = -0.0
        mine = backend.upload(scores.copy())
        twin.oracle.add_tree(scores, tree)
        twin.work.add_tree(mine, tree)
        assert backend.download(mine).tobytes() == scores.tobytes()

    @pytest.mark.parametrize("n_leaves", [1, 3, 255, 300])
    def test_digits_of_residuals(self, backend: Any, n_leaves: int) -> None:
        """Keys rise with the residuals; weights of digits and next keys, also of empty leaves."""
        rng = np.random.default_rng(n_leaves)
        n_rows = 70_001
        table = Table(mapper_of([1], [False]), [np.zeros(n_rows)])
        rows = rng.permutation(n_rows).astype(np.int32)
        integers = Integers(np.ones((n_rows, 2), dtype=np.int64))
        twin = TwinPlan(table, integers, rows).start(backend)
        ends = np.sort(rng.integers(0, n_rows - 500, size=n_leaves))
        begins = np.concatenate([[0], ends[:-1]])
        for work in (twin.work, twin.oracle):
            work.set_leaves(begins, ends)
        label, scores = np.round(rng.normal(size=n_rows), 3), rng.choice([0.0, 1e-45, 1e30], n_rows)
        keys = REFERENCE.residual_keys(scores, label)
        mine = backend.residual_keys(*map(backend.upload, (scores, label)))
        assert backend.download(mine).tobytes() == keys.tobytes()
        residual = numpy_to_gradient(label - scores)
        order = np.argsort(keys, kind="stable")
        assert (np.diff(residual[order]) >= 0.0).all()
        prefix = np.zeros(n_leaves, dtype=np.uint32)
        for shift in (24, 16, 8, 0):
            for weights in (None, rng.integers(1, 2**40, size=n_rows)):
                expected = twin.oracle.leaf_digits(keys, weights, prefix, shift)
                found = twin.work.leaf_digits(mine, backend.upload(weights), prefix, shift)
                np.testing.assert_array_equal(found, expected)
            prefix = (prefix << np.uint32(8)) | expected.argmax(axis=1).astype(np.uint32)
        expected_next = twin.oracle.next_keys(keys, prefix)
        np.testing.assert_array_equal(twin.work.next_keys(mine, prefix), expected_next)

    @pytest.mark.parametrize("n_splits", [0, 2])
    def test_add_tree(self, backend: Any, n_splits: int) -> None:
        """Rows of another table walk the tree."""
        table = random_table(17, 9000, 3)
        missing_bin = table.mapper.missing_bin
        tree = Tree(
            feature=np.arange(n_splits, dtype=np.int32),
            split_bin=(missing_bin[:n_splits] // 2).astype(np.uint8),
            threshold=np.zeros(n_splits),
            default_left=np.array([1, 0], dtype=np.uint8)[:n_splits],
            left=np.array([1, -1], dtype=np.int32)[:n_splits],
            right=np.array([-2, -3], dtype=np.int32)[:n_splits],
            gain=np.zeros(n_splits),
            split_rows=np.zeros(n_splits, dtype=np.int64),
            split_hess=np.zeros(n_splits),
            leaf_value=np.array([0.1, -0.2, 0.7])[: n_splits + 1],
            leaf_rows=np.zeros(n_splits + 1, dtype=np.int64),
            leaf_hess=np.zeros(n_splits + 1),
        )
        scores = np.random.default_rng(18).normal(size=9000)
        mine = backend.upload(scores.copy())
        REFERENCE.add_tree(scores, table.on(REFERENCE), tree)
        backend.add_tree(mine, table.on(backend), tree)
        assert backend.download(mine).tobytes() == scores.tobytes()
