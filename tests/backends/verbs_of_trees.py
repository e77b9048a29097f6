"""The verbs of a tree, on any backend: build, subtract, find, divide, sums and values of leaves."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bitgrove.backends.base import GainRules
from bitgrove.kernels.plans import BUILD, DIVISION, SEARCH_NODE, SUBTRACTION, Records, records
from bitgrove.model.tree import Tree
from kernel_cases import mapper_of
from verb_cases import (
    I64,
    PLAIN,
    REFERENCE,
    REGULARISED,
    Integers,
    Plan,
    Table,
    Twin,
    TwinPlan,
    leaf_tree,
    narrowest,
    random_integers,
    random_table,
    search_both,
)

# Around the blocks of rows that threads and thread blocks take.
SIZES = [0, 1, 31, 32, 33, 4095, 4096, 4097, 8193]
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
        twin = TwinPlan(table, integers).start(backend)
        how = {"local_width": 16, "block_rows": 1000}
        parents = [(0, 0, 1500), (2, 1500, 2000)]
        check_search(twin, search_plan(twin, parents, {**how, "total_width": parent}))
        children = [(1, 0, 700), (3, 1900, 2000)]
        plan = search_plan(twin, children, {**how, "total_width": child})
        steps = records(
            SUBTRACTION, 2, parent_slot=[0, 2], built_slot=[1, 3], parent_width=parent,
            built_width=child, out_width=out,
        )  # fmt: skip
        siblings = search_nodes(twin, [(0, 700, 1500), (2, 1500, 1900)], out)
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
    steps["out_width"] = width
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

    def test_another_pool_and_other_features(self, backend: Any) -> None:
        """Exchanges search sums that they made themselves, and the tree goes on as before."""
        rng = np.random.default_rng(12)
        twin, nodes = self.prepare(backend, rng, 30, 64, PLAIN)
        other, other_nodes = self.prepare(backend, rng, 30, 64, PLAIN)
        allowed = np.zeros(len(FEATURES), dtype=np.uint8)
        allowed[[2, 5, 12]] = 1
        whole = (0, len(FEATURES))
        before = twin.work.find(nodes, whole)
        found = twin.work.find(other_nodes, whole, other.work.pool, allowed)
        expected = twin.oracle.find(other_nodes, whole, other.oracle.pool, allowed)
        assert found.tobytes() == expected.tobytes()
        assert set(found["feature"].tolist()) <= {-1, 2, 5, 12}
        assert twin.work.find(nodes, whole).tobytes() == before.tobytes()

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
    ) -> tuple[Twin, Records]:
        """Sums written into a pool, and the nodes to search there."""
        mapper = mapper_of(FEATURES, (np.arange(len(FEATURES)) % 3 != 0).tolist())
        table = Table(mapper, [np.zeros(10)] * len(FEATURES))
        if allowed is None:
            allowed = (rng.random(len(FEATURES)) < 0.9).astype(np.uint8)
        made = TwinPlan(table, random_integers(rng, 10, (1, 2)), None, 15, width, rules, allowed)
        twin, nodes = made.start(backend), random_nodes(rng, table, 15, top)
        for slot, sums in enumerate(nodes):
            twin.write(slot, width, sums)
        return twin, searched(rng, nodes, table, width)


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
        n_rows = sum(SIZES) + 50
        table, integers = random_table(15, n_rows, n_features), random_integers(rng, n_rows, (3, 6))
        rows = rng.permutation(n_rows).astype(np.int32)[: n_rows - 10]
        twin = TwinPlan(table, integers, rows).start(backend)
        for _ in range(3):
            divisions = random_divisions(rng, table, rng.permutation(SIZES).tolist())
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
            expected = twin.oracle.leaf_sums(grad, h, units)
            found = twin.work.leaf_sums(*map(backend.upload, (grad, h)), units)
            assert found.tobytes() == expected.tobytes()
        scores, tree = rng.normal(size=n_rows), leaf_tree(rng.normal(size=n_leaves))
        scores[::7] = -0.0
        mine = backend.upload(scores.copy())
        twin.oracle.add_tree(scores, tree)
        twin.work.add_tree(mine, tree)
        assert backend.download(mine).tobytes() == scores.tobytes()

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
