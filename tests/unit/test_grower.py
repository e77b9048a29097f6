"""Frontier rounds give exactly the tree of plain, one-leaf-at-a-time, best-first growth."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bitgrove import Dataset
from bitgrove.backends.reference import ReferenceBackend
from bitgrove.boosting import Booster
from bitgrove.distributed import SoloComm
from bitgrove.grower import replay_best_first
from bitgrove.params import resolve
from bitgrove.quantize import quantize
from bitgrove.sampling import rounding_key
from bitgrove.splits import GainRules
from bitgrove.tree import Tree
from cases import CASES, Case


class PlainGrower:
    """Best-first growth in its plainest form: a heap, one split at a time, every histogram built
    from its rows. Returns the splits in the order they were taken."""

    def __init__(self, booster: Booster) -> None:
        self.booster = booster
        self.backend = ReferenceBackend()
        self.matrix = booster.matrix
        grad, hess = self.backend.gradients(
            booster.objective, booster.scores, booster.label, booster.weight, booster.queries
        )
        key = rounding_key(booster.params.random_state, 0)
        hess0 = None if hess is None else hess[0]
        self.quantized = quantize(self.backend, grad[0], hess0, booster.params, key, 0, SoloComm())
        self.rules = GainRules.of(booster.params, self.quantized)

    def best_split(self, rows: NDArray[np.int32], depth: int) -> NDArray[np.void]:
        pool = self.backend.new_pool(1, int(self.matrix.mapper.bin_offset[-1]), 64)
        plan = np.array([[0, len(rows), 0, 64, 64, len(rows)]])
        packed = self.quantized.packed
        self.backend.build_histograms(pool, self.matrix, packed, rows, plan, True)  # type: ignore[arg-type]
        grad, hess = self.backend.row_sums(packed, rows)
        least = self.rules.min_child_hess(np.array([len(rows)]), np.array([hess]))[0]
        n_features = self.matrix.mapper.n_features
        splits = self.backend.find_splits(
            pool,
            self.matrix.mapper,
            np.array([0]),
            np.array([64]),
            np.array([[grad, hess, least]], dtype=float),
            (0, n_features),
            np.ones(n_features, dtype=np.uint8),
            self.rules,
            True,
        )
        max_depth = self.booster.params.max_depth
        if max_depth > 0 and depth >= max_depth:
            splits["gain"] = -np.inf
        return splits[0]  # type: ignore[no-any-return]

    def grow(self) -> list[tuple[int, int, int, float]]:
        rows = np.arange(self.matrix.n_rows, dtype=np.int32)
        root = self.best_split(rows, 0)
        heap = [(-root["gain"], 0, rows, root, 0)]
        taken, pushed = [], 0
        while heap and len(taken) < self.booster.params.num_leaves - 1:
            negative_gain, _, rows, split, depth = heapq.heappop(heap)
            if negative_gain >= 0:
                break
            feature, split_bin = int(split["feature"]), int(split["bin"])
            taken.append((feature, split_bin, len(rows), -negative_gain))
            bins = self.matrix.bins[feature, rows]  # type: ignore[attr-defined]
            missing = bins == self.matrix.mapper.missing_bin[feature]
            left = np.where(missing, split["default_left"] == 1, bins <= split_bin)
            for part in (rows[left], rows[~left]):
                pushed += 1
                child = self.best_split(part, depth + 1)
                if child["gain"] > 0:
                    heapq.heappush(heap, (-child["gain"], pushed, part, child, depth + 1))
        return taken


def splits_of(tree: Tree) -> list[tuple[int, int, int, float]]:
    return list(
        zip(
            tree.feature.tolist(),
            tree.split_bin.tolist(),
            tree.split_rows.tolist(),
            tree.gain.tolist(),
            strict=True,
        )
    )


PLAIN_CASES = [
    "binary 2 bits",
    "binary 5 bits regularised",
    "binary 8 bits depth",
    "binary full precision",
    "regression",
    "regression weighted",
    "ranking",
    "tall narrow",
]


@pytest.mark.parametrize("name", PLAIN_CASES)
@pytest.mark.parametrize("alpha", [0.1, 0.75, 1.0])
def test_frontier_equals_plain_best_first(name: str, alpha: float) -> None:
    case: Case = CASES[name]()
    params = resolve({**case.params, "device": "reference"})
    dataset = Dataset(case.X, case.y, weight=case.weight, group=case.group)
    expected = PlainGrower(Booster(params, dataset, SoloComm())).grow()
    assert len(expected) > 3
    cpu = resolve({**case.params, "device": "cpu", "frontier_alpha": alpha, "n_jobs": 2})
    booster = Booster(cpu, dataset, SoloComm())
    (tree,) = booster.boost(0)
    assert splits_of(tree) == expected


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 8), min_size=1, max_size=61), st.integers(1, 20), st.data())
def test_replay_in_rounds_equals_replay_at_once(
    values: list[int], n_splits: int, data: st.DataObject
) -> None:
    """Random full binary trees with many equal gains; children revealed in random batches."""
    gains = [float(v) for v in values]
    n_nodes = len(gains) - (len(gains) + 1) % 2
    gains = gains[:n_nodes]
    full = [2 * i + 1 if 2 * i + 2 < n_nodes else -1 for i in range(n_nodes)]
    gains = [g if full[i] >= 0 else 0.0 for i, g in enumerate(gains)]  # the last row cannot split
    expected, pending = replay_best_first(gains, full, n_splits)
    assert not pending
    known = [-1] * n_nodes
    while True:
        taken, pending = replay_best_first(gains, known, n_splits)
        if not pending:
            break
        n_batch = data.draw(st.integers(1, len(pending)))
        for node in pending[:n_batch]:
            known[node] = full[node]
    assert taken == expected


def test_rounds_are_few() -> None:
    """254 splits take a small number of rounds."""
    case = CASES["tall narrow"]()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20000, 4))
    y = (X[:, 0] * X[:, 1] + rng.normal(size=20000) > 0).astype(float)
    case.X, case.y = X, y
    model = case.train(num_leaves=255, n_estimators=2)
    assert all(tree.n_leaves == 255 for tree in model.trees)
    assert max(model.info.rounds_per_tree) <= 25
