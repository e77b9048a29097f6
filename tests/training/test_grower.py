"""Frontier rounds give exactly the tree of plain, one-leaf-at-a-time, best-first growth."""

from __future__ import annotations

import heapq
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bitgrove import Dataset, _core
from bitgrove.backends.reference import ReferenceBackend
from bitgrove.backends.reference.best_first import BestFirst
from bitgrove.data.sampling import rounding_key
from bitgrove.distributed import SoloComm
from bitgrove.kernels.plans import ROW_COUNTS, SEARCH_NODE, no_splits, records
from bitgrove.model.tree import Tree
from bitgrove.params import resolve
from bitgrove.training.booster import Booster
from bitgrove.training.grower import gain_rules
from bitgrove.training.histograms import WidthPlan
from bitgrove.training.quantize import QuantizedGradients, quantize, traits_of
from cases import CASES, Case
from one_tree import builds, run_steps, start_tree


class PlainGrower:
    """Best-first growth in its plainest form: a heap, one split at a time, every histogram built
    from its rows. Returns the splits in the order they were taken."""

    def __init__(self, booster: Booster) -> None:
        self.booster = booster
        self.backend = ReferenceBackend()
        self.matrix = booster.matrix
        gradients = self.backend.gradients(booster.objective, booster.scores, booster.targets)
        key = rounding_key(booster.params.random_state, 0)
        how = (booster.params, key, booster.runs, SoloComm(), traits_of(booster.objective, 0))
        self.quantized = quantize(self.backend, gradients.output(0), *how)
        self.rules = gain_rules(booster.params, self.quantized)
        self.least_weight = booster.params.min_child_weight / self.quantized.hess_scale

    def best_split(self, rows: NDArray[np.int32], depth: int) -> NDArray[np.void]:
        pool = self.backend.new_pool(self.matrix, 1, 64)
        packed = self.quantized.packed.values
        work = start_tree(self.backend, pool, packed, rows, rules=self.rules)
        grad, hess = packed[rows].sum(axis=0)
        by_samples = (self.booster.params.min_child_samples - 0.5) * hess / len(rows)
        least = max(math.ceil(max(by_samples, self.least_weight)), 1)
        run_steps(work, builds((0, len(rows), 0, 64, 64, len(rows))))
        node = records(SEARCH_NODE, 1, width=64, grad=grad, hess=hess, min_hess=least)
        splits = work.find(node, (0, self.matrix.mapper.n_features))
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
    plain = Booster(params, dataset, SoloComm())
    expected = PlainGrower(plain).grow()
    assert len(expected) > 3
    assert splits_of(plain.boost(0)[0].tree) == expected
    cpu = resolve({**case.params, "device": "cpu", "frontier_alpha": alpha, "n_jobs": 2})
    booster = Booster(cpu, dataset, SoloComm())
    ((_, tree, _),) = booster.boost(0)
    assert splits_of(tree) == expected


def plain_replay(gains: list[float], n_splits: int) -> list[int]:
    """Best-first over a complete binary tree; node i has the children 2 i + 1 and 2 i + 2."""
    heap, taken, pushed = [(-gains[0], 0, 0)], [], 0
    while heap and len(taken) < n_splits:
        negative_gain, _, node = heapq.heappop(heap)
        if negative_gain >= 0:
            break
        taken.append(node)
        for child in (2 * node + 1, 2 * node + 2):
            if child < len(gains) and gains[child] > 0:
                pushed += 1
                heapq.heappush(heap, (-gains[child], pushed, child))
    return taken


def frontier_replay(
    frontier_class: Any,
    gains: list[float],
    n_splits: int,
    n_slots: int,
    alpha: float,
    grad_limit: int = 1,
) -> list[int]:
    """The same tree through a frontier that is told the gains round by round.

    A node's place in the complete tree travels as its row range: node i holds 2^(depth from the
    bottom) rows, so that (begin, rows) tells which node it is.
    """
    depth = 6
    widths = WidthPlan(QuantizedGradients(None, 1.0, 1.0, grad_limit, 1, 2**40, 2**40, 0), 2**40)
    frontier = frontier_class(
        n_slots=n_slots,
        num_leaves=n_splits + 1,
        max_depth=-1,
        min_child_samples=1,
        min_child_hess=0.0,
        widths=widths.limits,
    )
    all_rows = (2**depth, 0)
    frontier.start(grad=0, hess=2**depth, all_rows=all_rows, local_rows=all_rows)
    place: dict[int, int] = {}  # slot -> node, through the builds and subtractions

    def search() -> None:
        while (plan := frontier.next_search()) is not None:
            slots = plan.nodes["slot"].tolist()
            assert len(slots) == len(set(slots)) and max(slots) < n_slots
            for begin, end, slot in plan.builds[["begin", "end", "slot"]].tolist():
                level = depth - int(math.log2(end - begin))
                place[slot] = 2**level - 1 + begin // (end - begin)
            taken_away = dict(plan.subtractions[["out_slot", "built_slot"]].tolist())
            for step in plan.subtractions:
                small = int(step["built_slot"])
                assert place[int(step["parent_slot"])] == (place[small] - 1) // 2
                # Sums that get narrower leave their parent's slot; the others stay.
                stays = step["out_slot"] == step["parent_slot"]
                assert stays == (step["out_width"] == step["parent_width"])
                sibling = place[small] + 1 if place[small] % 2 else place[small] - 1
                place[int(step["out_slot"])] = sibling
            found = no_splits(len(slots))
            for i, (slot, node) in enumerate(zip(slots, plan.nodes, strict=True)):
                assert node["sibling"] == taken_away.get(slot, -1)
                if place[slot] < len(gains) and gains[place[slot]] > 0:
                    found[i]["gain"], found[i]["feature"] = gains[place[slot]], 0
                    found[i]["left_hess"] = int(node["hess"]) // 2
                    found[i]["bin"], found[i]["default_left"] = place[slot] % 256, 1
            frontier.record(found)

    search()
    while len(plan := frontier.next_batch(alpha, np.array([255]))):
        assert (plan["first_zero"] == plan["end"]).all()
        n_left = records(ROW_COUNTS, len(plan), active=(plan["end"] - plan["begin"]) // 2)
        frontier.divide(n_left, n_left)
        search()
    cuts = (np.zeros(256), np.array([0, 256]), np.zeros(1, dtype=np.uint8))
    return frontier.finish(*cuts, 1.0)["splits"]["bin"].tolist()  # type: ignore[no-any-return]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=63),
    st.integers(1, 40),
    st.integers(2, 40),
    st.floats(0.01, 1.0),
    st.sampled_from([1, 2**11, 2**26]),
)
def test_frontier_replay_equals_plain_replay(
    values: list[int], n_splits: int, n_slots: int, alpha: float, grad_limit: int
) -> None:
    """Random trees with many equal gains, any number of slots, any share of pending nodes, sums
    that all fit 16 bits, or become narrower on the way down (64 rows at the root)."""
    gains = [float(v) for v in values]
    expected = plain_replay(gains, n_splits)
    for frontier in (_core.Frontier, BestFirst):
        assert frontier_replay(frontier, gains, n_splits, n_slots, alpha, grad_limit) == expected


@pytest.mark.parametrize(("alpha", "most"), [(0.25, 50), (0.5, 25)])
def test_rounds_are_few(alpha: float, most: int) -> None:
    """254 splits take a small number of rounds."""
    case = CASES["tall narrow"]()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20000, 4))
    y = (X[:, 0] * X[:, 1] + rng.normal(size=20000) > 0).astype(float)
    case.X, case.y = X, y
    model = case.train(num_leaves=255, n_estimators=2, frontier_alpha=alpha)
    assert all(tree.n_leaves == 255 for tree in model.trees)
    assert max(model.info.rounds_per_tree) <= most
