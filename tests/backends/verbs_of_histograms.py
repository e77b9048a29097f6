"""The verbs of histograms, on any backend: build, subtract, find, and what ranks send of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bitgrove.backends.base import GainRules
from bitgrove.constraints.rules import SplitRules
from bitgrove.distributed.messages import add_messages, pack_messages
from bitgrove.kernels.plans import (
    BUILD,
    DIVISION,
    HISTOGRAM_PART,
    SEARCH_NODE,
    SUBSET,
    SUBTRACTION,
    Records,
    records,
)
from kernel_cases import mapper_of
from verb_cases import (
    I64,
    PLAIN,
    REGULARISED,
    Integers,
    Plan,
    Table,
    Twin,
    TwinPlan,
    narrowest,
    random_integers,
    random_table,
    search_both,
)

# (bits of a row's half, local width, rows per block, largest gradient and hessian)
WIDTHS = [
    (8, 8, 50, 1, 2), (8, 16, 8192, 3, 6), (8, 16, 1057, 31, 62), (8, 32, 8192, 127, 254),
    (16, 16, 8192, 3, 6), (16, 32, 8192, 32767, 65535), (32, 64, 8192, 2**23 - 1, 2**24 - 2),
    (32, 32, 256, 2**23 - 1, 2**24 - 2),
]  # fmt: skip


def search_nodes(twin: Twin, ranges: list[tuple[int, int, int]], width: int) -> Records:
    """SearchNodes of the rows (slot, begin, end)."""
    sums = np.array([twin.node_sums(begin, end) for _, begin, end in ranges]).reshape(-1, 2)
    return records(
        SEARCH_NODE, len(ranges), slot=[slot for slot, *_ in ranges], width=width, sibling=-1,
        grad=sums[:, 0], hess=sums[:, 1], min_hess=1.0,
    )  # fmt: skip


def search_plan(twin: Twin, ranges: list[tuple[int, int, int]], how: dict[str, int]) -> Plan:
    """Builds and searches the rows (slot, begin, end); how: the other fields of a Build."""
    slots, begins, ends = np.array(ranges).T
    builds = records(BUILD, len(ranges), slot=slots, begin=begins, end=ends, **how)
    nodes = search_nodes(twin, ranges, how["total_width"])
    return Plan(builds, records(SUBTRACTION, 0), nodes)


def check_search(twin: Twin, plan: Any, bins: tuple[int, int] | None = None) -> Records:
    """The backend and the reference find the same, and have the same sums."""
    found, expected = search_both(twin, plan, bins)
    assert found.tobytes() == expected.tobytes()
    for node in plan.nodes:
        mine, theirs = twin.sums(int(node["slot"]), int(node["width"]))
        np.testing.assert_array_equal(mine, theirs)
    return found


class HistogramVerbs:
    @pytest.mark.parametrize("half_bits", [32, 64])
    @pytest.mark.parametrize("width", WIDTHS)
    def test_rows_at_their_limits(
        self, backend: Any, width: tuple[int, int, int, int, int], half_bits: int
    ) -> None:
        """Half of the rows have the largest gradient, all of one sign, half the largest hessian."""
        row_bits, local, block_rows, grad_limit, hess_limit = width
        rng = np.random.default_rng(6)
        at_limit = rng.random((12_000, 2)) < 0.5
        pairs = at_limit * np.array([-grad_limit, hess_limit])
        total = max(narrowest(pairs), local)
        if total > half_bits:
            pytest.skip("its sums need a wider pool")
        rows = np.sort(rng.permutation(12_000)[:11_000]).astype(np.int32)
        table = random_table(7, 12_000, 6)
        made = TwinPlan(table, Integers(pairs, row_bits), rows, n_slots=5, half_bits=half_bits)
        twin = made.start(backend)
        ranges = [(4, 0, 11_000), (1, 1000, 11_000), (0, 0, 1000), (3, 960, 1000), (2, 7, 7)]
        how = {"local_width": local, "total_width": total, "block_rows": block_rows}
        found = check_search(twin, search_plan(twin, ranges, how))
        assert found["feature"][0] >= 0 and found["feature"][4] == -1

    @pytest.mark.parametrize("n_features", [1, 3, 4, 5, 8, 9, 16, 17, 31, 32, 33, 70])
    def test_any_number_of_features(self, backend: Any, n_features: int) -> None:
        rng = np.random.default_rng(n_features)
        integers = random_integers(rng, 900, (3, 6))
        rows = rng.permutation(900).astype(np.int32)[:800]
        table = random_table(n_features, 900, n_features)
        twin = TwinPlan(table, integers, rows, half_bits=32).start(backend)
        how = {"local_width": 8, "total_width": 16, "block_rows": 42}
        check_search(twin, search_plan(twin, [(0, 0, 800), (2, 100, 101), (1, 3, 500)], how))

    @pytest.mark.parametrize("total", [16, 32, 64])
    def test_builds_clear_their_slots(self, backend: Any, total: int) -> None:
        """Nodes without rows, too: a slot had another histogram before."""
        rng = np.random.default_rng(8)
        twin = TwinPlan(random_table(8, 300, 5), random_integers(rng, 300, (3, 6))).start(backend)
        how = {"local_width": 16, "total_width": total, "block_rows": 1000}
        for ranges in ([(0, 0, 300), (1, 0, 300)], [(0, 5, 5), (1, 299, 300)], [(0, 300, 300)]):
            check_search(twin, search_plan(twin, ranges, how))

    def test_slots_beside_keep_their_sums(self, backend: Any) -> None:
        rng = np.random.default_rng(9)
        twin = TwinPlan(random_table(9, 500, 9), random_integers(rng, 500, (3, 6))).start(backend)
        how = {"local_width": 8, "total_width": 32, "block_rows": 42}
        for slots in ((0, 2), (1,)):
            check_search(twin, search_plan(twin, [(slot, slot, 500) for slot in slots], how))
        for slot in (0, 1, 2):
            mine, theirs = twin.sums(slot, 32)
            np.testing.assert_array_equal(mine, theirs)

    @pytest.mark.parametrize("part", ["all", "some", "none"])
    @pytest.mark.parametrize("widths", [(32, 16, 16), (32, 32, 32), (64, 32, 32), (64, 64, 64)])
    def test_subtract(self, backend: Any, widths: tuple[int, int, int], part: str) -> None:
        """Parent minus child is the sibling; within the bins that the exchange wants."""
        rng = np.random.default_rng(10)
        table, integers = random_table(10, 2000, 12), random_integers(rng, 2000, (3, 6))
        parent, child, out = widths
        twin = TwinPlan(table, integers, n_slots=6).start(backend)
        how = {"local_width": 16, "block_rows": 1000}
        left = [0, 2] if out == parent else [4, 5]  # what gets narrower has a slot of its own
        parents = [(0, 0, 1500), (2, 1500, 2000)]
        check_search(twin, search_plan(twin, parents, {**how, "total_width": parent}))
        children = [(1, 0, 700), (3, 1900, 2000)]
        plan = search_plan(twin, children, {**how, "total_width": child})
        steps = records(
            SUBTRACTION, 2, parent_slot=[0, 2], built_slot=[1, 3], out_slot=left,
            parent_width=parent, built_width=child, out_width=out,
        )  # fmt: skip
        siblings = search_nodes(twin, [(left[0], 700, 1500), (left[1], 1500, 1900)], out)
        if part != "all":
            assert_partial_subtraction(twin, plan._replace(subtractions=steps), parent, part)
            return
        nodes = np.concatenate([plan.nodes, siblings])
        found = check_search(twin, plan._replace(subtractions=steps, nodes=nodes))
        assert np.all(found["feature"] >= 0)

    def test_no_plan(self, backend: Any) -> None:
        rng = np.random.default_rng(11)
        twin = TwinPlan(random_table(11, 50, 3), random_integers(rng, 50, (3, 6))).start(backend)
        nothing = Plan(records(BUILD, 0), records(SUBTRACTION, 0), records(SEARCH_NODE, 0))
        assert len(check_search(twin, nothing)) == 0
        assert len(twin.work.divide(records(DIVISION, 0))) == 0


def assert_partial_subtraction(twin: Twin, plan: Plan, width: int, part: str) -> None:
    """The bins outside of the range keep the parent's sums (no other width than theirs)."""
    steps = plan.subtractions.copy()
    steps["out_slot"], steps["out_width"] = steps["parent_slot"], width
    bins = (5, twin.table.n_bins - 3) if part == "some" else (4, 4)
    search_both(twin, plan._replace(subtractions=steps, nodes=plan.nodes[:0]), bins)
    for slot in (0, 2):
        mine, theirs = twin.sums(slot, width)
        np.testing.assert_array_equal(mine, theirs)


FEATURES = [1, 2, 3, 255, 254, 7, 9, 31, 32, 33, 64, 8, 5, 200, 12, 4, 4, 4, 255]


def random_nodes(rng: np.random.Generator, table: Table, n_nodes: int, top: int) -> list[I64]:
    """Histograms of few to many rows; a small `top` makes many equal gains."""
    offset = table.mapper.bin_offset
    nodes = []
    for _ in range(n_nodes):
        n_rows = int(rng.choice([4, 30, 500]))
        rows = np.stack([rng.integers(-top, top + 1, n_rows), rng.integers(0, top + 1, n_rows)], 1)
        sums = np.zeros((table.n_bins, 2), dtype=np.int64)
        for first, last in itertools.pairwise(offset.tolist()):
            np.add.at(sums, rng.integers(first, last, n_rows), rows)
        nodes.append(sums)
    return nodes


def searched(rng: np.random.Generator, nodes: list[I64], table: Table, width: int) -> Records:
    """Some of the nodes, each in the slot of its place, in another order."""
    first = slice(0, int(table.mapper.bin_offset[1]))
    sums = np.array([node[first].sum(axis=0) for node in nodes])
    slots = rng.permutation(len(nodes))[: len(nodes) - 3]
    least = np.where(rng.random(len(slots)) < 0.3, 0.1 * sums[slots, 1], 1.0)
    return records(
        SEARCH_NODE, len(slots), slot=slots, width=width, sibling=-1,
        grad=sums[slots, 0], hess=sums[slots, 1], min_hess=np.maximum(least, 1.0),
    )  # fmt: skip


class FindVerbs:
    @pytest.mark.parametrize("rules", [PLAIN, REGULARISED], ids=["plain", "regularised"])
    @pytest.mark.parametrize("width", [32, 64])
    @pytest.mark.parametrize("top", [1, 30, 10**6])
    def test_feature_ranges(self, backend: Any, top: int, width: int, rules: GainRules) -> None:
        """Small integers have many equal gains: the order of ties is the same, too."""
        rng = np.random.default_rng(top)
        twin, nodes = self.prepare(backend, rng, top, width, rules)
        for features in ((0, 19), (3, 11), (18, 19), (4, 4), (0, 1)):
            found = twin.work.find(nodes, features)
            assert found.tobytes() == twin.oracle.find(nodes, features).tobytes()
            assert np.all((found["feature"] == -1) | (found["feature"] >= features[0]))

    @pytest.mark.parametrize("onehot", [1.0, 12.0])
    @pytest.mark.parametrize("width", [32, 64])
    @pytest.mark.parametrize("top", [1, 30, 10**6])
    def test_levels(self, backend: Any, top: int, width: int, onehot: float) -> None:
        """Every second feature is a category; ties of steps and of gains go the same way."""
        rng = np.random.default_rng(top)
        rules = REGULARISED._replace(
            cat_smooth=2.0, cat_l2=1.0, max_cat_threshold=20.0, max_cat_to_onehot=onehot
        )
        twin, nodes = self.prepare(backend, rng, top, width, rules, categories=range(0, 19, 2))
        nodes["hess_per_row"] = nodes["hess"] / 50
        for features in ((0, 19), (0, 1), (3, 11), (16, 17)):
            found = twin.work.find(nodes, features)
            assert found.tobytes() == twin.oracle.find(nodes, features).tobytes()
        assert (twin.work.find(nodes, (0, 19))["bin"] == SUBSET).any()

    @pytest.mark.parametrize("width", [32, 64])
    @pytest.mark.parametrize("top", [1, 30, 10**6])
    def test_drawn_cuts(self, backend: Any, top: int, width: int) -> None:
        """Columns of all kinds; other keys draw other cuts."""
        rng, every = np.random.default_rng(top), (0, len(FEATURES))
        twin, nodes = self.prepare(
            backend, rng, top, width, PLAIN, categories=range(0, 19, 4), drawn=range(1, 19, 2)
        )
        nodes["hess_per_row"] = nodes["hess"] / 50
        seen = set()
        for _ in range(3):
            nodes["key"] = rng.integers(0, 2**64, size=len(nodes), dtype=np.uint64)
            for features in (every, (1, 2), (3, 11), (17, 18)):
                found = twin.work.find(nodes, features)
                assert found.tobytes() == twin.oracle.find(nodes, features).tobytes()
            seen.add(b"".join(twin.work.find(nodes, (f, f + 1)).tobytes() for f in range(1, 19, 2)))
        assert len(seen) == 3

    def test_another_pool_and_other_features(self, backend: Any) -> None:
        """Exchanges search sums that they made themselves, and the tree goes on as before."""
        rng = np.random.default_rng(12)
        twin, nodes = self.prepare(backend, rng, 30, 64, PLAIN)
        other, other_nodes = self.prepare(backend, rng, 30, 64, PLAIN)
        allowed = np.zeros((len(other_nodes), len(FEATURES)), dtype=np.uint8)
        allowed[:, [2, 5, 12]] = 1
        allowed[0, 5:] = 0
        whole = (0, len(FEATURES))
        before = twin.work.find(nodes, whole)
        found = twin.work.find(other_nodes, whole, other.work.pool, allowed)
        expected = twin.oracle.find(other_nodes, whole, other.oracle.pool, allowed)
        assert found.tobytes() == expected.tobytes()
        assert set(found["feature"].tolist()) == {2, 5, 12}
        twin.work.find(nodes, whole, twin.work.pool, allowed)
        assert twin.work.find(nodes, whole).tobytes() == before.tobytes()

    @pytest.mark.parametrize("extra_trees", [False, True])
    @pytest.mark.parametrize("width", [32, 64])
    @pytest.mark.parametrize("top", [1, 30])
    def test_rules(self, backend: Any, top: int, width: int, extra_trees: bool) -> None:
        """Monotone features, smoothed and bounded outputs, drawn cuts, features of each node."""
        rng, n = np.random.default_rng(top), len(FEATURES)
        direction = rng.choice([-1, 0, 1], size=n).astype(np.int8)
        direction[::4] = 0  # categories
        ruled = SplitRules(direction, rng.choice([1.0, 0.5], size=n), 3.0, extra_trees)
        rules = REGULARISED._replace(cat_smooth=2.0, cat_l2=1.0, max_cat_to_onehot=4.0)
        twin, nodes = self.prepare(
            backend, rng, top, width, rules, categories=range(0, n, 4), split_rules=ruled,
            drawn=range(1, n, 4),
        )  # fmt: skip
        nodes["hess_per_row"], nodes["output"] = nodes["hess"] / 50, rng.normal(size=len(nodes))
        nodes["key"] = rng.integers(0, 2**63, size=len(nodes))
        for side, sign in (("lower", -1.0), ("upper", 1.0)):
            near = nodes["output"] + sign * 0.1
            nodes[side] = np.where(rng.random(len(nodes)) < 0.5, sign * np.inf, near)
        allowed = (rng.random((len(nodes), n)) < 0.7).astype(np.uint8)
        for features, rows in (((0, n), None), ((3, 11), None), ((0, n), allowed)):
            found = twin.work.find(nodes, features, allowed=rows)
            expected = twin.oracle.find(nodes, features, allowed=rows)
            assert found.tobytes() == expected.tobytes()
            assert np.any(found["feature"] >= 0)

    def test_no_feature_is_allowed(self, backend: Any) -> None:
        rng = np.random.default_rng(13)
        nothing = np.zeros(len(FEATURES), dtype=np.uint8)
        twin, nodes = self.prepare(backend, rng, 30, 32, PLAIN, nothing)
        found = twin.work.find(nodes, (0, len(FEATURES)))
        assert found.tobytes() == twin.oracle.find(nodes, (0, len(FEATURES))).tobytes()
        assert np.all(found["feature"] == -1) and np.all(found["gain"] == -np.inf)

    def prepare(
        self,
        backend: Any,
        rng: np.random.Generator,
        top: int,
        width: int,
        rules: GainRules,
        allowed: NDArray[np.uint8] | None = None,
        categories: Sequence[int] = (),
        split_rules: SplitRules | None = None,
        drawn: Sequence[int] = (),
    ) -> tuple[Twin, Records]:
        """Sums written into a pool, and the nodes to search there."""
        mapper = mapper_of(FEATURES, (np.arange(len(FEATURES)) % 3 != 0).tolist())
        kinds = {"category_features": frozenset(categories), "drawn_features": frozenset(drawn)}
        mapper = replace(mapper, **kinds)
        table = Table(mapper, [np.zeros(10)] * len(FEATURES))
        if allowed is None:
            allowed = (rng.random(len(FEATURES)) < 0.9).astype(np.uint8)
        made = TwinPlan(table, random_integers(rng, 10, (1, 2)), None, 15, width, rules, allowed)
        made.split_rules = split_rules
        twin, nodes = made.start(backend), random_nodes(rng, table, 15, top)
        for slot, sums in enumerate(nodes):
            twin.write(slot, width, sums)
        return twin, searched(rng, nodes, table, width)


class MessageVerbs:
    @pytest.mark.parametrize("width", [32, 64])
    def test_messages(self, backend: Any, width: int) -> None:
        """The same bytes from any backend's pool, and the same sums where they are added."""
        rng = np.random.default_rng(19)
        table = random_table(3, 100, 6)
        made = TwinPlan(table, random_integers(rng, 100, (3, 6)), half_bits=width)
        twin = made.start(backend)
        for slot in range(4):
            grad = rng.integers(-9, 10, table.n_bins)
            hess = rng.integers(0, 2**20, table.n_bins)
            twin.write(slot, width, np.stack([grad, hess], axis=1))
        parts = np.array(
            [(0, 90, 2, width, 0, 0), (0, 90, 0, width, 0, 0), (90, 200, 2, width, 2, 0)],
            dtype=HISTOGRAM_PART,
        )
        sent = pack_messages(twin.work.pool, parts, 3)
        expected = pack_messages(twin.oracle.pool, parts, 3)
        assert [m.tobytes() for m in sent] == [m.tobytes() for m in expected]
        before = twin.oracle.pool.storage.copy()
        places = np.array(
            [(10, 100, 3, width, 0, 0), (110, 200, 1, width, 0, 0)], dtype=HISTOGRAM_PART
        )
        for pool in (twin.work.pool, twin.oracle.pool):
            add_messages(pool, places, [(1, sent[0]), (2, sent[0])])
        wanted = before.copy()
        wanted[3, 10:100] += 2 * before[2, :90]
        wanted[1, 110:200] += 2 * before[0, :90]
        for slot in range(4):
            for found in twin.sums(slot, width):
                np.testing.assert_array_equal(found, wanted[slot])
